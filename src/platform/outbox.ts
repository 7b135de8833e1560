// The outbox: every change of state writes its event in the same transaction, and the relay hands
// events to the audit log in order until they are acknowledged. Repeats are recognised there by
// source and number.
import { randomUUID } from 'node:crypto';
import { fault } from '../wire/errors.ts';
import { EventDraft, type NewEvent } from '../wire/events.ts';
import { checkValue } from './check.ts';
import type { Clock } from './clock.ts';
import { systemClock, toTimestamp } from './clock.ts';
import type { Log } from './log.ts';
import type { Database, Sql } from './sql/database.ts';
import type { SqlNow } from './sql/sqlite.ts';
import { makeWakeLoop } from './wake-loop.ts';

// A row has one event, or several in lines of their own that were added together: their numbers
// follow each other, and the row's is that of the last.
export const OUTBOX_TABLES = `
CREATE TABLE outbox (seq BIGINT PRIMARY KEY, event TEXT NOT NULL);
CREATE TABLE outbox_store (id TEXT PRIMARY KEY);`;

export type AppendEvents = (events: NewEvent[]) => Promise<unknown>;
/** The same, for events that are written as JSON already. */
export type AppendTexts = (texts: string[]) => Promise<unknown>;

export type Outbox = {
  /** The store's id, and the highest number it had when it was opened. */
  readonly opened: { store: string; seq: number };
  /** Inside a transaction of the same database. Gives the event's number. */
  add(sql: Sql, draft: EventDraft): Promise<number>;
  /** The same for several, in one statement. Gives the number of the last. */
  addAll(sql: SqlNow, drafts: readonly EventDraft[]): number;
  /** Call after the transaction: wakes the relay. */
  wake(): void;
  /** Resolves when the audit log has everything up to this number durably. */
  delivered(seq: number, waitMs?: number): Promise<void>;
  /** Throws when the audit log has not been taking events for a while: no new work may start. */
  assertAuditAccepting(): void;
  /** Resolves when nothing waits any more, or the time is over. */
  drain(waitMs: number): Promise<boolean>;
  stop(): void;
};

/** An event the log refuses would be sent again for ever, and all events after it would wait. */
function assertDraft(draft: EventDraft): void {
  if (checkValue(EventDraft, draft).success) return;
  // Members that are undefined do not travel: what counts is what would arrive.
  const checked = checkValue(EventDraft, JSON.parse(JSON.stringify(draft)));
  if (checked.success) return;
  const { path, message } = checked.issues[0]!;
  throw fault(
    'internal',
    `the event ${draft.event} cannot be recorded: ${path.join('.')} ${message}`,
  );
}

const BATCH_MAX = 1_000;
const ROWS_MAX = 100;
const FORGET_EVERY = 2_000;
const SLOW_MS = 2_000;
/** So many committed events are kept in memory for the relay; more are read back from the table. */
const READY_MAX = 4_000;
/** More events than can be on their way to the log before their own sync has ended. */
const UNSYNCED_MAX = 100_000;

type Committed = { seq: number; text: string };

function eventsOf(seq: number, text: string): Committed[] {
  const lines = text.split('\n');
  return lines.map((line, i) => ({ seq: seq - lines.length + 1 + i, text: line }));
}

type Waiter = {
  seq: number;
  resolve: () => void;
  reject: (e: unknown) => void;
  timer: NodeJS.Timeout;
};

