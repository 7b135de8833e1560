// Real processes: what a runner starts with, how it ends, and that none outlives its agentd
// unnoticed.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  closeSync,
  existsSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { silentLog } from '../../../platform/log.ts';
import { Fault } from '../../../wire/errors.ts';
import { type LauncherOptions, makeProcessLauncher, type RunExit } from './process-launcher.ts';

const untilEnd = 'process.stdin.resume(); process.stdin.on("end", () => process.exit(7));';
const say = (what: string) =>
  `require("fs").writeFileSync(process.argv[2], JSON.stringify(${what}));`;

function makePlace(t: TestContext, program: string, options: Partial<LauncherOptions> = {}) {
  const dir = mkdtempSync(join(tmpdir(), 'launcher-'));
  const place = { runnerPath: join(dir, 'runner.cjs'), recordsDir: join(dir, 'records'), dir };
  writeFileSync(place.runnerPath, program);
  const launcher = makeProcessLauncher({ ...place, log: silentLog, ...options });
  t.after(async () => {
    await launcher.stopAll();
    rmSync(dir, { recursive: true, force: true });
  });
  const run = async (...argv: string[]) => {
    let exits = 0;
    let tell: (exit: RunExit) => void = () => {};
    const exit = new Promise<RunExit>((done) => {
      tell = done;
    });
    const launched = await launcher.start({
      runId: 'run_1',
      fence: 1,
      agent: 'coder',
      argv,
      onExit: (how) => {
        exits++;
        tell(how);
      },
    });
    return { ...launched, exit, exits: () => exits };
  };
  return { ...place, launcher, run, records: () => readdirSync(place.recordsDir) };
}

/** Waits for what another process does; the test's end is the only limit. */
async function until(t: TestContext, isSo: () => boolean): Promise<void> {
  while (!isSo()) await sleep(5, undefined, { signal: t.signal });
}

function readWhole(file: string): string | undefined {
  const text = existsSync(file) ? readFileSync(file, 'utf8') : '';
  return text === '' ? undefined : text;
}

/** Gone, or only waiting for its parent to take notice. */
function isGone(pid: number): boolean {
  try {
    return /\) [ZX] /.test(readFileSync(`/proc/${pid}/stat`, 'utf8'));
  } catch {
    return true;
  }
}

test('a runner starts with its arguments and nothing else', async (t) => {
  const look = `{
    env: process.env, argv: process.argv.slice(2), cwd: process.cwd(), execArgv: process.execArgv,
    stat: require("fs").readFileSync("/proc/self/stat", "utf8"), pid: process.pid,
  }`;
  const place = makePlace(t, say(look));
  const file = join(place.dir, 'said');
  const { exit, pid } = await place.run(file, '--toold', 'a b');
  assert.deepEqual(await exit, { code: 0, signal: null, stderrTail: '' });
  const said = JSON.parse(readFileSync(file, 'utf8'));
  assert.deepEqual(said.env, {});
  assert.deepEqual(said.argv, [file, '--toold', 'a b']);
  assert.equal(said.cwd, '/');
  assert.deepEqual(said.execArgv, []);
  const [, , group, session] = said.stat.slice(said.stat.lastIndexOf(')') + 2).split(' ');
  assert.equal(said.pid, pid);
  assert.equal(Number(group), pid, 'leads a group of its own');
  assert.equal(Number(session), pid, 'and a session');
});

const links = `require("fs").readdirSync("/proc/self/fd").map((fd) => {
  try { return fd + " " + require("fs").readlinkSync("/proc/self/fd/" + fd); } catch { return ""; }
})`;

/** An agentd in a process of its own, that launches one runner and says its pid. */
const hostProgram = `
  const { makeProcessLauncher } = await import(process.argv[1]);
  const [, , runnerPath, recordsDir, ...argv] = process.argv;
  const log = { info() {}, warn() {}, error() {} };
  const launcher = makeProcessLauncher({ runnerPath, recordsDir, log });
  const plan = { runId: 'run_1', fence: 1, agent: 'coder', argv };
  const { pid } = await launcher.start({ ...plan, onExit: () => process.exit(0) });
  console.log(pid);
  setInterval(() => {}, 1000);`;

