// Finds the state directory and reads its runtime.json and keys. Follows platform/state-dir.ts,
// which is not imported because its imports cost as much as starting Node. For the same reason
// Node's modules are not imported: that reads all their exports.
import type { RuntimeInfo } from '../../platform/state-dir.ts';
import { assertTrustedDir } from '../../platform/trusted-path.ts';
import { type Fault, fault } from '../../wire/errors.ts';
import type { CommandEnv } from './env.ts';

const isSet = (value: string | undefined): value is string => value !== undefined && value !== '';

const readText = (file: string): string =>
  process.getBuiltinModule('node:fs').readFileSync(file, 'utf8');

function makeAbsolute(path: string): string {
  const { resolve } = process.getBuiltinModule('node:path');
  return resolve(path);
}

export function findStateDir(given: string | undefined, env: CommandEnv): string {
  if (isSet(given)) return makeAbsolute(given);
  if (isSet(env.AGENTD_STATE)) return makeAbsolute(env.AGENTD_STATE);
  if (isSet(env.XDG_STATE_HOME)) return makeAbsolute(`${env.XDG_STATE_HOME}/agentd`);
  return makeAbsolute(`${isSet(env.HOME) ? env.HOME : readHome()}/.local/state/agentd`);
}

/** Not homedir(), which is empty when HOME is, as in some systemd units. */
function readHome(): string {
  try {
    return process.getBuiltinModule('node:os').userInfo().homedir;
  } catch (cause) {
    throw fault('bad_usage', 'this user has no account, and HOME is not set', {
      hint: 'Name the state directory with --state or AGENTD_STATE.',
      cause,
    });
  }
}

/** Reads what the last runtime wrote about itself; it may have died since. */
export function readRuntimeInfo(stateDir: string): RuntimeInfo | undefined {
  try {
    return JSON.parse(readText(`${stateDir}/runtime.json`)) as RuntimeInfo;
  } catch {
    return undefined;
  }
}

/** The process of the last runtime exists; its daemons may still be down. */
export function isUp(stateDir: string): boolean {
  const info = readRuntimeInfo(stateDir);
  return info !== undefined && isAlive(info.pid);
}

/** Throws when the directory exists but this user may not read it. */
export function assertReadable(stateDir: string, file = 'runtime.json'): void {
  try {
    process.getBuiltinModule('node:fs').statSync(`${stateDir}/${file}`);
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== 'EACCES') return;
    throw fault('unauthenticated', `this user may not read ${stateDir}`, {
      hint: 'Use it as the user who owns it, or name another with --state.',
      cause,
    });
  }
}

export function readOperatorKey(stateDir: string): string {
  const file = `${stateDir}/operator.key`;
  try {
    return readText(file).trim();
  } catch (cause) {
    const code = (cause as NodeJS.ErrnoException).code ?? 'error';
    throw fault('unauthenticated', `the key file ${file} cannot be read (${code})`, {
      hint: `Use it as the user who owns ${stateDir}.`,
      cause,
    });
  }
}

export function readPersonKey(stateDir: string, name: string): string {
  const file = `${stateDir}/people/${name}.key`;
  try {
    if (/^[A-Za-z0-9][A-Za-z0-9@._-]{0,63}$/.test(name))
      // The role is on the second line.
      return readText(file).trim().split('\n', 1)[0]!.trim();
  } catch (cause) {
    const code = (cause as NodeJS.ErrnoException).code ?? 'error';
    throw fault('unauthenticated', `the key of ${name} cannot be read (${code})`, {
      hint: `Create one: agentctl person add ${name}`,
      cause,
    });
  }
  throw fault('bad_usage', 'invalid person name', { hint: 'Use --as NAME.' });
}

/**
 * The key is sent to the process that listens below this directory, so only root, this user or the
 * key's owner may be able to write there.
 */
export function assertRuntimeDir(runtimeDir: string, stateDir: string): void {
  const owner = process.getBuiltinModule('node:fs').statSync(`${stateDir}/operator.key`).uid;
  try {
    assertTrustedDir(runtimeDir, [process.getuid?.() ?? 0, owner]);
  } catch (cause) {
    const code = (cause as NodeJS.ErrnoException).code;
    if (code !== 'ENOENT' && code !== 'ENOTDIR') throw cause;
    throw fault('runtime_down', `agentd on ${stateDir} does not respond`, {
      hint: 'Start the runtime: agentctl up. Unfinished work resumes.',
      cause,
    });
  }
}

/** A zombie is not alive. */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
  try {
    return !/\) [ZX] /.test(readText(`/proc/${pid}/stat`));
  } catch {
    return true;
  }
}

export const outdatedFault = (names: readonly string[], cause?: unknown): Fault =>
  fault('runtime_down', `${names.join(', ')}: not restarted, because the program was changed`, {
    hint: 'Restart the runtime: agentctl down, then agentctl up.',
    cause,
  });
