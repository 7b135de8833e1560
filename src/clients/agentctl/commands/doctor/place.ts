// Checks of the places a runtime needs: Node, the state directory, the key, sockets and lock.
import { existsSync, lstatSync } from 'node:fs';
import { join } from 'node:path';
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

export const checkState = (stateDir: string): Finding =>
  checkOwnDir('state', stateDir, `${stateDir} is not there yet; the first up makes it`);

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
