// Doctor checks that need no running runtime: Node, the state directory, the operator key, the
// sockets, the lock, the audit log, free disk space, the clock.
import { spawnSync } from 'node:child_process';
import { accessSync, constants, existsSync, lstatSync, statfsSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { tryLock } from '../../../../platform/lock.ts';
import { type RuntimeInfo, runtimeDirFor } from '../../../../platform/state-dir.ts';
import { Fault } from '../../../../wire/errors.ts';
import type { CommandEnv } from '../../env.ts';
import { findProgram } from '../../programs.ts';
import { formatSize } from '../../show/amounts.ts';
import { toOneLine } from '../../show/plain.ts';
import { readRuntimeInfo } from '../../state.ts';
import { type DoctorFinding, fail, ok, warn } from './finding.ts';

/** Enough for what came since the last verification. */
const VERIFY_TIMEOUT_MS = 3_000;
const FREE_BYTES_WARN = 1 << 30;
const FREE_BYTES_FAIL = 100 << 20;
/** Clocks of different disks and hosts differ slightly. */
const CLOCK_SLACK_MS = 5_000;

export function checkAudit(stateDir: string): DoctorFinding {
  const dir = join(stateDir, 'audit');
  if (!existsSync(join(dir, 'audit.jsonl'))) return ok('audit', 'no audit log yet');
  try {
    const program = findProgram('audit-verify');
    const result = spawnSync(process.execPath, [program, '--own', dir], {
      env: {},
      encoding: 'utf8',
      timeout: VERIFY_TIMEOUT_MS,
    });
    if (result.signal !== null || result.error !== undefined)
      return warn(
        'audit',
        'too many events since the last verification for a quick check',
        'agentctl audit verify',
      );
    const summary = toOneLine((result.stdout || result.stderr).split('\n')[0]!);
    if (result.status === 0) return ok('audit', summary);
    return fail('audit', summary, 'agentctl audit verify');
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    return warn('audit', error.message, error.hint);
  }
}

export function checkDisk(stateDir: string): DoctorFinding {
  let dir = stateDir;
  while (!existsSync(dir)) dir = dirname(dir);
  const { bavail, bsize } = statfsSync(dir);
  const free = bavail * bsize;
  const text = `${formatSize(free)} free on the disk of ${stateDir}`;
  if (free < FREE_BYTES_FAIL) return fail('disk', text, `df -h ${dir}`);
  return free < FREE_BYTES_WARN ? warn('disk', text, `df -h ${dir}`) : ok('disk', text);
}

export function checkClock(stateDir: string, nowMs: number): DoctorFinding {
  const times: [what: string, ms: number][] = [];
  const info = readRuntimeInfo(stateDir);
  if (info !== undefined) times.push(['the runtime start', Date.parse(info.started_at)]);
  for (const name of ['audit/audit.jsonl', 'operator.key']) {
    const stat = statSync(join(stateDir, name), { throwIfNoEntry: false });
    if (stat !== undefined) times.push([name, stat.mtimeMs]);
  }
  const ahead = times.find(([, ms]) => ms > nowMs + CLOCK_SLACK_MS);
  const now = new Date(nowMs).toISOString();
  if (ahead === undefined) return ok('clock', `${now}, after everything written here`);
  const when = new Date(ahead[1]).toISOString();
  return warn(
    'clock',
    `the clock says ${now}, but ${ahead[0]} is dated ${when}: the clock was set back`,
    'date -u',
  );
}

const NODE_MAJOR_MIN = 24;

export function checkNode(version: string): DoctorFinding {
  const major = Number(version.split('.')[0]);
  if (major >= NODE_MAJOR_MIN) return ok('node', `Node ${version}`);
  return fail(
    'node',
    `Node ${version} is too old; ${NODE_MAJOR_MIN} is required`,
    'bin/agentctl version',
  );
}

/** The directory must belong to this user (as root: to the daemons) and be closed to others. */
function checkOwnDir(name: string, dir: string, absent: string): DoctorFinding {
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

export function checkState(stateDir: string): DoctorFinding {
  const absent = `${stateDir} does not exist yet; the first agentctl up creates it`;
  const found = checkOwnDir('state', stateDir, absent);
  return found.status === 'ok' ? (findUnwritable(stateDir) ?? found) : found;
}

/** Checks the directory, or its nearest existing parent. */
function findUnwritable(stateDir: string): DoctorFinding | undefined {
  let at = stateDir;
  while (!existsSync(at)) at = dirname(at);
  try {
    accessSync(at, constants.W_OK);
    return undefined;
  } catch (error) {
    const { code = 'error' } = error as NodeJS.ErrnoException;
    const what = at === stateDir ? 'be written' : `be created in ${at}`;
    const fix = code === 'EROFS' ? `findmnt -T ${at}` : `ls -ld ${at}`;
    return fail('state', `${stateDir} cannot ${what} (${code})`, fix);
  }
}

/** True also for a directory that does not exist. */
export function isReadable(stateDir: string): boolean {
  try {
    accessSync(stateDir, constants.R_OK | constants.X_OK);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'EACCES';
  }
}

export function checkKey(stateDir: string): DoctorFinding {
  const file = join(stateDir, 'operator.key');
  const stat = lstatSync(file, { throwIfNoEntry: false });
  if (stat === undefined) return ok('key', 'no operator key yet; the first agentctl up creates it');
  const mode = stat.mode & 0o777;
  if ((mode & 0o077) !== 0)
    return fail('key', `others can read ${file} (mode ${mode.toString(8)})`, `chmod 600 ${file}`);
  return ok('key', `${file} (mode ${mode.toString(8)})`);
}

export function checkRuntimeDir(
  stateDir: string,
  env: CommandEnv,
  info: RuntimeInfo | undefined,
): DoctorFinding {
  try {
    const dir = info?.runtime_dir ?? runtimeDirFor(stateDir, env);
    return checkOwnDir('sockets', dir, `${dir} (created at start)`);
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    return fail('sockets', error.message, 'export XDG_RUNTIME_DIR=/run/user/$(id -u)');
  }
}

export function checkLock(stateDir: string, info: RuntimeInfo | undefined): DoctorFinding {
  const file = join(stateDir, 'runtime.lock');
  if (info !== undefined) return ok('lock', `held by the runtime (pid ${info.pid})`);
  if (!existsSync(file)) return ok('lock', 'free: no runtime has started here yet');
  let lock: ReturnType<typeof tryLock>;
  try {
    lock = tryLock(file);
  } catch (error) {
    return fail('lock', `${file} cannot be opened: ${(error as Error).message}`, `ls -l ${file}`);
  }
  if (lock === undefined)
    return warn('lock', `a process holds ${file}, but no runtime responds`, `fuser -v ${file}`);
  lock.release();
  return ok('lock', 'free: a runtime can start');
}
