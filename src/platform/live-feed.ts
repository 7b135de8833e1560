// Hands what happens in a task tree to the people who watch it now. Without a watcher an item costs
// nothing and is forgotten; a watcher that reads too slowly misses items and is told how much.
import { fault } from '../wire/errors.ts';
import { LIVE_CHARS_MAX, type LiveGap, type LiveItem, type LiveQuery } from '../wire/live.ts';
import { RawReply } from './dispatch.ts';

const WATCHERS_MAX = 64;
const QUEUE_CHARS_MAX = 262_144;
const HEARTBEAT_INTERVAL_MS = 15_000;

type Watcher = {
  rootTaskId: string;
  queue: LiveItem[];
  chars: number;
  leftOut: number;
  wake(): void;
};

export class LiveFeed {
  readonly #watchers = new Set<Watcher>();

  isWatched(rootTaskId: string): boolean {
    for (const watcher of this.#watchers) if (watcher.rootTaskId === rootTaskId) return true;
    return false;
  }

  publish(rootTaskId: string, item: LiveItem): void {
    for (const watcher of this.#watchers)
      if (watcher.rootTaskId === rootTaskId)
        for (const part of splitText(item)) {
          if (watcher.chars + part.text.length > QUEUE_CHARS_MAX)
            watcher.leftOut += part.text.length;
          else {
            watcher.queue.push(part);
            watcher.chars += part.text.length;
          }
          watcher.wake();
        }
  }

  /** Responds with the items from now on; throws when too many people watch. */
  watch({ root_task_id: rootTaskId, seconds }: LiveQuery, gone: AbortSignal): RawReply {
    if (this.#watchers.size >= WATCHERS_MAX)
      throw fault('overloaded', `${WATCHERS_MAX} people already watch`, {
        hint: 'End a task watch that is not needed, and retry.',
      });
    const signal =
      seconds === undefined ? gone : AbortSignal.any([gone, AbortSignal.timeout(seconds * 1_000)]);
    const watcher: Watcher = { rootTaskId, queue: [], chars: 0, leftOut: 0, wake: () => {} };
    this.#watchers.add(watcher);
    const leave = (): void => {
      this.#watchers.delete(watcher);
      watcher.wake();
    };
    signal.addEventListener('abort', leave, { once: true });
    if (signal.aborted) leave();
    return new RawReply({
      status: 200,
      headers: { 'content-type': 'text/event-stream', 'cache-control': 'no-store' },
      body: writeItems(watcher, signal),
    });
  }
}

function splitText(item: LiveItem): LiveItem[] {
  if (item.text.length <= LIVE_CHARS_MAX) return [item];
  const parts: LiveItem[] = [];
  for (let at = 0; at < item.text.length; at += LIVE_CHARS_MAX)
    parts.push({ ...item, text: item.text.slice(at, at + LIVE_CHARS_MAX) });
  return parts;
}

async function* writeItems(watcher: Watcher, signal: AbortSignal): AsyncGenerator<string, void> {
  const write = (value: LiveItem | LiveGap): string => `data: ${JSON.stringify(value)}\n\n`;
  yield ': watching\n\n';
  while (!signal.aborted) {
    const items = watcher.queue.splice(0);
    const leftOut = watcher.leftOut;
    watcher.chars = 0;
    watcher.leftOut = 0;
    if (items.length > 0) yield items.map(write).join('');
    if (leftOut > 0) yield write({ left_out_chars: leftOut });
    if (watcher.queue.length === 0 && !signal.aborted && !(await waitForItem(watcher)))
      yield ': still here\n\n';
  }
}

/** Resolves to false after a while without an item. */
function waitForItem(watcher: Watcher): Promise<boolean> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => resolve(false), HEARTBEAT_INTERVAL_MS);
    watcher.wake = () => {
      clearTimeout(timer);
      resolve(true);
    };
  });
}
