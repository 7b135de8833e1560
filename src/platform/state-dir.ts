// Where a runtime keeps what lasts (the state directory), where its sockets are (a short runtime
// path), and that two runtimes never share one: the lock is the kernel's, so a crash frees it.
import {
  existsSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { userInfo } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { RUN_DAEMONS } from '../wire/daemons.ts';
import { fault } from '../wire/errors.ts';
import { SOCKET_PATH_BYTES_MAX } from './http-server.ts';
import { sha256Hex } from './json.ts';
import { assertTrustedAbove } from './trusted-path.ts';

export const STATE_VERSION = 1;

/** The longest socket name is a replayed run's: /<daemon>/run_<26>.<5 digits>r/<daemon>.sock. */
const SOCKET_NAME_BYTES_MAX = 45 + 2 * Math.max(...RUN_DAEMONS.map(({ length }) => length));

export type Env = Readonly<Record<string, string | undefined>>;

export function defaultStateDir(env: Env): string {
  const { AGENTD_STATE = '', XDG_STATE_HOME = '', HOME = '' } = env;
  if (AGENTD_STATE !== '') return resolve(AGENTD_STATE);
  if (XDG_STATE_HOME !== '') return join(XDG_STATE_HOME, 'agentd');
  return join(HOME === '' ? userInfo().homedir : HOME, '.local', 'state', 'agentd');
}

/** The runtime path of a state directory: the same for every process that asks. */
export function runtimeDirOf(stateDir: string, env: Env): string {
  const real = existsSync(stateDir) ? realpathSync(stateDir) : resolve(stateDir);
  const short = sha256Hex(real).slice(0, 8);
  const uid = process.getuid?.() ?? 0;
  const xdg = env.XDG_RUNTIME_DIR;
  const base =
    xdg !== undefined && xdg !== ''
      ? join(xdg, 'agentd')
      : uid === 0
        ? '/run/agentd'
        : `/tmp/agentd-${uid}`;
  const dir = join(base, short);
  if (Buffer.byteLength(dir) + SOCKET_NAME_BYTES_MAX > SOCKET_PATH_BYTES_MAX) {
    throw fault('path_too_long', `the runtime path ${dir} leaves no room for socket names`);
  }
  return dir;
}

/** A directory that is ours alone: made 0700, never a link, never somebody else's. */
export function ownDir(dir: string): string {
  try {
    mkdirSync(dir, { recursive: true, mode: 0o700 });
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== 'EEXIST') throw cause;
    throw fault('bad_config', `${dir} is not a directory`, { cause });
  }
  const stat = lstatSync(dir);
  const uid = process.getuid?.() ?? 0;
  if (!stat.isDirectory() || stat.uid !== uid)
    throw fault('bad_config', `${dir} is not a directory of this user`);
  if ((stat.mode & 0o077) !== 0)
    throw fault('bad_config', `others can enter ${dir}`, { hint: `chmod 700 ${dir}` });
  return dir;
}

/**
 * The directory of the sockets. Its name can be guessed and may lie where everybody can write, so
 * what is above it is looked at too: who owns that could put sockets of their own in place of ours.
 */
export function ownRuntimeDir(dir: string): string {
  ownDir(dir);
  assertTrustedAbove(dir, [process.getuid?.() ?? 0]);
  return dir;
}

/** Makes the tree at first need; refuses what a newer version wrote. */
export function prepareStateDir(dir: string): void {
  mkdirSync(dirname(dir), { recursive: true });
  ownDir(dir);
  const file = join(dir, 'VERSION');
  if (existsSync(file)) {
    const text = readFileSync(file, 'utf8').trim();
    const found = Number(text);
    if (!/^[1-9]\d{0,8}$/.test(text))
      throw fault('storage_broken', `${file} does not hold a version number`);
    if (found > STATE_VERSION) {
      throw fault(
        'state_newer',
        `${dir} was written by a newer agentd (version ${found}, this one knows ${STATE_VERSION})`,
      );
    }
  }
  writeAtomically(file, `${STATE_VERSION}\n`);
  for (const name of ['audit', 'objects', 'logs', 'agents']) ownDir(join(dir, name));
}

export function writeAtomically(file: string, text: string): void {
  const tmp = `${file}.${process.pid}.tmp`;
  try {
    writeFileSync(tmp, text, { mode: 0o600, flush: true });
    renameSync(tmp, file);
  } catch (error) {
    rmSync(tmp, { force: true });
    throw error;
  }
}

export type RuntimeInfo = {
  pid: number;
  /** Who the daemons run as. */
  uid: number;
  mode: 'embedded' | 'split';
  runtime_dir: string;
  started_at: string;
  port: number | null;
  rehearsal: boolean;
  version: string;
  /** Processes that are not started again, because their program was changed since the start. */
  outdated?: readonly string[];
};

export function readRuntimeInfo(stateDir: string): RuntimeInfo | undefined {
  try {
    return JSON.parse(readFileSync(join(stateDir, 'runtime.json'), 'utf8')) as RuntimeInfo;
  } catch {
    return undefined;
  }
}

export type Lock = { release(): void };

const SQLITE_BUSY = 5;
const SQLITE_FULL = 13;

/** SQLite's file lock is a kernel lock: it ends with the process, however that ends. */
export function tryLock(file: string): Lock | undefined {
  const db = new DatabaseSync(file);
  try {
    db.exec('PRAGMA busy_timeout=0; PRAGMA locking_mode=EXCLUSIVE; BEGIN EXCLUSIVE;');
  } catch (cause) {
    db.close();
    const code = ((cause as { errcode?: number }).errcode ?? 0) % 256;
    if (code === SQLITE_BUSY) return undefined;
    if (code === SQLITE_FULL)
      throw fault('storage_full', `the disk that holds ${file} is full`, { cause });
    const why = (cause as Error).message;
    throw fault('storage_broken', `the lock ${file} cannot be taken: ${why}`, {
      cause,
      hint: 'Look at that file and its disk. It holds nothing: while no runtime runs, remove it.',
    });
  }
  return { release: () => db.close() };
}

export async function waitForLock(file: string, waitMs: number): Promise<Lock | undefined> {
  const end = Date.now() + waitMs;
  for (;;) {
    const lock = tryLock(file);
    if (lock !== undefined || Date.now() >= end) return lock;
    await new Promise((done) => setTimeout(done, 50));
  }
}
