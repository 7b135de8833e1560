// What auditd-ai decides, as pure functions: which events of a batch are new, and which a reader
// wants.
import type { AuditEvent, NewEvent } from '../../wire/events.ts';

/** Where an event comes from: the daemon that hands it over, and which of its stores. */
export type Origin = Pick<NewEvent, 'source' | 'source_store'>;

export function originOf(event: Origin): string {
  return `${event.source} ${event.source_store}`;
}

/** The highest number taken from each origin. */
export type HighWaterMarks = ReadonlyMap<string, number>;

/**
 * Which events of a batch are new, by source and number: a source sends in order, so one number
 * tells. The others must be repeats; a store that was put back to an older copy gives its numbers
 * again to other events.
 */
export function splitNewAndRepeats(
  events: readonly NewEvent[],
  taken: HighWaterMarks,
): { fresh: NewEvent[]; repeats: NewEvent[] } {
  const last = new Map(taken);
  const fresh: NewEvent[] = [];
  const repeats: NewEvent[] = [];
  for (const event of events) {
    const origin = originOf(event);
    if (event.source_seq <= (last.get(origin) ?? 0)) repeats.push(event);
    else {
      last.set(origin, event.source_seq);
      fresh.push(event);
    }
  }
  return { fresh, repeats };
}

/** The first of the repeats that is not one: neither the log nor this batch has that event. */
export function findReused(
  repeats: readonly NewEvent[],
  known: readonly NewEvent[],
): NewEvent | undefined {
  const keyOf = (event: NewEvent): string =>
    JSON.stringify([originOf(event), event.source_seq, event.id, event.ts]);
  const keys = new Set(known.map(keyOf));
  return repeats.find((event) => !keys.has(keyOf(event)));
}

export type EventFilter = {
  event?: string | undefined;
  root_task_id?: string | undefined;
  run_id?: string | undefined;
};

export function wants(filter: EventFilter, event: AuditEvent): boolean {
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
