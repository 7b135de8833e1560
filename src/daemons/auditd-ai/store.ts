// The index of the log: which events a task, an agent, a tool, a run or an id has. It is derived:
// made from the log, behind it while events pour in, and made again from it whenever it is missing,
// broken or behind.
import { createHash } from 'node:crypto';
import { rmSync } from 'node:fs';
import type { Log } from '../../platform/log.ts';
import type { Database, Migrations, Sql, Value } from '../../platform/sql/database.ts';
import { openSqlite } from '../../platform/sql/sqlite.ts';
import { type Fault, fault } from '../../wire/errors.ts';
import type { AuditEvent } from '../../wire/events.ts';
import type { AuditLog } from './log/log.ts';
import { originOf } from './rules.ts';

/** Grows when events are indexed in another way: an index of another shape is made again. */
const SHAPE = 2;

/** One list of numbers per term: small keys that grow at the end keep writing cheap. */
const MIGRATIONS: Migrations = [
  `
CREATE TABLE terms (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE postings (term INTEGER, seq INTEGER, PRIMARY KEY (term, seq)) WITHOUT ROWID;
CREATE TABLE ids (hash INTEGER, seq INTEGER, PRIMARY KEY (hash, seq)) WITHOUT ROWID;
CREATE TABLE sources (origin TEXT PRIMARY KEY, seq INTEGER NOT NULL);
CREATE TABLE progress (id INTEGER PRIMARY KEY, next INTEGER NOT NULL, shape INTEGER NOT NULL);
`,
];

type Column = 'task_id' | 'root_task_id' | 'agent' | 'tool' | 'event' | 'run_id';
export type Where = { column: Column; value: string };
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
  findId(id: string): Promise<number | undefined>;
  /** Where the log may have these ids, in order: every place that has one, seldom another. */
  findIds(ids: readonly string[]): Promise<number[]>;
  /** The highest number taken from each origin: never less than the log has. */
  taken(): Promise<Map<string, number>>;
  /** The log grew: it is indexed when the pouring pauses. */
  grew(): void;
  close(): Promise<void>;
};

const COLUMNS: readonly Column[] = ['task_id', 'root_task_id', 'agent', 'tool', 'event', 'run_id'];
const BATCH = 1_000;
const PAUSE_MS = 50;
/** So far behind it catches up even while events keep coming. */
const BEHIND_MAX = 500_000;
const PAIRS_PER_STATEMENT = 250;
const TERMS_KEPT_MAX = 50_000;

