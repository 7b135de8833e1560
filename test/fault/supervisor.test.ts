// The supervisor, with shell scripts as the runtime: which deaths lead to a restart, when it gives
// up, and what happens to processes that a dead runtime left.
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import {
  chmodSync,
  constants,
  existsSync,
  openSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { type TestContext, test } from 'node:test';
import type { SupervisorRecord } from '../../src/clients/agentctl/supervisor.ts';
import { descendantsOf, isAlive } from '../support/processes.ts';
import { eventually, freshDir, ROOT } from '../support/runtime.ts';

const { O_RDWR, O_CREAT } = constants;
const READY = `echo '{"ready":true,"pid":1}' >&3`;

type Supervised = {
  process: ChildProcess;
  /** Everything written to the pipe of the ready line, once it is closed. */
  received: Promise<string>;
  /** The arguments of each start. */
  starts(): string[];
  record(): SupervisorRecord;
  log(): string;
  ended(): Promise<number | string>;
};

/** `script` runs at each start, in `dir`, with the number of the start in $n. */
function supervise(t: TestContext, script: string, { restarts = 3, dir = freshDir() } = {}) {
  const program = join(dir, 'program');
  const header = ['#!/bin/sh', `cd ${dir}`, 'echo "$*" >>starts', 'n=$(wc -l <starts)'];
  writeFileSync(program, [...header, script, ''].join('\n'));
  chmodSync(program, 0o755);
  const status = openSync(join(dir, 'record'), O_RDWR | O_CREAT);
  const log = openSync(join(dir, 'log'), 'a');
  const options = ['--ready-fd', '3', '--status-fd', '4', '--restarts', String(restarts)];
  const child = spawn(join(ROOT, 'build/supervisor'), [...options, '--', program, '--state', dir], {
    stdio: ['ignore', log, log, 'pipe', status],
  });
  const readText = (name: string) =>
    existsSync(join(dir, name)) ? readFileSync(join(dir, name), 'utf8') : '';
  const ended = new Promise<number | string>((resolve) =>
    child.once('exit', (code, signal) => resolve(signal ?? code ?? -1)),
  );
  t.after(async () => {
    for (const pid of child.pid === undefined ? [] : [child.pid, ...descendantsOf(child.pid)])
      try {
        process.kill(pid, 'SIGKILL');
      } catch {
        // It has ended.
      }
    await ended;
    rmSync(dir, { recursive: true, force: true });
  });
  const supervised: Supervised = {
    process: child,
    received: (child.stdio[3] as Readable)
      .setEncoding('utf8')
      .toArray()
      .then((parts) => parts.join(''))
      // A test has closed it.
      .catch(() => ''),
    starts: () => readText('starts').split('\n').slice(0, -1),
    record: () => JSON.parse(readText('record')) as SupervisorRecord,
    log: () => readText('log'),
    ended: () => ended,
  };
  return { ...supervised, dir };
}

const reaches = (one: Supervised, state: SupervisorRecord['state']) =>
  eventually(`it to be ${state}`, async () => (one.record().state === state ? true : undefined));

test('a runtime that dies is restarted, with the count and the reason as arguments', async (t) => {
  const one = supervise(t, `${READY}; [ $n -lt 3 ] && kill -9 $$; exec sleep 60`);
  assert.equal(await one.received, '{"ready":true,"pid":1}\n', 'of the first start only');
  await eventually('three starts', async () => (one.starts().length === 3 ? true : undefined));
  await reaches(one, 'running');
  const state = `--state ${one.dir}`;
  assert.deepEqual(one.starts(), [
    state,
    `${state} --restarts 1 --restarted-after signal 9`,
    `${state} --restarts 2 --restarted-after signal 9`,
  ]);
  const { pid, restarts, deaths, last } = one.record();
  assert.deepEqual([pid, restarts, deaths, last?.reason], [one.process.pid, 2, 2, 'signal 9']);
  assert.match(one.log(), /"level":"warn".*the runtime ended; restarting it.*"restarts":2/);
  one.process.kill('SIGTERM');
  assert.equal(await one.ended(), 'SIGTERM', 'as the runtime ended');
  assert.equal(one.record().state, 'stopped');
  assert.equal(one.starts().length, 3);
});

test('a crash loop is given up, with an error in the log', async (t) => {
  const one = supervise(t, `[ $n = 1 ] && ${READY}; exit 70`, { restarts: 2 });
  assert.equal(await one.ended(), 70);
  const { state, deaths, restarts, last } = one.record();
  assert.deepEqual([state, deaths, restarts, last?.reason], ['failed', 3, 2, 'exit status 70']);
  assert.equal(one.starts().length, 3);
  assert.match(one.log(), /"level":"error".*crash loop; the runtime is not restarted","deaths":3/);
});

test('an exit with status 0 is final', async (t) => {
  const one = supervise(t, `${READY}; exit 0`);
  assert.equal(await one.ended(), 0);
  assert.deepEqual([one.record().state, one.starts().length], ['stopped', 1]);
});

for (const [what, script, exit, line] of [
  ['refuses', `echo '{"error":{"code":"bad_config"}}' >&3; exit 78`, 78, /^\{"error".*\}\n$/],
  ['exits', 'exit 1', 1, /^$/],
  ['is killed', 'kill -11 $$', 'SIGSEGV', /^$/],
] as const)
  test(`a first start that ${what} is passed on to agentctl up, and not repeated`, async (t) => {
    const one = supervise(t, script);
    assert.match(await one.received, line);
    assert.equal(await one.ended(), exit);
    assert.equal(one.starts().length, 1);
  });

test('a restart that is refused is tried again', async (t) => {
  const refusal = `echo '{"error":{"code":"storage_full"}}' >&3; exit 78`;
  const one = supervise(
    t,
    `[ $n = 2 ] && { ${refusal}; }; ${READY}; [ $n = 1 ] && kill -9 $$
    exec sleep 60`,
  );
  await eventually('three starts', async () => (one.starts().length === 3 ? true : undefined));
  assert.equal(await one.received, '{"ready":true,"pid":1}\n');
  assert.equal(one.record().last?.reason, 'exit status 78');
});

test('SIGTERM between two starts ends it', async (t) => {
  const one = supervise(t, `${READY}; kill -9 $$`, { restarts: 100 });
  // By then the pauses are long.
  await eventually('four starts', async () => (one.starts().length === 4 ? true : undefined));
  await reaches(one, 'restarting');
  one.process.kill('SIGTERM');
  await one.ended();
  const count = one.starts().length;
  assert.equal(one.record().state, 'stopped');
  await new Promise((resolve) => setTimeout(resolve, 3_000));
  assert.equal(one.starts().length, count);
});

test('waits for orphans of a dead runtime, and kills those that stay', async (t) => {
  // As auditd-ai does: it lives on for a moment, without its parent.
  const left = '(trap "" TERM; sleep 1; echo gone >>left) &';
  const hung = '(sleep 600) & echo $! >hung';
  const one = supervise(
    t,
    `cat left hung >>seen 2>/dev/null; [ $n = 1 ] && { ${left} ${hung}; ${READY}; kill -9 $$; }
    ${READY}; exec sleep 60`,
  );
  // The second start writes down what it finds of the first.
  const seen = await eventually('two starts', async () => {
    const lines = readFileSync(join(one.dir, 'seen'), 'utf8').trim().split('\n');
    return lines.length === 2 ? lines : undefined;
  });
  assert.equal(seen[0], 'gone');
  assert.ok(!isAlive(Number(seen[1])), 'the one that stayed');
});

test('stops the runtime when the reader of the ready line has died', async (t) => {
  const one = supervise(t, `while [ ! -e go ]; do sleep 0.05; done; ${READY}; exec sleep 60`);
  (one.process.stdio[3] as Readable).destroy();
  writeFileSync(join(one.dir, 'go'), '');
  assert.equal(await one.ended(), 'SIGTERM');
});

test('a killed supervisor leaves the runtime running', async (t) => {
  const one = supervise(t, `${READY}; echo $$ >pid; exec sleep 60`);
  await reaches(one, 'running');
  const pid = await eventually('its pid', async () =>
    Number(readFileSync(join(one.dir, 'pid'), 'utf8')),
  );
  one.process.kill('SIGKILL');
  await one.ended();
  try {
    assert.ok(isAlive(pid));
  } finally {
    process.kill(pid, 'SIGKILL');
  }
});

test('the runtime gets the ready descriptor, and no other of the supervisor', async (t) => {
  const list = `for fd in /proc/self/fd/*; do echo "$\{fd##*/} $(readlink $fd)"; done`;
  const one = supervise(t, `(${list}) >fds; ${READY}; exec sleep 60`);
  await reaches(one, 'running');
  const fds = readFileSync(join(one.dir, 'fds'), 'utf8');
  assert.match(fds, /^3 pipe:/m, 'control');
  assert.doesNotMatch(fds, /record|signalfd/);
});

test('a second supervisor with the same record is refused', async (t) => {
  const one = supervise(t, `${READY}; exec sleep 60`);
  await reaches(one, 'running');
  const second = supervise(t, `${READY}; exec sleep 60`, { dir: one.dir });
  assert.match(await second.received, /"code":"state_in_use"/);
  assert.equal(await second.ended(), 78);
  assert.equal(one.record().pid, one.process.pid);
});
