// The file a person can create when nothing answers: while STATE/HALT is there, everything is
// halted.
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';

export type HaltFile = {
  present(): string | undefined;
  set(reason: string): void;
  lift(): void;
  stop(): void;
};

/**
 * Looking costs microseconds. The directory is not watched: the databases are in it too, and every
 * write to one of them would wake whoever watches. The warden, which is told of new names only,
 * ends the processes at once.
 */
const LOOK_EVERY_MS = 250;

/** Calls `look` so often that it sees soon when the file came or went. */
export function followHaltFile(file: string, look: () => void): HaltFile {
  const timer = setInterval(look, LOOK_EVERY_MS);
  timer.unref();
  return {
    present: () => (existsSync(file) ? reasonIn(file) || 'the file HALT is there' : undefined),
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

/** Whoever made it may have made it unreadable for us: it halts all the same. */
function reasonIn(file: string): string {
  try {
    return readFileSync(file, 'utf8').trim();
  } catch {
    return '';
  }
}
