// egressd's store: runs with egress and their usage, connections recorded as opened, and requests
// sent for tools. Each method is one transaction; a change and its event are written together.
import type { Outbox } from '../../platform/outbox.ts';
import { OUTBOX_TABLES } from '../../platform/outbox.ts';
import type { Database } from '../../platform/sql/database.ts';
import type { FetchAnswer, PutEgressBody } from '../../wire/egressd.ts';
import { fault } from '../../wire/errors.ts';
import type { EventDraft } from '../../wire/events.ts';
import type { RunId } from '../../wire/primitives.ts';

export const MIGRATIONS = [
  `${OUTBOX_TABLES}
CREATE TABLE runs (
  run_id TEXT PRIMARY KEY,
  fence BIGINT NOT NULL,
  live INTEGER NOT NULL,
  body TEXT NOT NULL,
  bytes_sent BIGINT NOT NULL,
  bytes_received BIGINT NOT NULL
);
CREATE INDEX runs_live ON runs (run_id) WHERE live = 1;
CREATE TABLE connections (id TEXT PRIMARY KEY, event TEXT NOT NULL);
CREATE TABLE fetches (
  call_id TEXT PRIMARY KEY,
  request_hash TEXT NOT NULL,
  answer TEXT,
  begun_ms BIGINT NOT NULL
);
CREATE INDEX fetches_by_time ON fetches (begun_ms);`,
  `DROP INDEX fetches_by_time;
CREATE INDEX fetches_answered ON fetches (begun_ms) WHERE answer IS NOT NULL;`,
  // A call id ends like its run's id; see src/wire/call-id.ts.
  'CREATE INDEX fetches_by_run ON fetches (substr(call_id, 12));',
  'ALTER TABLE runs ADD COLUMN responder TEXT;',
];

export type EgressUsage = { bytesSent: number; bytesReceived: number };
export type StoredRun = {
  runId: RunId;
  body: PutEgressBody;
  usage: EgressUsage;
  /** See EgressRun. */
  responder: string | null | undefined;
};
export type StoredFetch = { requestHash: string; answer: FetchAnswer | undefined };

type RunRow = {
  run_id: RunId;
  body: string;
  bytes_sent: number;
  bytes_received: number;
  responder: string | null;
};

const SELECT_RUN = 'SELECT run_id, body, bytes_sent, bytes_received, responder FROM runs';
const toStoredRun = (row: RunRow): StoredRun => ({
  runId: row.run_id,
  body: JSON.parse(row.body) as PutEgressBody,
  usage: { bytesSent: Number(row.bytes_sent), bytesReceived: Number(row.bytes_received) },
  // Bytes without a name: a crash came before it was saved, or they were a mirror's.
  responder: row.responder ?? (Number(row.bytes_received) > 0 ? null : undefined),
});

export type EgressdStore = ReturnType<typeof makeStore>;

