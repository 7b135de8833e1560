// Directories that killed runtimes left behind are removed; those in use, of other users or still
// needed are not.
import assert from 'node:assert/strict';
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, it } from 'node:test';
import { eventually } from '../../test/support/runtime.ts';
import { type Lock, tryLock } from '../platform/lock.ts';
import { silentLog } from '../platform/log.ts';
import { nativePath } from './options.ts';
import { acquireRuntimeDir } from './runtime-dir.ts';

const bases: string[] = [];
const freshBase = (): string => {
  const base = mkdtempSync(join(tmpdir(), 'e-'));
  bases.push(base);
  return base;
};
const children: ChildProcess[] = [];
after(() => {
  for (const child of children) child.kill('SIGKILL');
  for (const base of bases) rmSync(base, { recursive: true, force: true });
});

/** Makes a directory like that of a killed runtime. */
function makeAbandoned(base: string, name: string): string {
  const dir = join(base, name);
  for (const part of [dir, join(dir, 'agentd'), `${dir}.warden`]) mkdirSync(part, { mode: 0o700 });
  writeFileSync(join(dir, 'agentd', 'agentd.sock'), '');
  writeFileSync(join(`${dir}.warden`, 'bounds'), '');
  tryLock(join(dir, 'lock'))!.release();
  return dir;
}

const acquire = (base: string, isFree = () => true): Promise<Lock> =>
  acquireRuntimeDir(join(base, 'ffffffff'), { log: silentLog, isFree });

describe('acquiring a runtime directory', () => {
  it('removes those of killed runtimes, and nothing else', async () => {
    const base = freshBase();
    makeAbandoned(base, '00000001');
    mkdirSync(join(base, 'not-a-name'));
    const lock = await acquire(base);
    assert.deepEqual(readdirSync(base).sort(), ['ffffffff', 'lock', 'not-a-name']);
    lock.release();
  });

  it('keeps a directory unless it certainly belongs to a dead runtime of this user', async () => {
    const base = freshBase();
    const outside = join(freshBase(), 'kept');
    mkdirSync(outside, { mode: 0o700 });
    const living = tryLock(join(makeAbandoned(base, '00000001'), 'lock'))!;
    rmSync(join(makeAbandoned(base, '00000002'), 'lock')); // an earlier version locked nothing
    chmodSync(makeAbandoned(base, '00000003'), 0o755);
    writeFileSync(join(`${makeAbandoned(base, '00000004')}.warden`, 'stubs'), 'f/srv/shop/.git');
    symlinkSync(outside, join(base, '00000005'));
    tryLock(join(outside, 'lock'))!.release();
    chmodSync(`${makeAbandoned(base, '00000006')}.warden`, 0o711);
    if (process.getuid?.() === 0) chownSync(makeAbandoned(base, '00000007'), 65_534, 65_534);
    const before = readdirSync(base);
    const lock = await acquire(base);
    const now = readdirSync(base).filter((name) => !['lock', 'ffffffff'].includes(name));
    assert.deepEqual(now, before);
    assert.ok(existsSync(outside) && existsSync(join(base, '00000001', 'agentd', 'agentd.sock')));
    living.release();
    lock.release();
    const again = await acquire(base);
    assert.ok(!existsSync(join(base, '00000001')), 'control: it is removed once it is dead');
    again.release();
  });

  it("keeps a directory that a killed warden's janitor still uses", async () => {
    const base = freshBase();
    makeAbandoned(base, '00000001');
    const checked: string[] = [];
    const isBusy = (dir: string): boolean => checked.push(dir) === 0;
    const options = { log: silentLog, isFree: isBusy };
    (await acquireRuntimeDir(join(base, 'ffffffff'), options)).release();
    assert.deepEqual(checked, [join(base, '00000001.warden')]);
    assert.ok(existsSync(join(base, '00000001', 'agentd')));
  });

  it('waits for another runtime that does the same', async () => {
    const base = freshBase();
    const other = tryLock(join(base, 'lock'))!;
    let isTaken = false;
    const taking = acquire(base).then((lock) => {
      isTaken = true;
      return lock;
    });
    await new Promise((resolve) => setTimeout(resolve, 120));
    assert.equal(isTaken, false);
    other.release();
    (await taking).release();
  });
});

/** Starts a runtime without its daemons, as a user does. */
async function startHalf(base: string, name: string): Promise<ChildProcess> {
  const args = { stateDir: join(base, name), mode: 'embedded', readyFd: 1 };
  const code = `import { openRuntime } from ${JSON.stringify(join(import.meta.dirname, 'runtime.ts'))};
    const { options, down } = await openRuntime(${JSON.stringify(args)});
    process.stdin.on('end', () => down()).resume();
    console.log(options.runtimeDir);`;
  const child = spawn(process.execPath, ['--input-type=module-typescript', '-e', code], {
    env: { PATH: process.env.PATH, HOME: base, XDG_RUNTIME_DIR: join(base, 'r') },
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  children.push(child);
  await Promise.race([once(child.stdout!, 'data'), once(child, 'exit')]);
  assert.equal(child.exitCode, null, 'it started');
  return child;
}

describe('a runtime that was killed', () => {
  it('is removed by the next one of the same user, on another state; a live one is not', async () => {
    const base = freshBase();
    const runtimes = join(base, 'r', 'agentd');
    const names = () =>
      readdirSync(runtimes).filter((name) => /^[0-9a-f]{8}(\.warden)?$/.test(name));
    mkdirSync(join(base, 'r'), { mode: 0o700 });
    const first = await startHalf(base, 'one');
    const ofFirst = names();
    assert.equal(ofFirst.length, 2);
    const second = await startHalf(base, 'two');
    for (const name of ofFirst) assert.ok(names().includes(name), 'it lives');
    const ofSecond = names().filter((name) => !ofFirst.includes(name));
    const free = (name: string) =>
      spawnSync(nativePath('warden'), ['--free', join(runtimes, name)]).status;
    const [warden = ''] = ofFirst.filter((name) => name.endsWith('.warden'));
    assert.equal(free(warden), 1, 'its warden holds the lock');
    assert.equal(free('not-there'), 0);
    first.kill('SIGKILL');
    await once(first, 'exit');
    // Its warden and the warden's janitor exit a little later.
    await eventually('the first is swept', async () => {
      const third = await startHalf(base, 'three');
      third.stdin!.end();
      await once(third, 'exit');
      return names().every((name) => !ofFirst.includes(name)) || undefined;
    });
    assert.deepEqual(names().sort(), ofSecond.sort());
    second.stdin!.end();
    await once(second, 'exit');
    assert.deepEqual(names(), []);
  });
});
