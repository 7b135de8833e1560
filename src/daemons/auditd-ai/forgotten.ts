// Lists the events of forgotten memories, newest first: those of the log, then those of which the
// records of archived segments have the ids.
import type { AuditEvent } from '../../wire/events.ts';
import type { AuditLog } from './log/log.ts';
import { FORGOTTEN_EVENT, isForgotten } from './rules.ts';
import type { AuditIndex } from './store/store.ts';

/** `next`: where the next page begins, below it. */
export type ForgottenPage = { events: { seq: number; id: string }[]; next: number | null };

const PAGE_EVENTS = 100;

export function makeListForgotten({ log, index }: { log: AuditLog; index: AuditIndex }) {
  const readEvent = (seq: number): AuditEvent[] =>
    log.readRange(seq, 1).map((line) => JSON.parse(line) as AuditEvent);

  const listArchived = (before: number): { seq: number; id: string }[] =>
    log.archived
      .flatMap(({ forgotten = [] }) => forgotten)
      .filter(({ seq }) => seq < before)
      .reverse();

  return async (before = Number.MAX_SAFE_INTEGER): Promise<ForgottenPage> => {
    const seqs = await index.find({
      where: [{ column: 'event', value: FORGOTTEN_EVENT }],
      limit: PAGE_EVENTS + 1,
      order: 'desc',
      before,
    });
    const live = seqs.filter((seq) => seq >= log.firstSeq).flatMap(readEvent);
    const found = [
      ...live.map((event) => ({ seq: event.seq, id: event.id, isOwn: isForgotten(event) })),
      ...listArchived(before).map((event) => ({ ...event, isOwn: true })),
    ];
    const page = found.slice(0, PAGE_EVENTS);
    const events = page.filter(({ isOwn }) => isOwn).map(({ seq, id }) => ({ seq, id }));
    return { events, next: found.length > PAGE_EVENTS ? page.at(-1)!.seq : null };
  };
}