function startHost(place: { runnerPath: string; recordsDir: string }, argv: string[], fd?: number) {
  const stdio: ('ignore' | 'pipe' | 'inherit' | number)[] = ['ignore', 'pipe', 'inherit'];
  if (fd !== undefined) {
    while (stdio.length < 63) stdio.push('ignore');
    stdio[63] = fd;
  }
  const module = import.meta.resolve('./process-launcher.ts');
  const words = ['--input-type=module', '-e', hostProgram, '--', module];
  return spawn(process.execPath, [...words, place.runnerPath, place.recordsDir, ...argv], {
    stdio,
  });
}

test('no descriptor passes through, not even one that agentd itself inherited', async (t) => {
  const place = makePlace(t, say(links));
  const file = join(place.dir, 'said');
  const secret = join(place.dir, 'secret');
  writeFileSync(secret, 'key');
  const fd = openSync(secret, 'r');
  t.after(() => closeSync(fd));
  const host = startHost(place, [file], fd);
  await once(host, 'exit');
  const found: string[] = JSON.parse(readFileSync(file, 'utf8'));
  assert.ok(found.length > 3);
  assert.deepEqual(
    found.filter((link) => link.includes(place.dir)),
    [],
  );
  const own =
    /^\d+ (\/dev\/null|\/dev\/urandom|anon_inode:.*|pipe:.*|socket:.*|\/proc\/\d+\/fd)?$|^$/;
  for (const link of found) assert.match(link, own);
  assert.ok(found.includes('1 /dev/null'));
});

test('a crash is reported once, with the end of what it said, however much that was', async (t) => {
  const place = makePlace(
    t,
    'process.stderr.write("x".repeat(3_000_000) + "the last words", () => process.exit(3));',
  );
  const { exit, exits } = await place.run();
  const { code, signal, stderrTail } = await exit;
  assert.equal(code, 3);
  assert.equal(signal, null);
  assert.equal(stderrTail.length, 8_192);
  assert.ok(stderrTail.endsWith('xthe last words'));
  assert.equal(exits(), 1);
  assert.deepEqual(place.records(), []);
});

test('a runner that is not there is a crash that says so', async (t) => {
  const place = makePlace(t, '', { runnerPath: '/nowhere/runner.cjs' });
  const { code, stderrTail } = await (await place.run()).exit;
  assert.equal(code, 1);
  assert.match(stderrTail, /Cannot find module '\/nowhere\/runner\.cjs'/);
});

test('a process that cannot be started at all is a fault', async (t) => {
  const place = makePlace(t, '');
  await assert.rejects(
    place.run('x'.repeat(3_000_000)),
    (error) =>
      error instanceof Fault && error.code === 'unavailable' && error.message.includes('run_1'),
  );
  assert.deepEqual(place.records(), []);
});

test('kill asks first', async (t) => {
  const place = makePlace(
    t,
    `${untilEnd} process.on("SIGTERM", () => process.exit(9)); ${say('1')}`,
    { graceMs: 600_000 },
  );
  const file = join(place.dir, 'said');
  const run = await place.run(file);
  await until(t, () => readWhole(file) !== undefined);
  assert.equal(place.records().length, 1);
  await Promise.all([run.kill('test'), run.kill('again')]);
  assert.deepEqual(await run.exit, { code: 9, signal: null, stderrTail: '' });
  assert.equal(run.exits(), 1);
  assert.deepEqual(place.records(), []);
  await run.kill('after the end');
});

test('kill makes it end when asking does not help', async (t) => {
  const place = makePlace(t, `${untilEnd} process.on("SIGTERM", () => {}); ${say('1')}`, {
    graceMs: 20,
  });
  const file = join(place.dir, 'said');
  const run = await place.run(file);
  await until(t, () => readWhole(file) !== undefined);
  await run.kill('test');
  assert.equal((await run.exit).signal, 'SIGKILL');
  assert.ok(isGone(run.pid));
});

