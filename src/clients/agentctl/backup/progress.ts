// Shows the progress of a long command in one line on a terminal; prints nothing elsewhere.
import { isatty } from 'node:tty';
import type { Out } from '../out.ts';

export type ProgressLine = { show(text: string): void; clear(): void };

const INTERVAL_MS = 100;

export function makeProgress(out: Out): ProgressLine {
  const isShown = !out.json && isatty(2);
  let shownAt = 0;
  const write = (text: string): void => {
    if (isShown) process.stderr.write(`\r\u001b[K${text}`);
  };
  return {
    show(text) {
      const nowMs = performance.now();
      if (nowMs - shownAt < INTERVAL_MS) return;
      shownAt = nowMs;
      write(text);
    },
    clear: () => write(''),
  };
}
