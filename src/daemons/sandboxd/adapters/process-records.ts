// Records live runner processes, so that a restarted sandboxd can end those that survived. A
// process is identified by pid, start time and boot id, so a reused pid is never killed.
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Log } from '../../../platform/log.ts';

export type ProcessRecords = {
  /** Returns a function to call when the process is gone. */
  add(pid: number, who: { runId: string; fence: number }): () => void;
  /** Ends every recorded process that is still alive; resolves to their number. */
  sweep(log: Log): Promise<number>;
};

type Entry = { pid: number; started: string; boot: string; run_id: string; fence: number };

const POLL_INTERVAL_MS = 10;
const END_TIMEOUT_MS = 5_000;

export function openProcessRecords(dir: string): ProcessRecords {
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  const boot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
  return {
    add(pid, { runId, fence }) {
      const started = readStartTime(pid);
      if (started === undefined) return () => {};
      const file = join(dir, `${pid}-${started}.json`);
      const entry: Entry = { pid, started, boot, run_id: runId, fence };
      writeFileSync(file, JSON.stringify(entry), { mode: 0o600 });
      return () => rmSync(file, { force: true });
    },
    async sweep(log) {
      const ends = readdirSync(dir).map((name) => sweepOne(join(dir, name), boot, log));
      return (await Promise.all(ends)).filter((found) => found).length;
    },
  };
}

async function sweepOne(file: string, boot: string, log: Log): Promise<boolean> {
  const entry = readEntry(file);
  const isAlive = () => entry !== undefined && readStartTime(entry.pid) === entry.started;
  const found = entry?.boot === boot && isAlive();
  if (found) {
    const { pid, run_id: run, fence } = entry!;
    log.warn('ending a runner that outlived its sandboxd', { run, fence, pid });
    try {
      process.kill(-pid, 'SIGKILL');
    } catch (error) {
      // Another user's process: the warden ends it, because its client is gone.
      const { code } = error as NodeJS.ErrnoException;
      if (code !== 'ESRCH' && code !== 'EPERM') throw error;
    }
    const end = performance.now() + END_TIMEOUT_MS;
    while (isAlive() && performance.now() < end) await sleep(POLL_INTERVAL_MS);
    if (isAlive()) {
      log.error('killing a runner failed', { run, fence, pid });
      return true;
    }
  }
  rmSync(file, { force: true });
  return found;
}

/** A record truncated by a crash is ignored. */
function readEntry(file: string): Entry | undefined {
  try {
    const entry = JSON.parse(readFileSync(file, 'utf8')) as Entry;
    return Number.isSafeInteger(entry.pid) && entry.pid > 1 ? entry : undefined;
  } catch {
    return undefined;
  }
}

/** Returns when a process started, in ticks since boot; undefined when it is gone or a zombie. */
function readStartTime(pid: number): string | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    // The process name before it may contain spaces and brackets.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return fields[0] === 'Z' || fields[0] === 'X' ? undefined : fields[19];
  } catch {
    return undefined;
  }
}
