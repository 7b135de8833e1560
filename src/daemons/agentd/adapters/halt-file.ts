// The file a person can create when nothing answers: while STATE/HALT is there, everything is
// halted.
import { existsSync, readFileSync, rmSync, watch, writeFileSync } from 'node:fs';
import { basename, dirname } from 'node:path';

export type HaltFile = {
  present(): string | undefined;
  set(reason: string): void;
  lift(): void;
  stop(): void;
};

const LOOK_EVERY_MS = 1_000;

/** Calls `look` when the file may have come or gone, and now and then. */
export function watchHaltFile(file: string, look: () => void): HaltFile {
  // The watch is fast; the look makes sure where watching does not work.
  const watcher = watch(dirname(file), (_, name) =>
    name === null || name === basename(file) ? look() : undefined,
  );
  watcher.on('error', () => watcher.close());
  const timer = setInterval(look, LOOK_EVERY_MS);
  timer.unref();
  watcher.unref();
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
      watcher.close();
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
