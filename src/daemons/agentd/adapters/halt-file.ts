// Reads, writes and polls STATE/HALT. While it exists the runtime is halted, so a person can halt
// it even when no daemon responds.
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';

export type HaltFile = {
  /** Returns undefined if the file does not exist. */
  readReason(): string | undefined;
  set(reason: string): void;
  lift(): void;
  stop(): void;
};

/**
 * Polled rather than watched: the databases are in the same directory, and each write to one would
 * wake the watcher. The warden watches for new names and ends the processes at once.
 */
const POLL_INTERVAL_MS = 250;

export function pollHaltFile(file: string, onPoll: () => void): HaltFile {
  const timer = setInterval(onPoll, POLL_INTERVAL_MS);
  timer.unref();
  return {
    readReason: () => (existsSync(file) ? readText(file) || 'the file HALT exists' : undefined),
    set(reason) {
      if (!existsSync(file)) writeFileSync(file, `${reason}\n`, { mode: 0o600, flush: true });
    },
    lift() {
      rmSync(file, { force: true });
    },
    stop() {
      clearInterval(timer);
    },
  };
}

/** An unreadable file halts too. */
function readText(file: string): string {
  try {
    return readFileSync(file, 'utf8').trim();
  } catch {
    return '';
  }
}
