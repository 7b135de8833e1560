// Remembers which processes live, so that after a kill of sandboxd the next one can end those that
// survived. A process is its pid, its start time and the boot: a pid that was given out again is
// never touched.
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Log } from '../../../platform/log.ts';

export type ProcessRecords = {
  /** Returns what to call when the process is gone. */
  add(pid: number, who: { runId: string; fence: number }): () => void;
  /** Ends every recorded process that still lives; returns how many there were. */
  sweep(log: Log): Promise<number>;
};

type Entry = { pid: number; started: string; boot: string; run_id: string; fence: number };

const pollMs = 10;
const goneWithinMs = 5_000;

export function openProcessRecords(dir: string): ProcessRecords {
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  const boot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
  return {
    add(pid, { runId, fence }) {
      const started = startOf(pid);
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
  const lives = () => entry !== undefined && startOf(entry.pid) === entry.started;
  const found = entry?.boot === boot && lives();
  if (found) {
    const { pid, run_id: run, fence } = entry!;
    log.warn('ending a runner that outlived its sandboxd', { run, fence, pid });
    try {
      process.kill(-pid, 'SIGKILL');
    } catch (error) {
      // Another user's: the warden ends it, because whoever asked for it is gone.
      const { code } = error as NodeJS.ErrnoException;
      if (code !== 'ESRCH' && code !== 'EPERM') throw error;
    }
    const end = performance.now() + goneWithinMs;
    while (lives() && performance.now() < end) await sleep(pollMs);
    if (lives()) {
      log.error('a runner cannot be ended', { run, fence, pid });
      return true;
    }
  }
  rmSync(file, { force: true });
  return found;
}

/** A record cut off by a crash is no record. */
function readEntry(file: string): Entry | undefined {
  try {
    const entry = JSON.parse(readFileSync(file, 'utf8')) as Entry;
    return Number.isSafeInteger(entry.pid) && entry.pid > 1 ? entry : undefined;
  } catch {
    return undefined;
  }
}

/**
 * When a process started, in ticks since the boot; undefined when it is gone or only waits to be
 * reaped.
 */
function startOf(pid: number): string | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    // The name before it may hold anything, spaces and brackets too.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return fields[0] === 'Z' || fields[0] === 'X' ? undefined : fields[19];
  } catch {
    return undefined;
  }
}
