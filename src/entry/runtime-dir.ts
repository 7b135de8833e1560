// Creates and locks the runtime directory of a runtime without a keeper, and removes those that
// killed runtimes of this user left behind. As root, the keeper does this (native/keeper/sweep.c).
import { spawnSync } from 'node:child_process';
import { lstatSync, readdirSync, rmSync, statSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { wardenPaths } from '../daemons/sandboxd/bounds.ts';
import { type Lock, tryLock, waitForLock } from '../platform/lock.ts';
import type { Log } from '../platform/log.ts';
import { makeRuntimeDir } from '../platform/state-dir.ts';
import { fault } from '../wire/errors.ts';
import { assertNative } from './native.ts';

const LOCK = 'lock';
const LOCK_TIMEOUT_MS = 10_000;
const CHECK_TIMEOUT_MS = 5_000;
const uid = process.getuid?.() ?? 0;

export type RuntimeDirOptions = { log: Log; isFree?: (wardenDir: string) => boolean };

/** Resolves to the lock, to be released once the runtime's directory is removed. */
export async function acquireRuntimeDir(dir: string, options: RuntimeDirOptions): Promise<Lock> {
  makeRuntimeDir(dir);
  const base = dirname(dir);
  // Directories here are created and removed under one lock, so that a new one that is not locked
  // yet is not mistaken for an abandoned one.
  const baseLock = await waitForLock(join(base, LOCK), LOCK_TIMEOUT_MS);
  if (baseLock === undefined)
    throw fault('unavailable', `another runtime is still starting in ${base}`, {
      hint: `Try again; if it fails again, check which process locks ${join(base, LOCK)}.`,
    });
  try {
    makeRuntimeDir(dir); // Another runtime may have removed it before the lock was acquired.
    const lock = tryLock(join(dir, LOCK));
    if (lock === undefined) throw fault('state_in_use', `${dir} is in use by another runtime`);
    sweep(dir, options);
    return lock;
  } finally {
    baseLock.release();
  }
}

/** Logs what cannot be removed, which does not prevent the start. */
function sweep(own: string, { log, isFree = isWardenFree }: RuntimeDirOptions): void {
  const base = dirname(own);
  for (const name of readdirSync(base)) {
    if (!/^[0-9a-f]{8}$/.test(name) || name === basename(own)) continue;
    const dir = join(base, name);
    try {
      if (isAbandoned(dir, isFree)) remove(dir, log);
    } catch (error) {
      log.warn('removing an abandoned runtime directory failed', { dir, error });
    }
  }
}

/** The free lock is the proof: a directory without one may be in use by an earlier version. */
function isAbandoned(dir: string, isFree: (wardenDir: string) => boolean): boolean {
  const warden = wardenPaths(dir).dir;
  if (!isOurs(dir) || lstatSync(join(dir, LOCK), { throwIfNoEntry: false })?.isFile() !== true)
    return false;
  const lock = tryLock(join(dir, LOCK));
  if (lock === undefined) return false;
  lock.release();
  if (lstatSync(warden, { throwIfNoEntry: false }) === undefined) return true;
  // The journal names mount points that the next start on that state has to remove.
  const journal = statSync(join(warden, 'stubs'), { throwIfNoEntry: false });
  return isOurs(warden) && (journal?.size ?? 0) === 0 && isFree(warden);
}

function isOurs(dir: string): boolean {
  const stat = lstatSync(dir, { throwIfNoEntry: false });
  return stat?.isDirectory() === true && stat.uid === uid && (stat.mode & 0o077) === 0;
}

/** Removes the lock last: without it, a partly removed directory would never be swept. */
function remove(dir: string, log: Log): void {
  rmSync(wardenPaths(dir).dir, { recursive: true, force: true });
  for (const name of readdirSync(dir))
    if (name !== LOCK) rmSync(join(dir, name), { recursive: true, force: true });
  rmSync(dir, { recursive: true });
  log.info('removed an abandoned runtime directory', { dir });
}

/** Returns true when neither a warden nor a killed warden's janitor holds the lock. */
function isWardenFree(dir: string): boolean {
  const options = { timeout: CHECK_TIMEOUT_MS, stdio: 'ignore', env: {} } as const;
  return spawnSync(assertNative('warden'), ['--free', dir], options).status === 0;
}
