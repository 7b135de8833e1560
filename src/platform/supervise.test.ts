// Child processes of the runtime are awaited, restarted and ended, and their faults are passed on.
import assert from 'node:assert/strict';
import { ChildProcess, spawn } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, it } from 'node:test';
import { eventually } from '../../test/support/runtime.ts';
import type { Fault } from '../wire/errors.ts';
import { silentLog } from './log.ts';
import { type SupervisedProcess, type SuperviseOptions, supervise } from './supervise.ts';

const dir = mkdtempSync(join(tmpdir(), 'agentd-v-'));
const running: SupervisedProcess[] = [];
after(async () => {
  for (const one of running) await one.stop(1_000);
  rmSync(dir, { recursive: true, force: true });
});
let made = 0;

async function start(
  code: string,
  env: Record<string, string> = {},
  more: Partial<SuperviseOptions> = {},
): Promise<SupervisedProcess> {
  const file = join(dir, `${made++}.mjs`);
  writeFileSync(file, code);
  const logFile = `${file}.log`;
  const options = { name: 'child', argv: [file], env, logFile, log: silentLog };
  const one = await supervise({ ...options, ...more });
  running.push(one);
  return one;
}
const READY = 'console.log(JSON.stringify({ ready: true }));';
const STAY = 'setInterval(() => {}, 1000);';

const isAlive = (pid: number): boolean => {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
};

