// The outbox: every change of state writes its event in the same transaction, and the relay sends
// events to the audit log in order until they are acknowledged. The log recognizes repeats by
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

// A row has one event, or several that were added together, one a line and numbered consecutively;
// the row's number is the last one's.
export const OUTBOX_TABLES = `
CREATE TABLE outbox (seq BIGINT PRIMARY KEY, event TEXT NOT NULL);
CREATE TABLE outbox_store (id TEXT PRIMARY KEY);`;

export type AppendEvents = (events: NewEvent[]) => Promise<unknown>;
/** For events that are already JSON text. */
export type AppendTexts = (texts: string[]) => Promise<unknown>;

export type Outbox = {
  /** The store's id, and the highest number it had when it was opened. */
  readonly opened: { store: string; seq: number };
  /** Inside a transaction of the same database. Resolves to the event's number. */
  add(sql: Sql, draft: EventDraft): Promise<number>;
  /** Adds several events in one statement. Returns the number of the last. */
  addAll(sql: SqlNow, drafts: readonly EventDraft[]): number;
  /** Wakes the relay. Call it after the transaction. */
  wake(): void;
  /**
   * The same for events that no caller waits for: they are sent with the next ones, or after a
   * delay. So the log syncs once for the end of a call and the beginning of the next.
   */
  wakeSoon(): void;
  /** Resolves when the audit log has everything up to this number durably. */
  delivered(seq: number, waitMs?: number): Promise<void>;
  /** Throws if the audit log has been failing for a while: no new work may start. */
  assertAuditAccepting(): void;
  /** Resolves to true when everything is delivered, or to false after this time. */
  drain(waitMs: number): Promise<boolean>;
  stop(): void;
};