export async function openIndex(options: {
  file: string;
  log: AuditLog;
  say: Log;
}): Promise<AuditIndex> {
  const { file, log, say } = options;
  let { db, next } = await openOrReset(file, log.size, say);
  const terms = makeTerms();
  let catching: Promise<void> = Promise.resolve();
  let timer: NodeJS.Timeout | undefined;
  /** Somebody waits for the index to be complete. */
  let readers = 0;
  let isPouring = false;

  const catchUp = async (): Promise<void> => {
    while (next < log.size) {
      const lines = log.readRange(next, BATCH);
      if (lines.length === 0) return;
      const events = lines.map((line) => JSON.parse(line) as AuditEvent);
      await db.write((sql) => insert(sql, terms, events));
      next += lines.length;
      // Events that come in go first; the index takes the next pause.
      if (isPouring && readers === 0 && log.size - next < BEHIND_MAX) return;
    }
  };
  /** Damage that a look at every table did not show. `broken` is the one that was damaged. */
  const remake = async (broken: Database, error: unknown): Promise<void> => {
    if (db !== broken) return;
    say.warn('the index is damaged; making it again from the log', { error });
    await broken.close();
    terms.clear();
    db = reset(file);
    next = 0;
  };
  const flush = (): Promise<void> => {
    clearTimeout(timer);
    timer = undefined;
    isPouring = false;
    catching = catching
      .then(catchUp)
      .catch((error: unknown) => {
        terms.clear();
        if (isBroken(error)) return remake(db, error).then(catchUp);
        return Promise.reject(error);
      })
      .catch((error: unknown) => {
        terms.clear();
        say.warn('the index is behind; it catches up later', { error });
      });
    return catching;
  };
  const complete = async (): Promise<void> => {
    readers++;
    await flush();
    readers--;
  };
  const ask = async <T>(work: (sql: Sql) => Promise<T>): Promise<T> => {
    await complete();
    const asked = db;
    try {
      return await asked.read(work);
    } catch (error) {
      if (!isBroken(error)) throw error;
      catching = catching.then(() => remake(asked, error));
      await complete();
      return db.read(work);
    }
  };
  /** What catching up failed to bring into the index: where it counts, the log itself is read. */
  async function* unindexed(): AsyncGenerator<AuditEvent> {
    for await (const lines of log.scan(next))
      for (const line of lines) yield JSON.parse(line) as AuditEvent;
  }

  const findIds = async (ids: readonly string[]): Promise<number[]> => {
    const seqs = new Set(await ask((sql) => seqsOfIds(sql, ids)));
    const wanted = new Set(ids);
    for await (const event of unindexed()) if (wanted.has(event.id)) seqs.add(event.seq);
    return [...seqs].sort((a, b) => a - b);
  };

  return {
    async find(query) {
      if (query.where.length === 0) return range(query, log.size);
      return ask((sql) => findSeqs(sql, query));
    },
    async findId(id) {
      const isIt = (seq: number) => (JSON.parse(log.readRange(seq, 1)[0]!) as AuditEvent).id === id;
      return (await findIds([id])).find(isIt);
    },
    findIds,
    async taken() {
      const rows = await ask((sql) =>
        sql.all<{ origin: string; seq: number }>('SELECT origin, seq FROM sources'),
      );
      const taken = new Map(rows.map((row) => [row.origin, Number(row.seq)]));
      for await (const event of unindexed()) {
        const origin = originOf(event);
        taken.set(origin, Math.max(taken.get(origin) ?? 0, event.source_seq));
      }
      return taken;
    },
    grew() {
      isPouring = true;
      if (timer !== undefined && log.size - next < BEHIND_MAX) timer.refresh();
      else timer ??= setTimeout(() => void flush(), PAUSE_MS).unref();
    },
    async close() {
      await complete();
      await db.close();
    },
  };
}

const isBroken = (error: unknown): boolean => (error as Partial<Fault>).code === 'storage_broken';

/** Without a condition the numbers are all there are: no index is needed. */
function range({ after = -1, before, order, limit }: SeqQuery, size: number): number[] {
  const first = after + 1;
  const last = Math.min(before ?? size, size) - 1;
  const count = Math.max(0, Math.min(limit, last - first + 1));
  return Array.from({ length: count }, (_, i) => (order === 'asc' ? first + i : last - i));
}

async function findSeqs(sql: Sql, query: SeqQuery): Promise<number[]> {
  const ids: number[] = [];
  for (const { column, value } of query.where) {
    const name = `${column} ${value}`;
    const term = await sql.one<{ id: number }>('SELECT id FROM terms WHERE name = ?', name);
    if (term === undefined) return [];
    ids.push(term.id);
  }
  const [first, ...others] = ids;
  const values: Value[] = [...others, first!];
  const joins = others.map((_, i) => `JOIN postings p${i} ON p${i}.term = ? AND p${i}.seq = p.seq`);
  let where = 'p.term = ?';
  if (query.after !== undefined) {
    where += ' AND p.seq > ?';
    values.push(query.after);
  }
  if (query.before !== undefined) {
    where += ' AND p.seq < ?';
    values.push(query.before);
  }
  const text = `SELECT p.seq AS seq FROM postings p ${joins.join(' ')} WHERE ${where} ORDER BY p.seq ${query.order} LIMIT ?`;
  return (await sql.all<{ seq: number }>(text, ...values, query.limit)).map((row) => row.seq);
}

async function seqsOfIds(sql: Sql, ids: readonly string[]): Promise<number[]> {
  const seqs: number[] = [];
  for (const id of ids) {
    const rows = await sql.all<{ seq: number }>('SELECT seq FROM ids WHERE hash = ?', hashOf(id));
    for (const { seq } of rows) seqs.push(seq);
  }
  return seqs;
}

type Terms = { idOf(sql: Sql, name: string): Promise<number>; clear(): void };

function makeTerms(): Terms {
  let known = new Map<string, number>();
  return {
    async idOf(sql, name) {
      const found = known.get(name);
      if (found !== undefined) return found;
      await sql.run('INSERT INTO terms (name) VALUES (?) ON CONFLICT DO NOTHING', name);
      const { id } = (await sql.one<{ id: number }>('SELECT id FROM terms WHERE name = ?', name))!;
      if (known.size >= TERMS_KEPT_MAX) known = new Map();
      known.set(name, id);
      return id;
    },
    // After a failed transaction, ids that it gave are not there.
    clear() {
      known = new Map();
    },
  };
}