describe('supervise', () => {
  it('waits until the child is ready, and writes its stderr to its log file', async () => {
    const one = await start(`setTimeout(() => { console.error('hello'); ${READY} }, 50); ${STAY}`);
    assert.ok(isAlive(one.pid()!));
    assert.match(readFileSync(join(dir, `${made - 1}.mjs.log`), 'utf8'), /hello/);
    await one.stop(5_000);
    assert.equal(isAlive(one.pid()!), false);
  });

  it('reports the fault of a child also when its exit is seen before its output', async () => {
    const refusal = JSON.stringify({ error: { code: 'bad_config', message: 'no', hint: 'yes' } });
    const runShell = (how: string) => start('', {}, { program: '/bin/sh', argv: ['-c', how] });
    await assert.rejects(runShell(`(sleep 0.3; echo '${refusal}') & exit 78`), {
      code: 'bad_config',
    });
    await assert.rejects(runShell('exit 78'), { message: /ended before it was ready \(exit 78\)/ });
    await assert.rejects(runShell('sleep 4 & exit 78'), { message: /\(exit 78\)/ });
  });

  it('passes only the given environment to the child', async () => {
    const out = join(dir, 'env');
    const code = `import { writeFileSync } from 'node:fs';
      const seen = JSON.stringify([process.env, process.cwd()]);
      writeFileSync(${JSON.stringify(out)}, seen); ${READY} ${STAY}`;
    await start(code, { GIVEN: 'yes' });
    assert.deepEqual(JSON.parse(readFileSync(out, 'utf8')), [{ GIVEN: 'yes' }, '/']);
  });

  it('rejects with the fault that the child reports', async () => {
    const body = { error: { code: 'bad_config', message: 'line 3 is wrong', hint: 'Mend it.' } };
    const refusing = `console.log(${JSON.stringify(JSON.stringify(body))}); ${STAY}`;
    await assert.rejects(start(refusing), (error: Fault) => {
      assert.equal(error.code, 'bad_config');
      assert.equal(error.message, 'line 3 is wrong');
      assert.equal(error.hint, 'Mend it.');
      return true;
    });
  });

  it('rejects when the child ends or prints garbage before it is ready', async () => {
    await assert.rejects(start('process.exit(3);'), { code: 'unavailable', message: /exit 3/ });
    await assert.rejects(start("process.kill(process.pid, 'SIGKILL');"), { code: 'unavailable' });
    await assert.rejects(start(`console.log('hello'); ${STAY}`), { code: 'internal' });
  });

  it('restarts a child that dies, with a new pid', async () => {
    const one = await start(`${READY} ${STAY}`);
    const first = one.pid()!;
    process.kill(first, 'SIGKILL');
    const second = await eventually('another child', async () =>
      one.pid() !== first && one.pid() !== undefined && one.restarts() === 1
        ? one.pid()
        : undefined,
    );
    assert.ok(isAlive(second!));
    await one.stop(5_000);
    assert.equal(isAlive(second!), false);
  });

  const back = (one: SupervisedProcess, before: number) =>
    eventually('the child is back', async () => {
      const pid = one.pid();
      return pid !== undefined && pid !== before && isAlive(pid) ? pid : undefined;
    });

  it('keeps retrying while its log cannot be opened', async () => {
    const logs = join(dir, 'logs');
    mkdirSync(logs);
    const one = await start(`${READY} ${STAY}`, {}, { logFile: join(logs, 'x.log') });
    const first = one.pid()!;
    rmSync(logs, { recursive: true });
    process.kill(first, 'SIGKILL');
    await eventually('two tries', async () => one.restarts() >= 2 || undefined);
    mkdirSync(logs);
    await back(one, first);
  });

  it('keeps retrying while the program cannot be run', async () => {
    const one = await start(`${READY} ${STAY}`);
    const first = one.pid()!;
    const { execPath } = process;
    try {
      process.execPath = join(dir, 'not-there');
      process.kill(first, 'SIGKILL');
      await eventually('two tries', async () => one.restarts() >= 2 || undefined);
    } finally {
      process.execPath = execPath;
    }
    await back(one, first);
  });

  /** Also returns whether its program was reported as outdated, and its errors. */
  const startLogged = async () => {
    const code = `${READY} ${STAY}`;
    const file = join(dir, `${made}.mjs`);
    const outdated: boolean[] = [];
    const errors: string[] = [];
    const log = { ...silentLog, error: (message: string) => void errors.push(message) };
    const onOutdated = (isOutdated: boolean) => void outdated.push(isOutdated);
    const one = await start(code, {}, { file, log, onOutdated });
    return { one, code, file, outdated, errors };
  };

  it('does not restart a changed program until it is restored', async () => {
    const { one, code, file, outdated, errors } = await startLogged();
    const first = one.pid()!;
    for (const change of [() => writeFileSync(file, `${code} // new`), () => rmSync(file)]) {
      const before = one.pid()!;
      change();
      process.kill(before, 'SIGKILL');
      await eventually('it is reported', async () => outdated.at(-1) || undefined);
      assert.equal(one.pid(), before);
      writeFileSync(file, code);
      await back(one, before);
      await eventually(
        'the report is withdrawn',
        async () => outdated.at(-1) === false || undefined,
      );
    }
    assert.notEqual(one.pid(), first);
    assert.equal(one.restarts(), 2);
    assert.deepEqual(outdated, [true, false, true, false]);
    assert.deepEqual(errors, Array(2).fill('not restarted: its program has changed'));
  });

  it('reports an unreadable program as unreadable, not as changed', async () => {
    const { one, code, file, outdated, errors } = await startLogged();
    const first = one.pid()!;
    rmSync(file);
    mkdirSync(file);
    process.kill(first, 'SIGKILL');
    await eventually('it is logged', async () => errors.length > 0 || undefined);
    assert.equal(one.pid(), first);
    rmSync(file, { recursive: true });
    writeFileSync(file, code);
    await back(one, first);
    assert.deepEqual(errors, ['not restarted: its program cannot be read; retrying']);
    assert.deepEqual(outdated, []);
  });

  it('refuses to start a program that it cannot read', async () => {
    const file = join(dir, 'a-directory');
    mkdirSync(file);
    await assert.rejects(start(`${READY} ${STAY}`, {}, { file }), {
      code: 'bad_config',
      message: /a-directory cannot be read.*EISDIR/,
    });
  });

  it('waits longer for a first start, which may migrate a database', async () => {
    const slow = `setTimeout(() => { ${READY} }, 600); ${STAY}`;
    const one = await start(slow, {}, { readyMsMax: 100 });
    assert.equal(isAlive(one.pid()!), true);
    assert.equal(one.restarts(), 0);
  });

  it('kills a child that hangs at its start, and starts another', async () => {
    const seen = join(dir, 'starts');
    const code = `import { appendFileSync, readFileSync } from 'node:fs';
      appendFileSync(${JSON.stringify(seen)}, process.pid + '\\n');
      const n = readFileSync(${JSON.stringify(seen)}, 'utf8').trim().split('\\n').length;
      if (n !== 2) ${READY} ${STAY}`;
    const one = await start(code, {}, { readyMsMax: 3_000 });
    process.kill(one.pid()!, 'SIGKILL');
    const pids = await eventually('a third start', async () => {
      const found = readFileSync(seen, 'utf8').trim().split('\n').map(Number);
      return found.length === 3 ? found : undefined;
    });
    assert.equal(isAlive(pids[1]!), false);
  });

  it('waits for the end of a hanging child before it starts another', async (t) => {
    const [seen, both] = [join(dir, 'one-by-one'), join(dir, 'two-at-once')];
    const code = `import { appendFileSync, existsSync, readFileSync } from 'node:fs';
      const before = existsSync(${JSON.stringify(seen)})
        ? readFileSync(${JSON.stringify(seen)}, 'utf8').trim().split('\\n') : [];
      const others = before.filter((pid) => existsSync('/proc/' + pid));
      if (others.length > 0) appendFileSync(${JSON.stringify(both)}, others.join());
      appendFileSync(${JSON.stringify(seen)}, process.pid + '\\n');
      if (before.length !== 1) ${READY} ${STAY}`;
    const one = await start(code, {}, { readyMsMax: 3_000 });
    process.kill(one.pid()!, 'SIGKILL');
    await eventually('a second start', async () => one.restarts() === 1 || undefined);
    const kill = ChildProcess.prototype.kill;
    t.mock.method(ChildProcess.prototype, 'kill', function (this: ChildProcess, signal: 'SIGKILL') {
      setTimeout(() => kill.call(this, signal), 700);
      return true;
    });
    await eventually('a third start', async () => one.restarts() === 2 || undefined);
    t.mock.restoreAll();
    await eventually('it is there', async () =>
      readFileSync(seen, 'utf8').trim().split('\n').length === 3 ? true : undefined,
    );
    assert.equal(existsSync(both), false, 'two lived at once');
  });

  it('does not restart a child after stop, and kills one that ignores SIGTERM', async () => {
    const stubborn = `process.on('SIGTERM', () => {}); ${READY} ${STAY}`;
    const one = await start(stubborn);
    const pid = one.pid()!;
    await one.stop(100);
    assert.equal(isAlive(pid), false);
    await new Promise((resolve) => setTimeout(resolve, 150));
    assert.equal(one.pid(), pid);
    assert.equal(one.restarts(), 0);
    await one.stop(100);
  });

  it('a child sees the end of its parent as the end of its input', async () => {
    const [child, parent, out] = ['child.mjs', 'parent.mjs', 'ended'].map((name) =>
      join(dir, name),
    );
    writeFileSync(
      child!,
      `import { writeFileSync } from 'node:fs';
      const end = () => { writeFileSync(${JSON.stringify(out)}, 'ended'); process.exit(); };
      process.stdin.on('end', end).resume(); ${READY} ${STAY}`,
    );
    const options = { name: 'child', argv: [child], env: {}, logFile: `${child}.log` };
    writeFileSync(
      parent!,
      `import { supervise } from ${JSON.stringify(join(import.meta.dirname, 'supervise.ts'))};
      const log = { info() {}, warn() {}, error() {} };
      await supervise({ ...${JSON.stringify(options)}, log }); console.log('up');`,
    );
    const above = spawn(process.execPath, [parent!], { stdio: ['ignore', 'pipe', 'inherit'] });
    await new Promise((resolve) => above.stdout.once('data', resolve));
    assert.equal(existsSync(out!), false, 'its input is open while its parent lives');
    above.kill('SIGKILL');
    await eventually('the end of the child', async () => (existsSync(out!) ? true : undefined));
  });
});