export async function openOutbox(options: {
  db: Database;
  source: string;
  clock: Clock;
  append: AppendEvents;
  /** Used instead of `append` where it is given. */
  appendTexts?: AppendTexts;
  log: Log;
}): Promise<Outbox> {
  const { db, source, clock, append, log } = options;
  const appendTexts =
    options.appendTexts ??
    ((texts: string[]) => append(texts.map((text) => JSON.parse(text) as NewEvent)));
  const { store, isNew } = await db.write(async (sql) => {
    const found = await sql.one<{ id: string }>('SELECT id FROM outbox_store');
    if (found !== undefined) return { store: found.id, isNew: false };
    const id = randomUUID();
    await sql.run('INSERT INTO outbox_store (id) VALUES (?)', id);
    return { store: id, isNew: true };
  });
  const origin = `"source":${JSON.stringify(source)},"source_store":"${store}"`;
  // The newest row is never removed, so that numbers go on growing after a restart. The log may
  // have taken events that a loss of power took from the table before they were synced: none of
  // their numbers must be given again, so the next ones are beyond them.
  const found = await db.read((sql) =>
    sql.one<{ seq: number | null }>('SELECT MAX(seq) AS seq FROM outbox'),
  );
  const opened = { store, seq: Number(found?.seq ?? 0) };
  let last = opened.seq + (isNew ? 0 : UNSYNCED_MAX);
  let acked = 0;
  let forgotten = 0;
  let stopped = false;
  let failingSince: number | undefined;
  let waiters: Waiter[] = [];
  /** Committed by this process and not acknowledged, in order. */
  let ready: Committed[] = [];
  /** The table has, or may have, events that are not in `ready`. */
  let isBehind = true;
  let overflows = 0;
  /** The database tells what it has committed. */
  let hasCommits = true;

  const keepReady = (one: Committed): void => {
    if (isBehind && ready.length >= READY_MAX) return;
    ready.push(one);
    if (ready.length < READY_MAX) return;
    ready = [];
    isBehind = true;
    overflows++;
  };

  const settle = (): void => {
    const ready = waiters.filter((w) => w.seq <= acked);
    if (ready.length === 0) return;
    waiters = waiters.filter((w) => w.seq > acked);
    for (const w of ready) {
      clearTimeout(w.timer);
      w.resolve();
    }
  };

  const forget = async (): Promise<void> => {
    if (acked - forgotten < FORGET_EVERY) return;
    const upTo = acked;
    try {
      await db.write((sql) => sql.run('DELETE FROM outbox WHERE seq < ?', upTo));
      forgotten = upTo;
    } catch (error) {
      // The log has these events; only the table is longer than it need be, until the next batch.
      if (!stopped) log.warn('delivered events could not be removed from the outbox', { error });
    }
  };

  const unsent = async (limit: number): Promise<Committed[]> => {
    const found: Committed[] = [];
    for (let from = acked; found.length < limit; ) {
      const rows = await db.read((sql) =>
        sql.all<{ seq: number; event: string }>(
          'SELECT seq, event FROM outbox WHERE seq > ? ORDER BY seq LIMIT ?',
          from,
          Math.min(limit, ROWS_MAX),
        ),
      );
      for (const { seq, event } of rows)
        found.push(...eventsOf(Number(seq), event).filter((one) => one.seq > acked));
      if (rows.length < ROWS_MAX) break;
      from = Number(rows[rows.length - 1]!.seq);
    }
    return found.slice(0, limit);
  };

  const write = (draft: EventDraft, seq: number): string => {
    assertDraft(draft);
    const own = `"ts":"${toTimestamp(clock.nowMs())}",${origin},"source_seq":${seq}}`;
    return `${JSON.stringify(draft).slice(0, -1)},${own}`;
  };

  const nextReady = (): Committed[] => {
    ready = ready.filter(({ seq }) => seq > acked);
    return ready.slice(0, BATCH_MAX);
  };

  /** The table may have more than the memory. */
  const nextBehind = async (): Promise<Committed[]> => {
    const before = overflows;
    const rows = await unsent(BATCH_MAX);
    if (rows.length > 0) return rows;
    // Whatever was committed up to here is acknowledged; what comes now is in `ready`.
    if (overflows === before) isBehind = !hasCommits;
    return nextReady();
  };

  /** Sends one batch. The batch is chosen before the first await if it is in memory. */
  const relay = async (): Promise<undefined> => {
    const rows = isBehind ? await nextBehind() : nextReady();
    if (rows.length > 0) {
      await appendTexts(rows.map(({ text }) => text));
      acked = rows[rows.length - 1]!.seq;
    }
    failingSince = undefined;
    if (rows.length === 0) return;
    settle();
    await forget();
    // There may be more; and only an empty pass finds that the table has nothing beyond `ready`.
    loop.wake();
  };

  const loop = makeWakeLoop({
    // A retry waits for real time, also where a test decides the time of events.
    clock: systemClock(),
    work: relay,
    backoffMs: { min: 50, max: 1_000 },
    onError(error) {
      if (failingSince === undefined)
        log.warn('the audit log does not take events; trying again', { error });
      failingSince ??= performance.now();
    },
  });

  loop.wake();
  return {
    opened,
    async add(sql, draft) {
      const seq = last + 1;
      const text = write(draft, seq);
      last = seq;
      await sql.run('INSERT INTO outbox (seq, event) VALUES (?, ?)', seq, text);
      if (sql.afterCommit === undefined) {
        hasCommits = false;
        isBehind = true;
      } else sql.afterCommit(() => keepReady({ seq, text }));
      return seq;
    },
    addAll(sql, drafts) {
      const added = drafts.map((draft, i) => {
        const seq = last + 1 + i;
        return { seq, text: write(draft, seq) };
      });
      last += added.length;
      const lines = added.map(({ text }) => text).join('\n');
      sql.run('INSERT INTO outbox (seq, event) VALUES (?, ?)', last, lines);
      sql.afterCommit(() => added.forEach(keepReady));
      return last;
    },
    wake: loop.wake,
    delivered(seq, waitMs = 5_000) {
      if (seq <= acked) return Promise.resolve();
      loop.wake();
      return new Promise((resolve, reject) => {
        const timer = setTimeout(() => {
          waiters = waiters.filter((w) => w.timer !== timer);
          reject(
            fault(
              'audit_unavailable',
              'the audit log did not record the attempt in time, so nothing was done',
            ),
          );
        }, waitMs);
        timer.unref();
        waiters.push({ seq, resolve, reject, timer });
      });
    },
    assertAuditAccepting() {
      if (failingSince !== undefined && performance.now() - failingSince > SLOW_MS) {
        throw fault('audit_unavailable', 'the audit log takes no events, so no new work is taken');
      }
    },
    async drain(waitMs) {
      loop.wake();
      const { promise, resolve } = Promise.withResolvers<boolean>();
      const timer = setTimeout(resolve, waitMs, false);
      const isIdle = await Promise.race([loop.idle().then(() => true), promise]);
      clearTimeout(timer);
      // The last numbers may have been rolled back: then there are no rows left to send.
      return isIdle && (acked >= last || (await unsent(1)).length === 0);
    },
    stop() {
      stopped = true;
      void loop.stop();
      for (const w of waiters.splice(0)) {
        clearTimeout(w.timer);
        w.reject(fault('stopping', 'the daemon is stopping'));
      }
    },
  };
}
