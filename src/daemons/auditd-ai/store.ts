// The index of the log: where the events of a task, an agent, a tool or an id are. It is derived:
// made from the log, behind it by a moment, and made again from it whenever it is missing, broken
// or behind.
import { rmSync } from 'node:fs';
import type { Log } from '../../platform/log.ts';
import type { Database, Migrations, Value } from '../../platform/sql/database.ts';
import { openSqlite } from '../../platform/sql/sqlite.ts';
import type { AuditEvent } from '../../wire/events.ts';
import type { AuditLog } from './log/log.ts';

const MIGRATIONS: Migrations = [
  `
CREATE TABLE events (
  seq INTEGER PRIMARY KEY,
  id TEXT NOT NULL,
  event TEXT NOT NULL,
  task_id TEXT,
  root_task_id TEXT,
  agent TEXT,
  tool TEXT,
  run_id TEXT
);
CREATE INDEX events_by_id ON events (id);
CREATE INDEX events_by_event ON events (event, seq);
CREATE INDEX events_by_task ON events (task_id, seq) WHERE task_id IS NOT NULL;
CREATE INDEX events_by_root ON events (root_task_id, seq) WHERE root_task_id IS NOT NULL;
CREATE INDEX events_by_agent ON events (agent, seq) WHERE agent IS NOT NULL;
CREATE INDEX events_by_tool ON events (tool, seq) WHERE tool IS NOT NULL;
CREATE INDEX events_by_run ON events (run_id, seq) WHERE run_id IS NOT NULL;
CREATE TABLE sources (store TEXT PRIMARY KEY, seq INTEGER NOT NULL);
`,
];

export type Where = {
  column: 'task_id' | 'root_task_id' | 'agent' | 'tool' | 'event' | 'run_id' | 'id';
  value: string;
};
export type SeqQuery = {
  where: Where[];
  after?: number | undefined;
  before?: number | undefined;
  order: 'asc' | 'desc';
  limit: number;
};

export type AuditIndex = {
  /** Numbers of the events, once everything appended so far is in the index. */
  find(query: SeqQuery): Promise<number[]>;
  taken(): Promise<Map<string, number>>;
  /** New events; indexed soon. */
  add(firstSeq: number, events: readonly AuditEvent[]): void;
  close(): Promise<void>;
};

const PENDING_MAX = 50_000;
const FLUSH_EVERY_MS = 100;

export async function openIndex(options: {
  file: string;
  log: AuditLog;
  say: Log;
}): Promise<AuditIndex> {
  const { file, log, say } = options;
  let db = openOrReset(file, say);
  let next = await indexedSize(db);
  if (next > log.size) {
    // The index knows more than the log: it belongs to another log, or the log was put back from a
    // copy.
    await db.close();
    db = reset(file);
    next = 0;
  }
  let pending: AuditEvent[] = [];
  let flushing: Promise<void> = Promise.resolve();
  let timer: NodeJS.Timeout | undefined;

  const insert = (events: readonly AuditEvent[]): Promise<void> =>
    db.write(async (sql) => {
      const taken = new Map<string, number>();
      for (const e of events) {
        await sql.run(
          'INSERT OR REPLACE INTO events (seq, id, event, task_id, root_task_id, agent, tool, run_id) VALUES (?, ?, ?, ?, ?, ?, ?, ?)',
          e.seq,
          e.id,
          e.event,
          e.task_id ?? null,
          e.root_task_id ?? null,
          e.agent ?? null,
          e.tool ?? null,
          e.run_id ?? null,
        );
        taken.set(e.source_store, e.source_seq);
      }
      for (const [store, seq] of taken)
        await sql.run(
          'INSERT INTO sources (store, seq) VALUES (?, ?) ON CONFLICT (store) DO UPDATE SET seq = MAX(sources.seq, excluded.seq)',
          store,
          seq,
        );
    });

  const flushOnce = async (): Promise<void> => {
    const batch = pending;
    pending = [];
    if (batch[0]?.seq === next) {
      await insert(batch);
      next = batch[batch.length - 1]!.seq + 1;
    }
    // Whatever was not handed over in memory is read from the log itself.
    const until = pending[0]?.seq ?? log.size;
    while (next < until) {
      const lines = log.readRange(next, Math.min(5_000, until - next));
      if (lines.length === 0) break;
      await insert(lines.map((line) => JSON.parse(line) as AuditEvent));
      next += lines.length;
    }
  };

  const flush = (): Promise<void> => {
    clearTimeout(timer);
    timer = undefined;
    flushing = flushing
      .then(flushOnce)
      .catch((error: unknown) => say.warn('the index is behind; it catches up later', { error }));
    return flushing;
  };

  return {
    async find(query) {
      await flush();
      const values: Value[] = query.where.map(({ value }) => value);
      const clauses = query.where.map(({ column }) => `${column} = ?`);
      if (query.after !== undefined) {
        clauses.push('seq > ?');
        values.push(query.after);
      }
      if (query.before !== undefined) {
        clauses.push('seq < ?');
        values.push(query.before);
      }
      const where = clauses.length === 0 ? '' : `WHERE ${clauses.join(' AND ')}`;
      const text = `SELECT seq FROM events ${where} ORDER BY seq ${query.order === 'desc' ? 'DESC' : 'ASC'} LIMIT ?`;
      return (await db.read((sql) => sql.all<{ seq: number }>(text, ...values, query.limit))).map(
        (row) => Number(row.seq),
      );
    },
    async taken() {
      await flush();
      const rows = await db.read((sql) =>
        sql.all<{ store: string; seq: number }>('SELECT store, seq FROM sources'),
      );
      return new Map(rows.map((row) => [row.store, Number(row.seq)]));
    },
    add(_firstSeq, events) {
      if (pending.length + events.length > PENDING_MAX) pending = [];
      else pending.push(...events);
      timer ??= setTimeout(() => void flush(), FLUSH_EVERY_MS);
      timer.unref();
    },
    async close() {
      await flush();
      await db.close();
    },
  };
}

async function indexedSize(db: Database): Promise<number> {
  const row = await db.read((sql) =>
    sql.one<{ n: number | null }>('SELECT MAX(seq) AS n FROM events'),
  );
  return row?.n === null || row?.n === undefined ? 0 : Number(row.n) + 1;
}

function openOrReset(file: string, say: Log): Database {
  try {
    return openSqlite({ file, migrations: MIGRATIONS });
  } catch (error) {
    say.warn('the index cannot be opened; making it again from the log', { error });
    return reset(file);
  }
}

function reset(file: string): Database {
  for (const name of [file, `${file}-wal`, `${file}-shm`]) rmSync(name, { force: true });
  return openSqlite({ file, migrations: MIGRATIONS });
}
