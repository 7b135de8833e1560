// Rotates the logs of all daemons every minute: a log that grows fast must not fill the disk before
// the next hourly pass.
import { join } from 'node:path';
import type { Clock, Timer } from '../../../platform/clock.ts';
import type { Log } from '../../../platform/log.ts';
import type { RetentionConfig } from '../../../platform/retention-config.ts';
import { rotateLogs } from '../../../platform/rotate-logs.ts';

const INTERVAL_MS = 60_000;

/** Returns a function that ends it. */
export function startLogRotation(options: {
  stateDir: string;
  config: RetentionConfig['logs'];
  clock: Clock;
  log: Log;
}): () => Promise<void> {
  const { clock, log, config } = options;
  const dir = join(options.stateDir, 'logs');
  const limits = { sizeBytesMax: config.size ?? Number.POSITIVE_INFINITY, filesMax: config.files };
  let isStopped = false;
  let hasFailed = false;
  let timer: Timer | undefined;
  let running = Promise.resolve();

  const rotate = async (): Promise<void> => {
    try {
      for (const name of await rotateLogs(dir, limits)) log.info('rotated a log', { name });
      hasFailed = false;
    } catch (error) {
      // Said once: a line every minute would make the log larger.
      if (!hasFailed) log.warn('rotating the logs failed', { error });
      hasFailed = true;
    }
  };
  const schedule = (): void => {
    if (isStopped) return;
    timer = clock.at(clock.nowMs() + INTERVAL_MS, () => {
      running = rotate().finally(schedule);
    });
  };
  schedule();
  return async () => {
    isStopped = true;
    timer?.cancel();
    await running;
  };
}
