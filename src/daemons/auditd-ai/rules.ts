// What auditd-ai decides, as pure functions: which events of a batch are new, and which a reader
// wants.
import type { AuditEvent, NewEvent } from '../../wire/events.ts';

/** Where an event comes from: the daemon that hands it over, and which of its stores. */
export function originOf(event: Pick<NewEvent, 'source' | 'source_store'>): string {
  return `${event.source} ${event.source_store}`;
}

/** The highest number taken from each origin. */
export type Taken = ReadonlyMap<string, number>;

/** Events not seen before, by source and number. A source sends in order, so one number tells. */
export function newOnes(events: readonly NewEvent[], taken: Taken): NewEvent[] {
  const last = new Map(taken);
  return events.filter((event) => {
    const origin = originOf(event);
    if (event.source_seq <= (last.get(origin) ?? 0)) return false;
    last.set(origin, event.source_seq);
    return true;
  });
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