/** An event that the log rejects would be retried for ever, and block all events after it. */
function assertDraft(draft: EventDraft): void {
  if (checkValue(EventDraft, draft).success) return;
  // JSON leaves out undefined members: only the event as sent has to be valid.
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
const DELETE_INTERVAL = 2_000;
const OUTAGE_MS_MAX = 2_000;
const WAKE_DELAY_MS = 20;
/** The most committed events kept in memory for the relay; more are read back from the table. */
const READY_MAX = 4_000;
/** More than the number of events that can be sent to the log before they are synced here. */
const UNSYNCED_MAX = 100_000;

type CommittedEvent = { seq: number; text: string };

function splitRow(seq: number, text: string): CommittedEvent[] {
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
  /** Takes precedence over `append`. */
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
  // The newest row is never removed, so that numbers keep growing after a restart. The log may have
  // events that a power loss removed from the table before they were synced. Their numbers must not
  // be reused, so the next ones are beyond them.
  const found = await db.read((sql) =>
    sql.one<{ seq: number | null }>('SELECT MAX(seq) AS seq FROM outbox'),
  );
  const opened = { store, seq: Number(found?.seq ?? 0) };
  let last = opened.seq + (isNew ? 0 : UNSYNCED_MAX);
  let acked = 0;
  let deleted = 0;
  let stopped = false;
  let failingSince: number | undefined;
  let waiters: Waiter[] = [];
  /** Events that this process committed and the log has not acknowledged, in order. */
  let ready: CommittedEvent[] = [];
  /** The table may have events that are not in `ready`. */
  let isBehind = true;
  let overflows = 0;
  /** The database reports its commits. */
  let hasCommits = true;

  const keepReady = (event: CommittedEvent): void => {
    if (isBehind && ready.length >= READY_MAX) return;
    ready.push(event);
    if (ready.length < READY_MAX) return;
    ready = [];
    isBehind = true;
    overflows++;
  };

  const resolveWaiters = (): void => {
    const delivered = waiters.filter((w) => w.seq <= acked);
    waiters = waiters.filter((w) => w.seq > acked);
    for (const w of delivered) {
      clearTimeout(w.timer);
      w.resolve();
    }
  };

  const deleteDelivered = async (): Promise<void> => {
    if (acked - deleted < DELETE_INTERVAL) return;
    const upTo = acked;
    try {
      await db.write((sql) => sql.run('DELETE FROM outbox WHERE seq < ?', upTo));
      deleted = upTo;
    } catch (error) {
      // The log has these events. Their rows are deleted after the next batch.
      if (!stopped) log.warn('deleting delivered events from the outbox failed', { error });
    }
  };

  const readUnsent = async (limit: number): Promise<CommittedEvent[]> => {
    const found: CommittedEvent[] = [];
    for (let from = acked; found.length < limit; ) {
      const rows = await db.read((sql) =>
        sql.all<{ seq: number; event: string }>(
          'SELECT seq, event FROM outbox WHERE seq > ? ORDER BY seq LIMIT ?',
          from,
          Math.min(limit, ROWS_MAX),
        ),
      );
      for (const { seq, event } of rows)
        found.push(...splitRow(Number(seq), event).filter((e) => e.seq > acked));
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

  const nextReady = (): CommittedEvent[] => {
    ready = ready.filter(({ seq }) => seq > acked);
    return ready.slice(0, BATCH_MAX);
  };

  const nextBehind = async (): Promise<CommittedEvent[]> => {
    const before = overflows;
    const rows = await readUnsent(BATCH_MAX);
    if (rows.length > 0) return rows;
    // Everything committed so far is acknowledged; later events are in `ready`.
    if (overflows === before) isBehind = !hasCommits;
    return nextReady();
  };

  /** Sends one batch. */
  const relay = async (): Promise<undefined> => {
    const rows = isBehind ? await nextBehind() : nextReady();
    if (rows.length > 0) {
      await appendTexts(rows.map(({ text }) => text));
      acked = rows[rows.length - 1]!.seq;
    }
    failingSince = undefined;
    if (rows.length === 0) return;
    resolveWaiters();
    await deleteDelivered();
    // There may be more; and only an empty pass finds that the table has nothing beyond `ready`.
    loop.wake();
  };

  const loop = makeWakeLoop({
    // Retries use real time, even if a test controls the time of events.
    clock: systemClock(),
    work: relay,
    backoffMs: { min: 50, max: 1_000 },
    onError(error) {
      if (failingSince === undefined)
        log.warn('sending events to the audit log failed; retrying', { error });
      failingSince ??= performance.now();
    },
  });

  let soon: NodeJS.Timeout | undefined;
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
    wakeSoon() {
      soon ??= setTimeout(() => {
        soon = undefined;
        loop.wake();
      }, WAKE_DELAY_MS).unref();
    },
    delivered(seq, waitMs = 5_000) {
      if (seq <= acked) return Promise.resolve();
      loop.wake();
      return new Promise((resolve, reject) => {
        const timer = setTimeout(() => {
          waiters = waiters.filter((w) => w.timer !== timer);
          reject(
            fault(
              'audit_unavailable',
              'the audit log did not record the attempt in time, so it was not started',
            ),
          );
        }, waitMs);
        timer.unref();
        waiters.push({ seq, resolve, reject, timer });
      });
    },
    assertAuditAccepting() {
      if (failingSince !== undefined && performance.now() - failingSince > OUTAGE_MS_MAX) {
        throw fault('audit_unavailable', 'the audit log accepts no events, so no new work starts');
      }
    },
    async drain(waitMs) {
      loop.wake();
      const { promise, resolve } = Promise.withResolvers<boolean>();
      const timer = setTimeout(resolve, waitMs, false);
      const isIdle = await Promise.race([loop.idle().then(() => true), promise]);
      clearTimeout(timer);
      // The last numbers may have been rolled back: then there are no rows left to send.
      return isIdle && (acked >= last || (await readUnsent(1)).length === 0);
    },
    stop() {
      stopped = true;
      clearTimeout(soon);
      void loop.stop();
      for (const w of waiters.splice(0)) {
        clearTimeout(w.timer);
        w.reject(fault('stopping', 'the daemon is stopping'));
      }
    },
  };
}
