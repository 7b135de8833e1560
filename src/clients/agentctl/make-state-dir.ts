// Creates the state directory, with an error for each way that fails, and writes files in it as
// its owner when run as root: a link planted there must not lead root elsewhere, and the files
// must belong to the daemons. Not mkdir with `recursive`: below /proc that never returns.
import { closeSync, fstatSync, mkdirSync, openSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fault } from '../../wire/errors.ts';

const HINT = 'Name a directory that this user may write, with --state or AGENTD_STATE.';

export function makeStateDir(stateDir: string): void {
  makeOrFault(stateDir, stateDir);
  runAsOwner(stateDir, (here) => makeOrFault(join(here, 'logs'), stateDir));
  const { uid } = statSync(stateDir);
  // As root it may belong to the daemons' user, which the configuration names.
  if (uid === process.getuid?.() || process.getuid?.() === 0) return;
  throw fault(
    'bad_config',
    `the state directory ${stateDir} belongs to another user (uid ${uid})`,
    {
      hint: 'Use it as that user, or name another with --state or AGENTD_STATE.',
    },
  );
}

/** Makes missing parents too. Node's `recursive` reports a read-only disk as ENOENT. */
export function makeDirs(dir: string, mode: number): void {
  const missing: string[] = [];
  let at = dir;
  while (statSync(at, { throwIfNoEntry: false }) === undefined && at !== dirname(at)) {
    missing.unshift(at);
    at = dirname(at);
  }
  for (const path of missing) mkdirSync(path, { mode });
}

function makeOrFault(dir: string, stateDir: string): void {
  try {
    makeDirs(dir, 0o700);
  } catch (cause) {
    const { code = 'error' } = cause as NodeJS.ErrnoException;
    const what = `the state directory ${stateDir} cannot be created (${code})`;
    throw fault('bad_config', what, { hint: HINT, cause });
  }
}

/**
 * Calls `work` with a path through the open descriptor: the owner may not be able to enter the
 * parents, such as root's home.
 */
export function runAsOwner<T>(dir: string, work: (here: string) => T): T {
  if (process.getuid?.() !== 0) return work(dir);
  const fd = openSync(dir, 'r');
  const groups = process.getgroups!();
  try {
    const { uid, gid } = fstatSync(fd);
    if (uid === 0) return work(dir);
    process.setgroups!([]);
    process.setegid!(gid);
    process.seteuid!(uid);
    return work(`/proc/self/fd/${fd}`);
  } catch (error) {
    throw withOriginalPath(dir, error, `/proc/self/fd/${fd}`);
  } finally {
    process.seteuid!(0);
    process.setegid!(0);
    process.setgroups!(groups);
    closeSync(fd);
  }
}

/** Replaces the descriptor path in an error's text. */
function withOriginalPath(dir: string, error: unknown, fdPath: string): unknown {
  const { path } = error as NodeJS.ErrnoException;
  if (error instanceof Error && path?.startsWith(fdPath) === true) {
    (error as NodeJS.ErrnoException).path = dir + path.slice(fdPath.length);
    error.message = error.message.replaceAll(fdPath, dir);
  }
  return error;
}
