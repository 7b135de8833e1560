// Starting and stopping a runtime. The runtime is a stub that keeps the entry's contract; the
// scenario tests use the real one.
import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { copyProgram } from '../testing/copied-program.ts';
import { agentctl, documentOf } from '../testing/run-agentctl.ts';

const FAKE = new URL('../testing/', import.meta.url);

/** Sends ready, an error, or nothing, as the file `behave` in the state directory asks. */
const ENTRY = `
import { existsSync, readFileSync, rmSync, writeFileSync, writeSync } from 'node:fs';
import { startFake } from '${new URL('fake-runtime.ts', FAKE)}';
import { agent, model } from '${new URL('fixtures.ts', FAKE)}';
const argv = process.argv.slice(2);
const state = argv[argv.indexOf('--state') + 1];
const fd = Number(argv[argv.indexOf('--ready-fd') + 1]);
const send = (line) => writeSync(fd, JSON.stringify(line) + '\\n');
const behave = existsSync(state + '/behave') ? readFileSync(state + '/behave', 'utf8') : '';
writeFileSync(state + '/argv', JSON.stringify(argv));
if (behave === 'refuse') {
  send({ error: { code: 'bad_config', message: 'agentd.yaml:3: unknown key', hint: 'Remove it.' } });
  process.exit(78);
}
if (behave === 'slow') {
  writeFileSync(state + '/pid', String(process.pid));
  setTimeout(() => process.exit(1), 60_000);
  await new Promise(() => undefined);
}
if (behave === 'die') {
  console.error(JSON.stringify({ level: 'error', message: 'the port is taken' }));
  process.exit(1);
}
const fake = await startFake({
  agentd: {
    listAgents: async () => ({ agents: [agent('planner')], problems: [] }),
  },
  modeld: { listModels: async () => ({ models: [model('coder-large')], providers: [] }) },
}, state);
process.on('SIGTERM', async () => {
  rmSync(state + '/runtime.json');
  rmSync(fake.info.runtime_dir, { recursive: true });
  writeFileSync(state + '/stopped', '');
  setTimeout(() => process.exit(0), 50);
});
send({ ready: true });
`;

let program: ReturnType<typeof copyProgram>;
before(() => {
  const names = ['embedded', 'split', 'as-root'];
  program = copyProgram(Object.fromEntries(names.map((name) => [`entry/${name}.ts`, ENTRY])));
});
after(() => program.remove());

async function withState(use: (state: string) => Promise<void>): Promise<void> {
  const state = mkdtempSync(join(tmpdir(), 'actl-up-'));
  try {
    await use(state);
  } finally {
    await ctl(state, 'down');
    rmSync(state, { recursive: true, force: true });
  }
}
const ctl = (state: string, ...args: string[]) => agentctl(args, { state, main: program.main });

test('up starts the runtime and prints what responds; down stops it', () =>
  withState(async (state) => {
    const up = await ctl(state, 'up', '--split', '--port', '7777', '--agents', '/some/dir');
    assert.equal(up.code, 0, up.stderr);
    assert.match(up.stdout, /^The runtime is up: embedded, pid \d+\n/);
    assert.match(up.stdout, /model {3}the rehearsal responds, not a real model; add one/);
    assert.match(up.stdout, /agents {2}1 agent: planner\n/);
    assert.match(up.stdout, /\nNext: agentctl task create "what you want done" --wait\n$/);
    assert.deepEqual(JSON.parse(readFileSync(join(state, 'argv'), 'utf8')), [
      '--state',
      state,
      '--mode',
      'split',
      '--port',
      '7777',
      '--agents',
      '/some/dir',
      '--ready-fd',
      '3',
    ]);
    assert.ok(existsSync(join(state, 'logs', 'runtime.log')));

    const twice = await ctl(state, 'up');
    assert.equal(twice.code, 1);
    const holder = / .*: pid \d+, embedded, since .* \(state_in_use\)/;
    assert.match(twice.stderr, holder);

    const down = await ctl(state, 'down');
    assert.equal(down.code, 0, down.stderr);
    assert.match(down.stdout, /^Stopped in /);
    assert.ok(existsSync(join(state, 'stopped')));
    assert.equal((await ctl(state, 'status')).code, 6);
    assert.match((await ctl(state, 'down')).stdout, /^No runtime is running on/);
  }));

