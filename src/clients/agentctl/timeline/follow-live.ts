// Follows what models say and commands print in a task tree, from now on, until the signal aborts.
import { Fault } from '../../../wire/errors.ts';
import type { LiveGap, LiveItem } from '../../../wire/live.ts';
import { readSse, sleep } from '../follow.ts';
import type { RuntimeClient } from '../runtime.ts';

const RETRY_DELAY_MS = 500;
const FOR_LATER: readonly string[] = ['runtime_down', 'stopping', 'unavailable', 'overloaded'];

/** Leaves out a daemon that does not respond: the task itself is followed by other means. */
export async function followLive(
  runtime: RuntimeClient,
  rootTaskId: string,
  onItem: (item: LiveItem | LiveGap) => void,
  signal: AbortSignal,
): Promise<void> {
  const query = { root_task_id: rootTaskId };
  const follow = async (open: () => Promise<AsyncIterable<Buffer>>): Promise<void> => {
    while (!signal.aborted) {
      try {
        for await (const data of readSse(await open())) onItem(JSON.parse(data));
      } catch (error) {
        if (signal.aborted || !(error instanceof Fault) || !FOR_LATER.includes(error.code)) return;
      }
      await sleep(RETRY_DELAY_MS, signal);
    }
  };
  await Promise.all([
    follow(() => runtime.open('modeld', 'watchLive', { query }, signal)),
    follow(() => runtime.open('sandboxd', 'watchLive', { query }, signal)),
  ]);
}
