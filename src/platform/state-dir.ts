// Prepares a runtime's state directory and the short runtime directory for its sockets.
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
import { RUN_DAEMONS } from '../wire/daemons.ts';
import { fault } from '../wire/errors.ts';
import { SOCKET_PATH_BYTES_MAX } from './http-server.ts';
import { sha256Hex } from './json.ts';
import { assertRestoreEnded } from './restore-record.ts';
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

/** Returns a state directory's runtime directory: the same in every process of that user. */
export function runtimeDirFor(
  stateDir: string,
  env: Env,
  uid: number = process.getuid?.() ?? 0,
): string {
  const real = existsSync(stateDir) ? realpathSync(stateDir) : resolve(stateDir);
  const short = sha256Hex(real).slice(0, 8);
  const xdg = env.XDG_RUNTIME_DIR;
  const base =
    xdg !== undefined && xdg !== ''
      ? join(xdg, 'agentd')
      : uid === 0
        ? '/run/agentd'
        : `/tmp/agentd-${uid}`;
  const dir = join(base, short);
  if (Buffer.byteLength(dir) + SOCKET_NAME_BYTES_MAX > SOCKET_PATH_BYTES_MAX) {
    throw fault('path_too_long', `the runtime path ${dir} is too long for the sockets in it`);
  }
  return dir;
}

/** Makes a directory with mode 0700. Throws if it is a link, another user's, or open to others. */
export function makePrivateDir(dir: string): string {
  try {
    mkdirSync(dir, { recursive: true, mode: 0o700 });
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== 'EEXIST') throw cause;
    throw fault('bad_config', `${dir} is not a directory`, { cause });
  }
  const stat = lstatSync(dir);
  const uid = process.getuid?.() ?? 0;
  if (!stat.isDirectory() || stat.uid !== uid)
    throw fault('bad_config', `${dir} is not a directory owned by this user`);
  if ((stat.mode & 0o077) !== 0)
    throw fault('bad_config', `${dir} is open to other users`, { hint: `chmod 700 ${dir}` });
  return dir;
}

/**
 * Makes the directory of the sockets. Its path is predictable and may be below /tmp, so the
 * directories above it are checked too: their owner could replace our sockets.
 */
export function makeRuntimeDir(dir: string): string {
  makePrivateDir(dir);
  assertTrustedAbove(dir, [process.getuid?.() ?? 0]);
  return dir;
}

/**
 * Makes the directories that are missing. Throws if a newer version wrote the state, or if only a
 * part of it was restored.
 */
export function prepareStateDir(dir: string): void {
  mkdirSync(dirname(dir), { recursive: true });
  makePrivateDir(dir);
  assertRestoreEnded(dir);
  const file = join(dir, 'VERSION');
  if (existsSync(file)) {
    const text = readFileSync(file, 'utf8').trim();
    const found = Number(text);
    if (!/^[1-9]\d{0,8}$/.test(text))
      throw fault('storage_broken', `${file} does not contain a version number`);
    if (found > STATE_VERSION) {
      throw fault(
        'state_newer',
        `${dir} was written by a newer agentd (version ${found}, this one supports ${STATE_VERSION})`,
      );
    }
  }
  writeAtomically(file, `${STATE_VERSION}\n`);
  for (const name of ['audit', 'objects', 'logs', 'agents']) makePrivateDir(join(dir, name));
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
  /** The user that the daemons run as. */
  uid: number;
  mode: 'embedded' | 'split';
  runtime_dir: string;
  started_at: string;
  port: number | null;
  /** Asked for with `up --port`, not by the configuration. */
  port_requested?: number;
  /** Why the port that was asked for last is not open. */
  port_problem?: { port: number; message: string; hint: string };
  /** Options it was started with, for agentctl restart. */
  agents_dir?: string;
  config_file?: string;
  rehearsal: boolean;
  version: string;
  /** Processes that are not restarted, because their program changed since the start. */
  outdated?: readonly string[];
};

export function readRuntimeInfo(stateDir: string): RuntimeInfo | undefined {
  try {
    return JSON.parse(readFileSync(join(stateDir, 'runtime.json'), 'utf8')) as RuntimeInfo;
  } catch {
    return undefined;
  }
}