/** What an event is found by: the same that a follower's filter wants (`wants` in rules.ts). */
function termsOf(event: AuditEvent): Set<string> {
  const names = new Set<string>();
  for (const column of COLUMNS)
    if (event[column] !== undefined) names.add(`${column} ${event[column]}`);
  const words = event.event.split('.');
  for (let n = 1; n < words.length; n++) names.add(`event ${words.slice(0, n).join('.')}`);
  if (event.task_id !== undefined) names.add(`root_task_id ${event.task_id}`);
  return names;
}

async function insert(sql: Sql, terms: Terms, events: readonly AuditEvent[]): Promise<void> {
  const postings: [number, number][] = [];
  const ids: [number, number][] = [];
  const sources = new Map<string, number>();
  for (const event of events) {
    for (const name of termsOf(event)) postings.push([await terms.idOf(sql, name), event.seq]);
    ids.push([hashOf(event.id), event.seq]);
    sources.set(originOf(event), event.source_seq);
  }
  // In the order of the tree, so that each of its pages is visited once.
  const byKey = (a: [number, number], b: [number, number]) => a[0] - b[0] || a[1] - b[1];
  await insertPairs(sql, 'postings (term, seq)', postings.sort(byKey));
  await insertPairs(sql, 'ids (hash, seq)', ids.sort(byKey));
  for (const [origin, seq] of sources) {
    await sql.run(
      'INSERT INTO sources (origin, seq) VALUES (?, ?) ON CONFLICT (origin) DO UPDATE SET seq = MAX(sources.seq, excluded.seq)',
      origin,
      seq,
    );
  }
  await sql.run(
    'INSERT INTO progress (id, next, shape) VALUES (1, ?, ?) ON CONFLICT (id) DO UPDATE SET next = excluded.next',
    events.at(-1)!.seq + 1,
    SHAPE,
  );
}

async function insertPairs(
  sql: Sql,
  into: string,
  pairs: readonly [number, number][],
): Promise<void> {
  for (let i = 0; i < pairs.length; i += PAIRS_PER_STATEMENT) {
    const some = pairs.slice(i, i + PAIRS_PER_STATEMENT);
    const rows = some.map(() => '(?, ?)').join(', ');
    await sql.run(`INSERT OR IGNORE INTO ${into} VALUES ${rows}`, ...some.flat());
  }
}

/** 48 bits: exact as a number, and a clash only costs reading one more event. */
function hashOf(id: string): number {
  return createHash('sha256').update(id).digest().readUIntBE(0, 6);
}

const TABLES = {
  terms: 'id, name',
  postings: 'term, seq',
  ids: 'hash, seq',
  sources: 'origin, seq',
  progress: 'id, next, shape',
};

type Opened = { db: Database; next: number };

async function openOrReset(file: string, logSize: number, say: Log): Promise<Opened> {
  let db: Database | undefined;
  try {
    db = openSqlite({ file, migrations: MIGRATIONS });
    return { db, next: await db.read((sql) => probe(sql, logSize)) };
  } catch (error) {
    say.warn('the index cannot be used; making it again from the log', { error });
    await db?.close();
    return { db: reset(file), next: 0 };
  }
}

/** How much of the log is indexed. Throws when the tables are damaged or of another shape. */
async function probe(sql: Sql, logSize: number): Promise<number> {
  for (const [table, columns] of Object.entries(TABLES))
    await sql.all(`SELECT ${columns} FROM ${table} LIMIT 1`);
  const row = await sql.one<{ next: number; shape: number }>('SELECT next, shape FROM progress');
  if (row === undefined) return 0;
  const { next, shape } = row;
  if (shape !== SHAPE) throw fault('storage_broken', `the index has shape ${shape}, not ${SHAPE}`);
  if (next > logSize)
    throw fault(
      'storage_broken',
      `the index has ${next} events and the log ${logSize}: they do not belong together`,
    );
  return next;
}

function reset(file: string): Database {
  for (const name of [file, `${file}-wal`, `${file}-shm`]) rmSync(name, { force: true });
  return openSqlite({ file, migrations: MIGRATIONS });
}
