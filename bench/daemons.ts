// toold and auditd-ai in their own processes, as in split mode, without the rest of a runtime: the
// bench acts as agentd and calls them over the sockets that agentd would use.
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { socketPathFor } from '../src/platform/daemon.ts';
import { runtimeDirFor } from '../src/platform/state-dir.ts';
import type { DaemonName } from '../src/wire/daemons.ts';
import { freshDir, ROOT } from '../test/support/runtime.ts';
import { end, keep, profiling } from './children.ts';

export type BenchDaemons = {
  /** Passed to startRuntime to continue with the same state. */
  base: string;
  stateDir: string;
  operatorKey(): string;
  socketOf(daemon: DaemonName, caller: string): string;
  pids: readonly number[];
  /** Ends the processes; the state stays. */
  stop(): Promise<void>;
  remove(): Promise<void>;
};

export async function startDaemons(
  names: readonly DaemonName[],
  config = '',
  prepare: (stateDir: string) => void = () => {},
): Promise<BenchDaemons> {
  const base = freshDir();
  const stateDir = join(base, 'state');
  const env = {
    PATH: process.env.PATH ?? '',
    XDG_RUNTIME_DIR: join(base, 'r'),
    AGENTD_KEEPER_DIR: join(base, 'keeper'),
  };
  mkdirSync(stateDir, { mode: 0o700 });
  mkdirSync(env.XDG_RUNTIME_DIR, { mode: 0o700 });
  writeFileSync(join(stateDir, 'agentd.yaml'), config);
  prepare(stateDir);
  const children: ChildProcess[] = [];
  const stop = async () => {
    for (const child of children.reverse()) await end(child);
    // As root they have another user than the daemons of a whole runtime, which would refuse the
    // state.
    rmSync(join(env.XDG_RUNTIME_DIR, 'agentd'), { recursive: true, force: true });
  };
  const remove = async () => {
    await stop();
    rmSync(base, { recursive: true, force: true });
  };
  try {
    for (const name of names) {
      const argv = ['--daemon', name, '--state', stateDir, '--mode', 'split', '--ready-fd', '1'];
      const child = keep(
        spawn(process.execPath, [...profiling(), join(ROOT, 'build', 'daemon.mjs'), ...argv], {
          env,
          stdio: ['pipe', 'pipe', 'pipe'],
        }),
      );
      children.push(child);
      await ready(child, name);
    }
  } catch (error) {
    await remove();
    throw error;
  }
  const runtimeDir = runtimeDirFor(stateDir, env);
  return {
    base,
    stateDir,
    operatorKey: () => readFileSync(join(stateDir, 'operator.key'), 'utf8').trim(),
    socketOf: (daemon, caller) => socketPathFor(runtimeDir, daemon, caller),
    pids: children.map(({ pid }) => pid!),
    stop,
    remove,
  };
}

function ready(child: ChildProcess, name: string): Promise<void> {
  let output = '';
  child.stderr?.on('data', (chunk: Buffer) => {
    output = (output + chunk.toString('utf8')).slice(-4_000);
  });
  return new Promise((resolve, reject) => {
    child.stdout?.once('data', (line: Buffer) => {
      if (line.includes('"ready":true')) resolve();
      else reject(new Error(`${name} did not start: ${line.toString('utf8')}\n${output}`));
    });
    child.once('exit', (code) => reject(new Error(`${name} ended (${code}):\n${output}`)));
  });
}
