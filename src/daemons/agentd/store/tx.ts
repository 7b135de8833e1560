// Runs one transaction of agentd's store: its time, its events, and the processes to stop once it
// is durable.
import type { Clock } from '../../../platform/clock.ts';
import type { NewId } from '../../../platform/ids.ts';
import type { Outbox } from '../../../platform/outbox.ts';
import type { Database, Sql } from '../../../platform/sql/database.ts';
import type { EventDraft } from '../../../wire/events.ts';

export type EndedRun = { runId: string; fence: number };

export type AgentdTx = {
  sql: Sql;
  nowMs: number;
  newId: NewId;
  /** Resolves to the event's number. */
  event(draft: EventDraft): Promise<number>;
  /** Live runs that this transaction ended; their processes are stopped after the commit. */
  endedRuns: EndedRun[];
  /** Halts the runtime after the commit. The transaction itself must have recorded the halt. */
  haltAfter(reason: string): void;
};

export type CommittedWrite = {
  endedRuns: EndedRun[];
  events: EventDraft[];
  mayStart: boolean;
  haltReason?: string | undefined;
};
/** `mayStart: false` if the write cannot let another run start. */
export type AgentdWriteTx = <T>(
  work: (tx: AgentdTx) => Promise<T>,
  options?: { mayStart: boolean },
) => Promise<T>;

export type AgentdTxOptions = {
  db: Database;
  outbox: Outbox;
  clock: Clock;
  newId: NewId;
  onCommitted: (committed: CommittedWrite) => void;
};

export function makeWriteTx(options: AgentdTxOptions): AgentdWriteTx {
  const { db, outbox, clock, newId, onCommitted } = options;
  return async (work, { mayStart } = { mayStart: true }) => {
    let endedRuns: EndedRun[] = [];
    let events: EventDraft[] = [];
    let haltReason: string | undefined;
    const value = await db.write(async (sql) => {
      endedRuns = [];
      events = [];
      haltReason = undefined;
      return work({
        sql,
        newId,
        endedRuns,
        nowMs: clock.nowMs(),
        haltAfter: (reason) => {
          haltReason = reason;
        },
        event: async (draft) => {
          events.push(draft);
          return outbox.add(sql, draft);
        },
      });
    });
    outbox.wake();
    onCommitted({ endedRuns, events, mayStart, haltReason });
    return value;
  };
}

export async function insertRow(
  sql: Sql,
  table: string,
  row: Record<string, string | number | null>,
): Promise<void> {
  const names = Object.keys(row);
  const marks = names.map(() => '?').join(', ');
  await sql.run(
    `INSERT INTO ${table} (${names.join(', ')}) VALUES (${marks})`,
    ...Object.values(row),
  );
}