export function makeStore(db: Database, outbox: Pick<Outbox, 'add' | 'wake'>) {
  const withWake = <T>(work: Promise<T>): Promise<T> => work.finally(() => outbox.wake());

  return {
    /** Throws `stale_fence` for a lower fence. Resolves to what is known of the run. */
    upsertRun: (runId: RunId, body: PutEgressBody): Promise<StoredRun> =>
      db.write(async (sql) => {
        const changed = await sql.run(
          'INSERT INTO runs (run_id, fence, live, body, bytes_sent, bytes_received) ' +
            'VALUES (?, ?, 1, ?, 0, 0) ON CONFLICT (run_id) DO UPDATE SET ' +
            'fence = excluded.fence, live = 1, body = excluded.body ' +
            'WHERE excluded.fence >= runs.fence',
          runId,
          body.fence,
          JSON.stringify(body),
        );
        if (changed === 0)
          throw fault('stale_fence', `${runId} has a newer activation than ${body.fence}`);
        return toStoredRun((await sql.one<RunRow>(`${SELECT_RUN} WHERE run_id = ?`, runId))!);
      }),

    endRun: (runId: RunId, fence: number): Promise<boolean> =>
      db.write(async (sql) => {
        const changed = await sql.run(
          'UPDATE runs SET live = 0 WHERE run_id = ? AND fence <= ? AND live = 1',
          runId,
          fence,
        );
        return changed > 0;
      }),

    listLiveRuns: async (): Promise<StoredRun[]> => {
      const rows = await db.read((sql) => sql.all<RunRow>(`${SELECT_RUN} WHERE live = 1`));
      return rows.map(toStoredRun);
    },

    saveUsage: (all: readonly ({ runId: RunId } & EgressUsage)[]): Promise<void> =>
      db.write(async (sql) => {
        for (const { runId, bytesSent, bytesReceived } of all)
          await sql.run(
            'UPDATE runs SET bytes_sent = ?, bytes_received = ? WHERE run_id = ?',
            bytesSent,
            bytesReceived,
            runId,
          );
      }),

    /** The first one stays. */
    saveResponder: (runId: RunId, host: string): Promise<number> =>
      db.write((sql) =>
        sql.run(
          'UPDATE runs SET responder = ? WHERE run_id = ? AND responder IS NULL',
          host,
          runId,
        ),
      ),

    /** Resolves to the event's number; it must be durable before anything is dialled. */
    openConnection: (id: string, allowed: EventDraft, closedIfLost: EventDraft): Promise<number> =>
      withWake(
        db.write(async (sql) => {
          const event = JSON.stringify(closedIfLost);
          await sql.run('INSERT INTO connections (id, event) VALUES (?, ?)', id, event);
          return outbox.add(sql, allowed);
        }),
      ),

    /** Also saves the received bytes: that the run received something must survive a crash. */
    closeConnection: (
      id: string,
      closed: EventDraft,
      { runId, bytesReceived }: { runId: RunId; bytesReceived: number },
    ): Promise<number> =>
      withWake(
        db.write(async (sql) => {
          await sql.run('DELETE FROM connections WHERE id = ?', id);
          await sql.run(
            'UPDATE runs SET bytes_received = ? WHERE run_id = ? AND bytes_received < ?',
            bytesReceived,
            runId,
            bytesReceived,
          );
          return outbox.add(sql, closed);
        }),
      ),

    /**
     * At start nothing is open: connections lost in a crash are recorded as closed. The bytes they
     * received are unknown, so their runs count as having received something.
     */
    closeLostConnections: (): Promise<number> =>
      withWake(
        db.write(async (sql) => {
          const rows = await sql.all<{ event: string }>('SELECT event FROM connections');
          for (const { event } of rows) {
            const draft = JSON.parse(event) as EventDraft;
            await outbox.add(sql, draft);
            await sql.run(
              'UPDATE runs SET bytes_received = 1 WHERE run_id = ? AND bytes_received = 0',
              draft.run_id ?? '',
            );
          }
          await sql.run('DELETE FROM connections');
          return rows.length;
        }),
      ),

    addEvent: (draft: EventDraft): Promise<number> =>
      withWake(db.write((sql) => outbox.add(sql, draft))),

    findFetch: async (callId: string): Promise<StoredFetch | undefined> => {
      const row = await db.read((sql) =>
        sql.one<{ request_hash: string; answer: string | null }>(
          'SELECT request_hash, answer FROM fetches WHERE call_id = ?',
          callId,
        ),
      );
      if (row === undefined) return undefined;
      const { answer } = row;
      return {
        requestHash: row.request_hash,
        answer: answer === null ? undefined : (JSON.parse(answer) as FetchAnswer),
      };
    },

    /** Also deletes old answers, but not the fact that they were sent: that prevents a resend. */
    beginFetch: (callId: string, requestHash: string, at: { nowMs: number; keepMs: number }) =>
      db.write(async (sql) => {
        await sql.run(
          'UPDATE fetches SET answer = NULL WHERE begun_ms < ? AND answer IS NOT NULL',
          at.nowMs - at.keepMs,
        );
        return sql.run(
          'INSERT INTO fetches (call_id, request_hash, begun_ms) VALUES (?, ?, ?)',
          callId,
          requestHash,
          at.nowMs,
        );
      }),

    endFetch: (callId: string, answer: FetchAnswer): Promise<number> =>
      db.write((sql) =>
        sql.run('UPDATE fetches SET answer = ? WHERE call_id = ?', JSON.stringify(answer), callId),
      ),

    /** Removes what is kept of runs that ended and were pruned. */
    pruneRuns: (runIds: readonly RunId[]): Promise<number> =>
      db.write(async (sql) => {
        let rows = 0;
        for (const runId of runIds) {
          rows += await sql.run('DELETE FROM runs WHERE run_id = ? AND live = 0', runId);
          rows += await sql.run(
            'DELETE FROM fetches WHERE substr(call_id, 12) = ?',
            runId.slice(-20),
          );
        }
        return rows;
      }),

    /** Called only when it is certain that nothing was sent. */
    forgetFetch: (callId: string): Promise<number> =>
      db.write((sql) => sql.run('DELETE FROM fetches WHERE call_id = ?', callId)),
  };
}
