// agentctl as people start it: help, errors, exit codes, output for people and for programs.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { FAULTS, type FaultCode, fault } from '../../wire/errors.ts';
import { showHelp } from './help.ts';
import { makeOut, paintNothing } from './out.ts';
import { parse } from './parse.ts';
import { measureWidth } from './show/width.ts';
import { COMMANDS, NOT_YET } from './table.ts';
import { type FakeRuntime, makeStateDir, startFake } from './testing/fake-runtime.ts';
import { agentctl, documentOf } from './testing/run-agentctl.ts';

let fake: FakeRuntime;
before(async () => {
  fake = await startFake();
});
after(() => fake.stop());
const run = (...args: string[]) => agentctl(args, { state: fake.stateDir });

test('every daemon fault becomes its own message, hint and exit status', async () => {
  const codes: FaultCode[] = [
    'bad_request',
    'denied',
    'not_found',
    'conflict',
    'budget',
    'unavailable',
    'internal',
    'bad_manifest',
  ];
  for (const code of codes) {
    const hint = `mend ${code}`;
    fake.script({
      toold: { listTools: () => Promise.reject(fault(code, 'it broke', { hint })) },
    });
    const plain = await run('tool', 'list');
    assert.equal(plain.code, FAULTS[code].exit, code);
    assert.equal(plain.stdout, '');
    assert.equal(plain.stderr, `agentctl: it broke (${code})\n${hint}\n`);
    const json = await run('tool', 'list', '--json');
    assert.equal(json.code, FAULTS[code].exit);
    assert.deepEqual(JSON.parse(json.stderr), { error: { code, message: 'it broke', hint } });
  }
});

test('without a runtime it says so and exits 6', async () => {
  const ran = await agentctl(['status'], { state: makeStateDir() });
  assert.equal(ran.code, 6);
  assert.match(
    ran.stderr,
    /^agentctl: no runtime is running on .* \(runtime_down\)\nStart it with agentctl up/,
  );
  const missing = await agentctl(['status', '--state', '/nowhere/at/all', '--json']);
  assert.equal(missing.code, 6);
  assert.equal(JSON.parse(missing.stderr).error.code, 'runtime_down');
});

test('a runtime that died is down too', async () => {
  const dead = await startFake();
  const { stateDir } = dead;
  await dead.stop();
  const { mkdirSync, writeFileSync } = await import('node:fs');
  mkdirSync(stateDir);
  writeFileSync(`${stateDir}/operator.key`, 'x\n', { mode: 0o600 });
  writeFileSync(`${stateDir}/runtime.json`, JSON.stringify(dead.info));
  const ran = await agentctl(['task', 'list'], { state: stateDir });
  assert.equal(ran.code, 6);
  assert.match(ran.stderr, /agentd on .* does not respond \(runtime_down\)/);
});

test('a daemon that its runtime no longer restarts is reported as such', async () => {
  const dead = await startFake();
  const { stateDir, info } = dead;
  await dead.stop();
  const { mkdirSync, rmSync, writeFileSync } = await import('node:fs');
  mkdirSync(stateDir);
  mkdirSync(info.runtime_dir, { mode: 0o700 });
  try {
    writeFileSync(`${stateDir}/operator.key`, 'x\n', { mode: 0o600 });
    for (const [outdated, message] of [
      [[], /agentd on .* does not respond \(runtime_down\)\nThe runtime restarts it automatically/],
      [['agentd'], /agentd: not restarted, .* changed .*\n.* agentctl down, then agentctl up/],
    ] as const) {
      writeFileSync(`${stateDir}/runtime.json`, JSON.stringify({ ...info, outdated }));
      const ran = await agentctl(['task', 'list'], { state: stateDir });
      assert.equal(ran.code, 6);
      assert.match(ran.stderr, message);
    }
  } finally {
    rmSync(info.runtime_dir, { recursive: true });
  }
});

