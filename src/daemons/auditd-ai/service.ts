// Accepts each event once, acknowledges it when it is durable, and serves readers by number, by
// index, or as a stream that follows the end of the log.
import type { Clock } from '../../platform/clock.ts';
import { makeHolds } from '../../platform/holds.ts';
import type { Log } from '../../platform/log.ts';
import { makeKeyedMutex } from '../../platform/mutex.ts';
import { readNumberCursor } from '../../platform/page.ts';
import type { CheckpointView, HeldLogView, ProofView } from '../../wire/auditd-ai.ts';
import { type Fault, fault } from '../../wire/errors.ts';
import type { AuditEvent, NewEvent } from '../../wire/events.ts';
import { archivedFault } from './log/archived-file.ts';
import type { AuditLog } from './log/log.ts';
import { proveEvent } from './log/prove.ts';
import {
  type EventFilter,
  findReused,
  formatOrigin,
  matchesFilter,
  type Origin,
  splitNewAndRepeats,
} from './rules.ts';
import type { AuditIndex, TailFilter } from './store/store.ts';

export type EventPage = { events: AuditEvent[]; archived?: number[]; cursor: string | null };
export type PageOptions = { limit: number; cursor?: string | undefined };

export type AuditService = {
  /** `by` is the sending daemon. Throws if an event names another source. */
  append(events: NewEvent[], by: string): Promise<{ size: number; accepted: number }>;
  /** Returns the first page of a store's events with a number above `after`. */
  own(origin: Origin, after: number): Promise<AuditEvent[]>;
  list(
    where: TailFilter[],
    options: PageOptions & { after?: number | undefined; order?: 'asc' | 'desc' | undefined },
  ): Promise<EventPage>;
  follow(
    filter: EventFilter,
    after: number | undefined,
    signal: AbortSignal,
  ): AsyncGenerator<string>;
  checkpoint(): Promise<CheckpointView>;
  /** Lets appends wait for at most this time, so that a backup can copy the log as it is now. */
  hold(forMs: number): HeldLogView;
  /** Returns false if the hold had ended by itself. */
  release(id: string): boolean;
  releaseAll(): void;
  prove(id: string): Promise<ProofView>;
  rotateKey(by: string): Promise<{ vkey: string; previous: string }>;
  /** Appends an event of auditd-ai itself. */
  appendOwn(event: Pick<NewEvent, 'id' | 'event' | 'principal' | 'data'>): Promise<void>;
};

/** A store that lacks more events than a power failure can lose is an older copy. */
const OWN = { page: 1_000, max: 100_000 };
const OWN_SOURCE = { source: 'auditd-ai', source_store: 'auditd-ai' };
const HEARTBEAT_INTERVAL_MS = 15_000;

