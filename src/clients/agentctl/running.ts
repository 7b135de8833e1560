// Finds the runtime that uses a state directory: runtime.json, checked against the process.
import { readFileSync } from 'node:fs';
import type { RuntimeInfo } from '../../platform/state-dir.ts';
import { connectRuntime } from './runtime.ts';
import { isAlive, readRuntimeInfo } from './state.ts';

export type RuntimeState = { info: RuntimeInfo; answers: boolean };

/** Resolves to undefined also when another program has reused the pid of a dead runtime. */
export async function findRunning(stateDir: string): Promise<RuntimeState | undefined> {
  const info = readRuntimeInfo(stateDir);
  if (info === undefined || !isAlive(info.pid)) return undefined;
  if (await answersHealth(stateDir)) return { info, answers: true };
  return isForState(info.pid, stateDir) ? { info, answers: false } : undefined;
}

export async function answersHealth(stateDir: string): Promise<boolean> {
  try {
    await connectRuntime(stateDir).call('agentd', 'health', {}, { deadlineMs: 3_000 });
    return true;
  } catch {
    return false;
  }
}

function isForState(pid: number, stateDir: string): boolean {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0').includes(stateDir);
  } catch {
    return false;
  }
}