test('a wrong key exits 3: the runtime responded, and restarting it would not help', async () => {
  const { writeFileSync, readFileSync } = await import('node:fs');
  const file = `${fake.stateDir}/operator.key`;
  const key = readFileSync(file);
  writeFileSync(file, 'wrong\n');
  try {
    const ran = await run('list');
    assert.equal(ran.code, 3);
    assert.match(ran.stderr, /\(unauthenticated\)/);
  } finally {
    writeFileSync(file, key);
  }
});

test('help for all, for a group and for every command', async () => {
  const all = await agentctl([]);
  assert.equal(all.code, 0);
  for (const { path } of COMMANDS) assert.ok(all.stdout.includes(path.join(' ')), path.join(' '));
  const group = await agentctl(['task', '--help']);
  assert.match(group.stdout, /task explain ID/);
  assert.doesNotMatch(group.stdout, /model usage/);
  const command = await agentctl(['task', 'create', '--help']);
  assert.equal(command.code, 0);
  assert.match(command.stdout, /^agentctl task create GOAL \[options\]/);
  assert.match(command.stdout, /--max-cost USD/);
  const table = documentOf<{ commands: { name: string }[] }>(await agentctl(['--help', '--json']));
  assert.equal(table.commands.length, COMMANDS.length);
});

test('help fits 80 columns without leaving anything out', () => {
  const columns = 80;
  for (const args of [[], ['task'], ['model', 'add'], ['task', 'create']]) {
    const { parsed } = parse([...args, '--help']);
    let shown: readonly string[] = [];
    const give = (_: unknown, lines: () => readonly string[]) => {
      shown = lines();
    };
    showHelp(parsed, { ...makeOut(false, {}), paint: paintNothing, columns, print: give });
    for (const line of shown) assert.ok(measureWidth(line) <= columns, line);
    assert.ok(!shown.some((line) => line.endsWith('…')), shown.join('\n'));
  }
});

test('wrong usage exits 2, also for half a command and one that is not in this version', async () => {
  for (const args of [
    ['nonsense'],
    ['task'],
    ['list', '--what'],
    NOT_YET[0]!.split(' '),
    ['tool', 'call'],
  ]) {
    const ran = await agentctl(args);
    assert.equal(ran.code, 2, args.join(' '));
    assert.match(ran.stderr, /^agentctl: .* \(bad_usage\)\n.+\n$/);
  }
});

test('help is also a command, before any other', async () => {
  const word = await agentctl(['help', 'task', 'create']);
  const option = await agentctl(['task', 'create', '--help']);
  assert.deepEqual([word.code, word.stdout], [0, option.stdout]);
  assert.equal((await agentctl(['help'])).stdout, (await agentctl([])).stdout);
  assert.equal((await agentctl(['help', 'nothing'])).code, 2);
});

test('version, also as --version', async () => {
  const json = documentOf(await agentctl(['--version', '--json']));
  assert.deepEqual(Object.keys(json), ['version']);
  for (const spelling of ['version', '--version'])
    assert.match((await agentctl([spelling])).stdout, /^agentctl \d+\.\d+\.\d+ \(Node \d+/);
  const { version } = documentOf<{ version: { runtime: string } }>(await run('version', '--json'));
  assert.equal(version.runtime, '0.0.0-fake');
});

test('completion scripts for three shells, an error for others', async () => {
  for (const [shell, mark] of [
    ['bash', 'complete -o default -F _agentctl agentctl'],
    ['zsh', '#compdef agentctl'],
    ['fish', 'complete -c agentctl'],
  ]) {
    const ran = await agentctl(['completion', shell!]);
    assert.ok(ran.stdout.includes(mark!), shell);
  }
  assert.equal((await agentctl(['completion', 'csh'])).code, 2);
});

test('a pipe that closes early is no error', async () => {
  const { spawn } = await import('node:child_process');
  const { MAIN } = await import('./testing/run-agentctl.ts');
  const child = spawn('sh', ['-c', `"${process.execPath}" "${MAIN}" --help | true; echo done`]);
  let output = '';
  child.stdout.on('data', (chunk) => {
    output += chunk;
  });
  child.stderr.on('data', (chunk) => {
    output += chunk;
  });
  await new Promise((done) => child.on('close', done));
  assert.equal(output, 'done\n');
});