test('up --json prints one document', () =>
  withState(async (state) => {
    const up = await ctl(state, 'up', '--json');
    const { runtime } = documentOf<{ runtime: Record<string, unknown> }>(up);
    assert.deepEqual([runtime.state_dir, runtime.rehearsal], [state, true]);
    assert.equal(up.stderr, '');
    const { down } = documentOf<{ down: Record<string, unknown> }>(
      await ctl(state, 'down', '--json'),
    );
    assert.equal(down.was_running, true);
  }));

test('a runtime that refuses to start reports its own fault', () =>
  withState(async (state) => {
    writeFileSync(join(state, 'behave'), 'refuse');
    const up = await ctl(state, 'up');
    assert.equal(up.code, 78);
    assert.match(up.stderr, /agentctl: agentd\.yaml:3: unknown key \(bad_config\)\nRemove it\.\n$/);
  }));

test('when a runtime dies at the start, up prints its last log lines', () =>
  withState(async (state) => {
    writeFileSync(join(state, 'behave'), 'die');
    const up = await ctl(state, 'up');
    assert.equal(up.code, 70);
    assert.match(up.stderr, /ended while starting \(exit 1\): the port is taken \(internal\)/);
  }));

test('Ctrl-C while it starts ends what was started, and prints that nothing runs', () =>
  withState(async (state) => {
    writeFileSync(join(state, 'behave'), 'slow');
    const ran = await agentctl(['up'], {
      state,
      main: program.main,
      watch: ({ stderr }) => (stderr.includes('Starting') ? 'SIGINT' : undefined),
    });
    assert.equal(ran.code, 130);
    assert.match(ran.stderr, /The runtime was not started\.\n$/);
    // It may not have come so far.
    const pid = existsSync(join(state, 'pid')) ? readFileSync(join(state, 'pid'), 'utf8') : '';
    assert.ok(pid === '' || !existsSync(`/proc/${pid}`), `${pid} is still there`);
  }));

test('a runtime.json left by a crash does not block a start', () =>
  withState(async (state) => {
    const left = { pid: 2 ** 30, mode: 'embedded', runtime_dir: '/nowhere', started_at: 'then' };
    writeFileSync(join(state, 'runtime.json'), JSON.stringify(left));
    assert.equal((await ctl(state, 'up')).code, 0);
  }));

test('another program with the pid of a dead runtime is left alone', () =>
  withState(async (state) => {
    const left = {
      pid: process.pid,
      mode: 'embedded',
      runtime_dir: '/nowhere',
      started_at: 'then',
    };
    writeFileSync(join(state, 'runtime.json'), JSON.stringify(left));
    const down = await ctl(state, 'down');
    assert.deepEqual([down.code, /No runtime is running/.test(down.stdout)], [0, true]);
  }));

test('up --foreground runs until a signal stops it', () =>
  withState(async (state) => {
    const ran = await agentctl(['up', '--foreground'], {
      state,
      main: program.main,
      watch: ({ stdout, stderr }) =>
        stdout.includes('Next:') && stderr.includes('Ctrl-C') ? 'SIGINT' : undefined,
    });
    assert.equal(ran.code, 0, ran.stderr);
    assert.ok(existsSync(join(state, 'stopped')));
  }));

test('a state directory that cannot be created is named, and not reported as a bug', async () => {
  const dir = mkdtempSync(join(tmpdir(), 'actl-up-'));
  try {
    writeFileSync(join(dir, 'file'), '');
    for (const state of [join(dir, 'file', 'below'), '/proc/agentd-is-not-here']) {
      const ran = await ctl(state, 'up');
      assert.equal(ran.code, 78, ran.stderr);
      assert.match(
        ran.stderr,
        /the state directory .* cannot be created \(\w+\) \(bad_config\)\nName/,
      );
    }
  } finally {
    rmSync(dir, { recursive: true });
  }
});
