// Checks of the places a runtime needs: Node, the state directory, the key, sockets and lock.
import { accessSync, constants, existsSync, lstatSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { type RuntimeInfo, runtimeDirOf, tryLock } from '../../../../platform/state-dir.ts';
import { Fault } from '../../../../wire/errors.ts';
import type { Env } from '../../command.ts';
import { type Finding, fail, ok, warn } from './finding.ts';

const nodeMajorMin = 24;

export function checkNode(version: string): Finding {
  const major = Number(version.split('.')[0]);
  if (major >= nodeMajorMin) return ok('node', `Node ${version}`);
  return fail(
    'node',
    `Node ${version} is too old, it needs ${nodeMajorMin}`,
    'bin/agentctl version',
  );
}

/** Ours alone: this user's, or as root that of the daemons; entered by nobody else. */
function checkOwnDir(name: string, dir: string, absent: string): Finding {
  const isRoot = process.getuid?.() === 0;
  const stat = lstatSync(dir, { throwIfNoEntry: false });
  if (stat === undefined) return ok(name, absent);
  if (!stat.isDirectory()) return fail(name, `${dir} is not a directory`, `ls -ld ${dir}`);
  if (stat.uid !== process.getuid?.() && !isRoot)
    return fail(name, `${dir} belongs to uid ${stat.uid}, not to this user`, `ls -ld ${dir}`);
  const mode = stat.mode & 0o777;
  if ((mode & 0o077) !== 0)
    return fail(name, `others can enter ${dir} (mode ${mode.toString(8)})`, `chmod 700 ${dir}`);
  const owner = isRoot ? `, of uid ${stat.uid}` : '';
  return ok(name, `${dir} (mode ${mode.toString(8)}${owner})`);
}

export function checkState(stateDir: string): Finding {
  const absent = `${stateDir} is not there yet; the first up makes it`;
  const found = checkOwnDir('state', stateDir, absent);
  return found.status === 'ok' ? (notWritable(stateDir) ?? found) : found;
}

/** By what the kernel says of it, or of the nearest above it that is there. */
function notWritable(stateDir: string): Finding | undefined {
  let at = stateDir;
  while (!existsSync(at)) at = dirname(at);
  try {
    accessSync(at, constants.W_OK);
    return undefined;
  } catch (error) {
    const { code = 'error' } = error as NodeJS.ErrnoException;
    const what = at === stateDir ? 'be written' : `be made in ${at}`;
    const fix = code === 'EROFS' ? `findmnt -T ${at}` : `ls -ld ${at}`;
    return fail('state', `${stateDir} cannot ${what} (${code})`, fix);
  }
}

/** Whether this user may look into it; what is not there can be looked into. */
export function isReadable(stateDir: string): boolean {
  try {
    accessSync(stateDir, constants.R_OK | constants.X_OK);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'EACCES';
  }
}

export function checkKey(stateDir: string): Finding {
  const file = join(stateDir, 'operator.key');
  const stat = lstatSync(file, { throwIfNoEntry: false });
  if (stat === undefined) return ok('key', 'no operator key yet; the first up makes it');
  const mode = stat.mode & 0o777;
  if ((mode & 0o077) !== 0)
    return fail('key', `others can read ${file} (mode ${mode.toString(8)})`, `chmod 600 ${file}`);
  return ok('key', `${file} (mode ${mode.toString(8)})`);
}

export function checkRuntimeDir(
  stateDir: string,
  env: Env,
  info: RuntimeInfo | undefined,
): Finding {
  try {
    const dir = info?.runtime_dir ?? runtimeDirOf(stateDir, env);
    return checkOwnDir('sockets', dir, `${dir} is where the sockets will be`);
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    return fail('sockets', error.message, 'export XDG_RUNTIME_DIR=/run/user/$(id -u)');
  }
}

export function checkLock(stateDir: string, info: RuntimeInfo | undefined): Finding {
  const file = join(stateDir, 'runtime.lock');
  if (info !== undefined) return ok('lock', `held by the runtime with pid ${info.pid}`);
  if (!existsSync(file)) return ok('lock', 'free: no runtime has started here yet');
  let lock: ReturnType<typeof tryLock>;
  try {
    lock = tryLock(file);
  } catch (error) {
    return fail('lock', `${file} cannot be opened: ${(error as Error).message}`, `ls -l ${file}`);
  }
  if (lock === undefined)
    return warn('lock', `some process holds ${file}, and no runtime answers`, `fuser -v ${file}`);
  lock.release();
  return ok('lock', 'free: a runtime can start');
}