const withChild = `
  const idle = ["-e", "setInterval(() => {}, 1000)"];
  const stdio = ["ignore", "ignore", "inherit"];
  const child = require("child_process").spawn(process.execPath, idle, { stdio });
  ${say('child.pid')}`;

test('what a runner started goes with it, killed or ended by itself', async (t) => {
  for (const ending of [untilEnd, 'child.unref();']) {
    const place = makePlace(t, `${withChild} ${ending}`);
    const file = join(place.dir, 'said');
    const run = await place.run(file);
    await until(t, () => readWhole(file) !== undefined);
    const grandchild = Number(readWhole(file));
    if (ending === untilEnd) await run.kill('test');
    await run.exit;
    await until(t, () => isGone(grandchild));
  }
});

test('stopAll ends them all, also one just starting, and others may follow', async (t) => {
  const place = makePlace(t, untilEnd);
  const runs = await Promise.all([place.run(), place.run()]);
  const late = place.run();
  await place.launcher.stopAll();
  for (const run of [...runs, await late]) {
    assert.equal((await run.exit).signal, 'SIGTERM');
    assert.ok(isGone(run.pid));
  }
  const next = await place.run();
  assert.ok(!isGone(next.pid));
});

test('an onExit that throws harms nobody', async (t) => {
  const place = makePlace(t, '');
  const bad = { runId: 'run_2', fence: 1, agent: 'a', argv: [] };
  const launched = await place.launcher.start({
    ...bad,
    onExit: () => {
      throw new Error('no');
    },
  });
  await launched.kill('test');
  assert.equal((await (await place.run()).exit).code, 0);
});

async function killHost(place: { runnerPath: string; recordsDir: string }, argv: string[]) {
  const host = startHost(place, argv);
  const [line] = await once(host.stdout!, 'data');
  host.kill('SIGKILL');
  await once(host, 'exit');
  return Number(String(line));
}

test('a runner notices the death of its agentd by its stdin', async (t) => {
  const place = makePlace(t, untilEnd);
  const pid = await killHost(place, []);
  await until(t, () => isGone(pid));
  assert.equal(place.records().length, 1, 'the record stays for the next agentd');
  assert.equal(await place.launcher.sweep(), 0);
  assert.deepEqual(place.records(), []);
});

test('a runner that does not notice is ended by the next agentd', async (t) => {
  const place = makePlace(t, 'setInterval(() => {}, 1000); process.on("SIGTERM", () => {});');
  const pid = await killHost(place, []);
  assert.ok(!isGone(pid));
  assert.equal(await place.launcher.sweep(), 1);
  assert.ok(isGone(pid));
  assert.deepEqual(place.records(), []);
});

test('a pid that was given out again, another boot, or a cut-off record harm nobody', async (t) => {
  const place = makePlace(t, untilEnd);
  const run = await place.run();
  const [name] = place.records();
  const file = join(place.recordsDir, name!);
  const entry = JSON.parse(readFileSync(file, 'utf8'));
  const texts = [
    JSON.stringify({ ...entry, started: `${Number(entry.started) - 1}` }),
    JSON.stringify({ ...entry, boot: 'another' }),
    JSON.stringify({ ...entry, pid: 1 }),
    JSON.stringify({ ...entry, pid: 0 }),
    JSON.stringify(entry).slice(0, 20),
    'null',
    '',
  ];
  for (const text of texts) {
    writeFileSync(file, text);
    assert.equal(await place.launcher.sweep(), 0, text);
    assert.ok(!isGone(run.pid), text);
    assert.deepEqual(place.records(), []);
  }
  // The control: the true record does end it.
  writeFileSync(file, JSON.stringify(entry));
  assert.equal(await place.launcher.sweep(), 1);
  assert.equal((await run.exit).signal, 'SIGKILL');
});
