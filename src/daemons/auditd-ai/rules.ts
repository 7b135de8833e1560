// Decides, as pure functions, which events of a batch are new and which events match a filter.
import type { AuditEvent, NewEvent } from '../../wire/events.ts';

/** The daemon that sent an event, and which of its stores the event came from. */
export type Origin = Pick<NewEvent, 'source' | 'source_store'>;

export function formatOrigin(event: Origin): string {
  return `${event.source} ${event.source_store}`;
}

/** The highest accepted source number of each origin. */
export type HighWaterMarks = ReadonlyMap<string, number>;

/**
 * Splits a batch by source number. A source sends in order, so its high-water mark is enough. The
 * repeats still need a check: a store restored from an older copy reuses numbers for other events.
 */
export function splitNewAndRepeats(
  events: readonly NewEvent[],
  highWaterMarks: HighWaterMarks,
): { fresh: NewEvent[]; repeats: NewEvent[] } {
  const last = new Map(highWaterMarks);
  const fresh: NewEvent[] = [];
  const repeats: NewEvent[] = [];
  for (const event of events) {
    const origin = formatOrigin(event);
    if (event.source_seq <= (last.get(origin) ?? 0)) repeats.push(event);
    else {
      last.set(origin, event.source_seq);
      fresh.push(event);
    }
  }
  return { fresh, repeats };
}

/** Returns the first supposed repeat that is neither in the log nor in this batch. */
export function findReused(
  repeats: readonly NewEvent[],
  known: readonly NewEvent[],
): NewEvent | undefined {
  const formatKey = (event: NewEvent): string =>
    JSON.stringify([formatOrigin(event), event.source_seq, event.id, event.ts]);
  const keys = new Set(known.map(formatKey));
  return repeats.find((event) => !keys.has(formatKey(event)));
}

export const FORGOTTEN_EVENT = 'memory.forgotten';

/** Only memoryd knows what was forgotten. */
export const isForgotten = ({ event, source }: Pick<NewEvent, 'event' | 'source'>): boolean =>
  event === FORGOTTEN_EVENT && source === 'memoryd';

export type EventFilter = {
  event?: string | undefined;
  root_task_id?: string | undefined;
  run_id?: string | undefined;
};

export function matchesFilter(filter: EventFilter, event: AuditEvent): boolean {
  return (
    (filter.event === undefined ||
      event.event === filter.event ||
      event.event.startsWith(`${filter.event}.`)) &&
    (filter.root_task_id === undefined ||
      event.root_task_id === filter.root_task_id ||
      event.task_id === filter.root_task_id) &&
    (filter.run_id === undefined || event.run_id === filter.run_id)
  );
}
