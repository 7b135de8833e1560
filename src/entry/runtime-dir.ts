// The runtime directory of a runtime that no keeper keeps: made, locked for as long as the runtime
// lives, and what killed runtimes of this user have left beside it is removed. Started as root, the
// keeper does this (native/keeper/sweep.c).
import { spawnSync } from 'node:child_process';
import { lstatSync, readdirSync, rmSync, statSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { wardenPaths } from '../daemons/sandboxd/bounds.ts';
import type { Log } from '../platform/log.ts';
import { type Lock, ownRuntimeDir, tryLock, waitForLock } from '../platform/state-dir.ts';
import { fault } from '../wire/errors.ts';
import { assertNative } from './native.ts';

const LOCK = 'lock';
const WAIT_MS = 10_000;
const FREE_MS_MAX = 5_000;
const uid = process.getuid?.() ?? 0;

export type RuntimeDirOptions = { log: Log; isFree?: (wardenDir: string) => boolean };

/** Held until the runtime has ended and its directory is gone. */
export async function takeRuntimeDir(dir: string, options: RuntimeDirOptions): Promise<Lock> {
  ownRuntimeDir(dir);
  const base = dirname(dir);
  // Whoever makes a directory here or removes one does it alone: one that was just made, and is not
  // locked yet, must not be taken for one that was left.
  const alone = await waitForLock(join(base, LOCK), WAIT_MS);
  if (alone === undefined)
    throw fault('unavailable', `another runtime has been starting in ${base} for long`, {
      hint: `Try again; if it stays so, see who holds ${join(base, LOCK)}.`,
    });
  try {
    ownRuntimeDir(dir); // The one that was there may have been swept until now.
    const lock = tryLock(join(dir, LOCK));
    if (lock === undefined) throw fault('state_in_use', `${dir} is held by another runtime`);
    sweep(dir, options);
    return lock;
  } finally {
    alone.release();
  }
}

/** What cannot be swept is said, and is no reason not to start. */
function sweep(own: string, { log, isFree = isWardenFree }: RuntimeDirOptions): void {
  const base = dirname(own);
  for (const name of readdirSync(base)) {
    if (!/^[0-9a-f]{8}$/.test(name) || name === basename(own)) continue;
    const dir = join(base, name);
    try {
      if (isLeft(dir, isFree)) remove(dir, log);
    } catch (error) {
      log.warn('what a runtime left could not be removed', { dir, error });
    }
  }
}

/** The lock is the proof: without one it may be of an earlier version, and live. */
function isLeft(dir: string, isFree: (wardenDir: string) => boolean): boolean {
  const warden = wardenPaths(dir).dir;
  if (!isOurs(dir) || lstatSync(join(dir, LOCK), { throwIfNoEntry: false })?.isFile() !== true)
    return false;
  const lock = tryLock(join(dir, LOCK));
  if (lock === undefined) return false;
  lock.release();
  if (lstatSync(warden, { throwIfNoEntry: false }) === undefined) return true;
  // The next start on that state takes away what the journal names.
  const journal = statSync(join(warden, 'stubs'), { throwIfNoEntry: false });
  return isOurs(warden) && (journal?.size ?? 0) === 0 && isFree(warden);
}

function isOurs(dir: string): boolean {
  const stat = lstatSync(dir, { throwIfNoEntry: false });
  return stat?.isDirectory() === true && stat.uid === uid && (stat.mode & 0o077) === 0;
}

/** The lock goes last: a half that it does not name would stay for ever. */
function remove(dir: string, log: Log): void {
  rmSync(wardenPaths(dir).dir, { recursive: true, force: true });
  for (const name of readdirSync(dir))
    if (name !== LOCK) rmSync(join(dir, name), { recursive: true, force: true });
  rmSync(dir, { recursive: true });
  log.info('removed what a killed runtime had left', { dir });
}

/** Neither a warden nor the janitor of a killed one holds the lock there. */
function isWardenFree(dir: string): boolean {
  const options = { timeout: FREE_MS_MAX, stdio: 'ignore', env: {} } as const;
  return spawnSync(assertNative('warden'), ['--free', dir], options).status === 0;
}
