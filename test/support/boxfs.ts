// Builds boxfs when its sources are newer, plain or under the sanitizers, and starts one on
// directories of the test.
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readdirSync, renameSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { Duplex } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { childrenOf, isAlive } from './processes.ts';

const REPO = join(import.meta.dirname, '../..');
const SOURCE = join(REPO, 'native/boxfs');
const FLAGS = ['-std=gnu11', '-D_GNU_SOURCE', '-Wall', '-Wextra', '-Werror'];

export type BoxfsBuild = 'plain' | 'sanitized';
const BUILD_FLAGS: Record<BoxfsBuild, string[]> = {
  plain: ['-O2', '-static'],
  sanitized: ['-O1', '-g', '-fsanitize=address,undefined', '-fno-sanitize-recover=all'],
};

export function buildBoxfs(build: BoxfsBuild = 'plain'): string {
  const output = join(REPO, 'build', build === 'plain' ? 'boxfs' : `boxfs-${build}`);
  const files = readdirSync(SOURCE).map((name) => join(SOURCE, name));
  const newest = Math.max(...files.map((file) => statSync(file).mtimeMs));
  if (existsSync(output) && statSync(output).mtimeMs > newest) return output;
  mkdirSync(join(REPO, 'build'), { recursive: true });
  // Test files run in parallel: the last rename wins, and each file is complete.
  const part = `${output}.${process.pid}`;
  const sources = files.filter((file) => file.endsWith('.c'));
  execFileSync('cc', [...FLAGS, ...BUILD_FLAGS[build], '-o', part, ...sources]);
  renameSync(part, output);
  return output;
}

export type StartedBoxfs = {
  process: ChildProcess;
  stream: Duplex;
  /** Its stderr, where a sanitizer reports. */
  stderr(): string;
  stop(): Promise<void>;
  /**
   * Kills it and the children in which it does what takes long, at once. Resolves when all are
   * gone: one in the middle of a system call ends it first.
   */
  killAll(): Promise<void>;
};

/** `uid`, with a copy of the program that this user can reach: as an ordinary user, by root. */
export type BoxfsUser = { uid: number; program: string };

export function startBoxfs(
  args: string[],
  build: BoxfsBuild = 'plain',
  user?: BoxfsUser,
): StartedBoxfs {
  // A process group of its own, as `killAll` needs.
  const child = spawn(user?.program ?? buildBoxfs(build), args, {
    stdio: ['pipe', 'pipe', 'pipe'],
    detached: true,
    ...(user === undefined ? {} : { uid: user.uid, gid: user.uid }),
  });
  let errors = '';
  child.stderr.on('data', (bytes: Buffer) => {
    errors += bytes.toString();
  });
  child.stdin.on('error', () => {});
  return {
    process: child,
    stream: Duplex.from({ readable: child.stdout, writable: child.stdin }),
    stderr: () => errors,
    async stop() {
      if (child.exitCode !== null || child.signalCode !== null) return;
      const gone = once(child, 'exit');
      child.kill('SIGKILL');
      await gone;
    },
    async killAll() {
      const pids = [child.pid!, ...childrenOf(child.pid!)];
      process.kill(-child.pid!, 'SIGKILL');
      while (pids.some(isAlive)) await sleep(1);
    },
  };
}
