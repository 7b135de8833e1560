// Taking events and giving them back: each event once, acknowledged when durable; readers by
// number, by index, or following the end of the log.
import type { Log } from '../../platform/log.ts';
import { makeKeyedMutex } from '../../platform/mutex.ts';
import { readNumberCursor } from '../../platform/page.ts';
import type { CheckpointView, ProofView } from '../../wire/auditd-ai.ts';
import { type Fault, fault } from '../../wire/errors.ts';
import type { AuditEvent, NewEvent } from '../../wire/events.ts';
import type { AuditLog } from './log/log.ts';
import { proveEvent } from './log/prove.ts';
import {
  type EventFilter,
  findReused,
  type Origin,
  originOf,
  splitNewAndRepeats,
  wants,
} from './rules.ts';
import type { AuditIndex, TailFilter } from './store/store.ts';

export type EventPage = { events: AuditEvent[]; cursor: string | null };
export type PageOptions = { limit: number; cursor?: string | undefined };

export type AuditService = {
  /** `by` is the daemon that hands them over; it speaks for itself only. */
  append(events: NewEvent[], by: string): Promise<{ size: number; accepted: number }>;
  /** The first events of a store beyond a number. */
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
  prove(id: string): Promise<ProofView>;
  rotateKey(by: string): Promise<{ vkey: string; previous: string }>;
};

/** A store that has lost more than a loss of power can take is an older copy. */
const OWN = { page: 1_000, most: 100_000 };
const BEAT_MS = 15_000;

export function makeService({
  log,
  index,
  taken,
  say,
  failpoint,
}: {
  log: AuditLog;
  index: AuditIndex;
  taken: Map<string, number>;
  say: Log;
  failpoint: (name: string) => void;
}): AuditService {
  const followers = new Set<() => void>();
  // One batch of a source at a time: a batch that is sent again must find the first one counted.
  const inTurn = makeKeyedMutex();

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

  /** To acknowledge an event that the log does not have would lose it. */
  const checkRepeats = async (repeats: NewEvent[], fresh: NewEvent[]): Promise<void> => {
    const known = [...fresh];
    let reused = findReused(repeats, known);
    for await (const seqs of index.findIds(repeats.map((event) => event.id))) {
      known.push(...read(seqs));
      reused = findReused(repeats, known);
      if (reused === undefined) return;
    }
    if (reused === undefined) return;
    const { id, source_seq } = reused;
    const last = taken.get(originOf(reused)) ?? null;
    throw olderCopy(
      reused,
      `${id} has number ${source_seq}, but the log has numbers up to ${last} without it`,
      { id, source_seq, last },
    );
  };

  /** Events of one origin beyond a number, from the end of the log backwards. */
  async function* newestOf(origin: Origin, after: number): AsyncGenerator<AuditEvent> {
    const key = originOf(origin);
    if ((taken.get(key) ?? 0) <= after) return;
    for (let to = log.size; to > 0; ) {
      const from = Math.max(0, to - OWN.page);
      const events = read(Array.from({ length: to - from }, (_, i) => from + i));
      for (const event of events.toReversed()) {
        if (originOf(event) !== key) continue;
        if (event.source_seq <= after) return;
        yield event;
      }
      to = from;
      await new Promise((resolve) => setImmediate(resolve));
    }
  }

  const appendNew = async (events: NewEvent[]): Promise<{ size: number; accepted: number }> => {
    const { fresh, repeats } = splitNewAndRepeats(events, taken);
    if (repeats.length > 0) await checkRepeats(repeats, fresh);
    if (fresh.length === 0) return { size: log.size, accepted: 0 };
    failpoint('auditd-ai.before-append');
    const { firstSeq, size } = await log.append(fresh.map((event) => JSON.stringify(event)));
    // First of all: whatever fails from here on, these are in the log.
    for (const event of fresh) taken.set(originOf(event), event.source_seq);
    failpoint('auditd-ai.after-append');
    index.add(firstSeq, fresh);
    for (const wake of followers) wake();
    return { size, accepted: fresh.length };
  };

  return {
    append(events, by) {
      const foreign = events.find((event) => event.source !== by);
      if (foreign !== undefined)
        throw fault(
          'forbidden_caller',
          `${by} handed over ${foreign.id} as an event of ${foreign.source}`,
        );
      return inTurn(originOf(events[0]!), () => appendNew(events));
    },
    async own(origin, after) {
      const found: AuditEvent[] = [];
      for await (const event of newestOf(origin, after)) {
        found.push(event);
        if (found.length > OWN.most)
          throw olderCopy(origin, `the log has more than ${OWN.most} events beyond ${after}`, {});
      }
      return found.reverse().slice(0, OWN.page);
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
      return {
        events: read(seqs),
        cursor: seqs.length === limit ? String(seqs[seqs.length - 1]) : null,
      };
    },
    async *follow(filter, after, signal) {
      let next = after === undefined ? log.size : after + 1;
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
            if (wants(filter, event)) yield `id: ${event.seq}\ndata: ${line}\n\n`;
          }
          if (lines.length > 0) continue;
          const beat = await new Promise<boolean>((resolve) => {
            const timer = setTimeout(() => resolve(true), BEAT_MS);
            wake = () => {
              clearTimeout(timer);
              resolve(false);
            };
          });
          if (beat) yield ': still here\n\n';
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
    async prove(id) {
      const seq = await index.findId(id);
      if (seq === undefined)
        throw fault('not_found', `the log has no event ${id}`, {
          hint: 'See agentctl audit tail for the ids.',
        });
      return proveEvent(log, seq);
    },
    async rotateKey(by) {
      const keys = await log.rotateKey({
        source: 'auditd-ai',
        source_store: 'auditd-ai',
        source_seq: log.size + 1,
        principal: by,
      });
      say.info('the signing key was changed', { vkey: keys.vkey });
      return keys;
    },
  };
}

function olderCopy(origin: Origin, why: string, details: Record<string, unknown>): Fault {
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
