// Starting and stopping a runtime. The runtime is a stub that keeps the entry's contract; the
// scenario tests use the real one.
import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { agentctl, documentOf } from '../testing/run-agentctl.ts';
import { stubRuntime } from '../testing/stub-runtime.ts';

const { withState, ctl, main } = stubRuntime();

test('[K12] up starts the runtime and prints what responds; down stops it', () =>
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

    const twice = await ctl(state, 'up', '--agents', '/other/dir');
    assert.equal(twice.code, 0, twice.stderr);
    assert.match(twice.stdout, /^The runtime is already up: embedded, pid \d+\n/);
    assert.match(twice.stderr, /--agents: no effect on a running runtime; use agentctl restart\./);
    const stay = await ctl(state, 'up', '--foreground');
    assert.equal(stay.code, 1);
    assert.match(stay.stderr, / .*: pid \d+, embedded, since .* \(state_in_use\)/);

    const down = await ctl(state, 'down');
    assert.equal(down.code, 0, down.stderr);
    assert.match(down.stdout, /^Stopped in /);
    assert.ok(existsSync(join(state, 'stopped')));
    assert.equal((await ctl(state, 'status')).code, 6);
    assert.match((await ctl(state, 'down')).stdout, /^No runtime is running on/);
  }));

test('[K12] restart keeps the options that it had, unless others are given', () =>
  withState(async (state) => {
    const readArgs = () => JSON.parse(readFileSync(join(state, 'argv'), 'utf8')) as string[];
    await ctl(state, 'up', '--restarts', '3');
    const again = await ctl(state, 'restart', '--port', '7878', '--json');
    assert.equal(again.code, 0, again.stderr);
    assert.equal(documentOf<{ runtime: object }>(again).runtime !== undefined, true);
    assert.deepEqual(readArgs().slice(2, 6), ['--mode', 'embedded', '--port', '7878']);
    assert.equal(readSupervisorMax(state), 3);

    await ctl(state, 'down');
    assert.equal((await ctl(state, 'restart')).code, 0, 'it starts one that is down');
  }));

const readSupervisorMax = (state: string): number =>
  (JSON.parse(readFileSync(join(state, 'supervisor.json'), 'utf8')) as { restarts_max: number })
    .restarts_max;

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
      main: main(),
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
      main: main(),
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