export function makeService({
  log,
  index,
  highWaterMarks,
  clock,
  logger,
  failpoint,
}: {
  log: AuditLog;
  index: AuditIndex;
  highWaterMarks: Map<string, number>;
  clock: Pick<Clock, 'nowMs'>;
  logger: Log;
  failpoint: (name: string) => void;
}): AuditService {
  const followers = new Set<() => void>();
  const holds = makeHolds();
  // One batch per source at a time, so that a resent batch sees the first one's high-water mark.
  const withLock = makeKeyedMutex();

  const read = (seqs: number[]): AuditEvent[] => {
    const events: AuditEvent[] = [];
    for (let i = 0; i < seqs.length; ) {
      const step = seqs[i + 1] === seqs[i]! + 1 ? 1 : 0;
      let n = 1;
      while (step === 1 && seqs[i + n] === seqs[i]! + n) n++;
      const lines = log.readRange(seqs[i]!, n);
      if (lines.length === 0) break;
      for (const line of lines) events.push(JSON.parse(line) as AuditEvent);
      i += lines.length;
    }
    return events;
  };

  /** Returns the repeats that are archived: only the hashes of these events are here. */
  const findArchived = (repeats: readonly NewEvent[], seqs: readonly number[]): NewEvent[] => {
    const archived = seqs.filter((seq) => seq < log.firstSeq);
    return repeats.filter((event) =>
      archived.some((seq) => log.hasLeaf(seq, JSON.stringify(event))),
    );
  };

  /** Throws if a repeat is not in the log: acknowledging it would lose the event. */
  const checkRepeats = async (repeats: NewEvent[], fresh: NewEvent[]): Promise<void> => {
    const known = [...fresh];
    let reused = findReused(repeats, known);
    for await (const seqs of index.findIds(repeats.map((event) => event.id))) {
      const live = seqs.filter((seq) => seq >= log.firstSeq);
      known.push(...read(live), ...findArchived(repeats, seqs));
      reused = findReused(repeats, known);
      if (reused === undefined) return;
    }
    if (reused === undefined) return;
    const { id, source_seq } = reused;
    const last = highWaterMarks.get(formatOrigin(reused)) ?? null;
    throw olderCopyFault(
      reused,
      `${id} has number ${source_seq}, but the log has numbers up to ${last} without it`,
      { id, source_seq, last },
    );
  };

  /** Yields an origin's events with a number above `after`, newest first. */
  async function* readNewest(origin: Origin, after: number): AsyncGenerator<AuditEvent> {
    const key = formatOrigin(origin);
    if ((highWaterMarks.get(key) ?? 0) <= after) return;
    for (let to = log.size; to > log.firstSeq; ) {
      const from = Math.max(log.firstSeq, to - OWN.page);
      const events = read(Array.from({ length: to - from }, (_, i) => from + i));
      for (const event of events.toReversed()) {
        if (formatOrigin(event) !== key) continue;
        if (event.source_seq <= after) return;
        yield event;
      }
      to = from;
      await new Promise((resolve) => setImmediate(resolve));
    }
    if (log.archived.some(({ sources }) => (sources[key] ?? 0) > after))
      throw olderCopyFault(origin, `events beyond ${after} are archived`, { after });
  }

  const announce = (firstSeq: number, events: readonly NewEvent[]): void => {
    index.add(firstSeq, events);
    for (const wake of followers) wake();
  };

  const appendNew = async (events: NewEvent[]): Promise<{ size: number; accepted: number }> => {
    const { fresh, repeats } = splitNewAndRepeats(events, highWaterMarks);
    if (repeats.length > 0) await checkRepeats(repeats, fresh);
    if (fresh.length === 0) return { size: log.size, accepted: 0 };
    failpoint('auditd-ai.before-append');
    const { firstSeq, size } = await log.append(fresh.map((event) => JSON.stringify(event)));
    // Before anything else can fail: these events are in the log.
    for (const event of fresh) highWaterMarks.set(formatOrigin(event), event.source_seq);
    failpoint('auditd-ai.after-append');
    announce(firstSeq, fresh);
    return { size, accepted: fresh.length };
  };

  return {
    append(events, by) {
      const foreign = events.find((event) => event.source !== by);
      if (foreign !== undefined)
        throw fault(
          'forbidden_caller',
          `${by} sent ${foreign.id} as an event of ${foreign.source}`,
        );
      return withLock(formatOrigin(events[0]!), () => appendNew(events));
    },
    async own(origin, after) {
      const events: AuditEvent[] = [];
      for await (const event of readNewest(origin, after)) {
        events.push(event);
        if (events.length > OWN.max)
          throw olderCopyFault(
            origin,
            `the log has more than ${OWN.max} events beyond ${after}`,
            {},
          );
      }
      return events.reverse().slice(0, OWN.page);
    },
    async list(where, { limit, cursor, after, order = 'asc' }) {
      const at = readNumberCursor(cursor);
      const seqs = await index.find({
        where,
        limit,
        order,
        after: order === 'asc' ? (at ?? after) : after,
        before: order === 'desc' ? at : undefined,
      });
      const archived = seqs.filter((seq) => seq < log.firstSeq);
      return {
        events: read(seqs.filter((seq) => seq >= log.firstSeq)),
        ...(archived.length === 0 ? {} : { archived }),
        cursor: seqs.length === limit ? String(seqs[seqs.length - 1]) : null,
      };
    },
    async *follow(filter, after, signal) {
      let next = after === undefined ? log.size : after < 0 ? log.firstSeq : after + 1;
      if (next < log.firstSeq) throw archivedFault(log.archived, next);
      let wake: () => void = () => {};
      const onEvent = (): void => wake();
      followers.add(onEvent);
      signal.addEventListener('abort', onEvent);
      try {
        yield ': following\n\n';
        while (!signal.aborted) {
          const lines = next < log.size ? log.readRange(next, 500) : [];
          next += lines.length;
          for (const line of lines) {
            const event = JSON.parse(line) as AuditEvent;
            if (matchesFilter(filter, event)) yield `id: ${event.seq}\ndata: ${line}\n\n`;
          }
          if (lines.length > 0) continue;
          const isHeartbeatDue = await new Promise<boolean>((resolve) => {
            const timer = setTimeout(() => resolve(true), HEARTBEAT_INTERVAL_MS);
            wake = () => {
              clearTimeout(timer);
              resolve(false);
            };
          });
          if (isHeartbeatDue) yield ': still here\n\n';
        }
      } finally {
        followers.delete(onEvent);
        signal.removeEventListener('abort', onEvent);
      }
    },
    async checkpoint() {
      const { note, size, root } =
        log.checkpoint.size === log.size ? log.checkpoint : await log.signNow();
      return { note, size, root: root.toString('base64'), vkey: log.vkey };
    },
    hold(forMs) {
      const held = log.hold();
      const { note, size, root } = held.checkpoint;
      return {
        id: holds.keep(held, forMs),
        checkpoint: { note, size, root: root.toString('base64'), vkey: log.vkey },
        segments: held.parts.map(({ name, sizeBytes }) => ({ name, size_bytes: sizeBytes })),
      };
    },
    release: holds.end,
    releaseAll: holds.endAll,
    async prove(id) {
      const seq = await index.findId(id);
      if (seq !== undefined) return proveEvent(log, seq);
      const [first, ...others] = await index.findArchivedId(id);
      if (first !== undefined) throw archivedFault(log.archived, first, ...others);
      throw fault('not_found', `the log has no event ${id}`, {
        hint: 'List event ids with agentctl audit tail.',
      });
    },
    async rotateKey(by) {
      const rotated = await log.rotateKey({
        ...OWN_SOURCE,
        source_seq: log.size + 1,
        principal: by,
      });
      logger.info('signing key rotated', { vkey: rotated.vkey });
      return rotated;
    },
    async appendOwn(event) {
      const ts = new Date(clock.nowMs()).toISOString();
      const own: NewEvent = { ...event, ...OWN_SOURCE, ts, source_seq: log.size + 1 };
      const { firstSeq } = await log.append([JSON.stringify(own)]);
      announce(firstSeq, [own]);
    },
  };
}

function olderCopyFault(origin: Origin, why: string, details: Record<string, unknown>): Fault {
  const { source, source_store } = origin;
  return fault(
    'log_damaged',
    `the numbers of ${source}'s store went back: ${why}: the store is an older copy`,
    {
      hint: `Stop the runtime and restore ${source}'s store and the audit directory from the same backup.`,
      details: { source, source_store, ...details },
    },
  );
}
