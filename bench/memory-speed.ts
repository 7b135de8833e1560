// Measures recall in a scope with 100,000 records and in one of many scopes, beside bare FTS5 on
// the same texts, and what a record costs to index.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import {
  addToIndex,
  INDEX_TABLES,
  type IndexedRecord,
  search,
} from '../src/daemons/memoryd/index/index.ts';
import { openSqlite, type SqliteDatabase } from '../src/platform/sql/sqlite.ts';
import { type Benchmark, exactly, type Figure, quantile } from './figure.ts';
import { type Memories, makeMemories } from './fill/memories.ts';
import { compare, type Measure } from './rounds.ts';

const LARGE = 100_000;
const SMALL = 10_000;
const SCOPES = 300;
const PER_SCOPE = 1_000;
const BATCH = 250;
const SINGLES = 300;
const LIMIT = 10;
const WARM_UP = 40;
const ORDER = { rounds: 5, turnsPerRound: 60 };
/** As in the store: removed text is overwritten. */
const TABLES = `PRAGMA secure_delete = ON; ${INDEX_TABLES}`;

async function fill(
  db: SqliteDatabase,
  memories: Memories,
  scope: string,
  count: number,
  alsoTo?: (records: IndexedRecord[]) => void,
): Promise<number> {
  let writeMs = 0;
  for (let left = count; left > 0; left -= BATCH) {
    const records = memories.take(scope, Math.min(left, BATCH));
    alsoTo?.(records);
    const began = performance.now();
    await db.write((sql) => addToIndex(sql, records));
    writeMs += performance.now() - began;
  }
  return writeMs;
}

const timedSearch =
  (db: SqliteDatabase, memories: Memories, scope: () => string): Measure =>
  async () => {
    const query = memories.question();
    const options = { scopes: [scope()], query, limit: LIMIT, nowMs: Date.now() };
    const began = performance.now();
    const hits = await db.read((sql) => search(sql, options));
    const tookMs = performance.now() - began;
    if (hits.length === 0) throw new Error(`no hits for ${query}`);
    return tookMs;
  };

/** Looks for any of the words, the best matches first. */
function openFts(file: string) {
  const db = new DatabaseSync(file);
  db.exec("CREATE VIRTUAL TABLE texts USING fts5(text, tokenize = 'porter unicode61')");
  const insert = db.prepare('INSERT INTO texts (text) VALUES (?)');
  const select = db.prepare('SELECT rowid FROM texts WHERE texts MATCH ? ORDER BY rank LIMIT ?');
  return {
    add(records: IndexedRecord[]): void {
      db.exec('BEGIN');
      for (const { text } of records) insert.run(text);
      db.exec('COMMIT');
    },
    timed: (memories: Memories): Measure => {
      return async () => {
        const words = memories.question().match(/\w+/g)!.slice(4);
        const began = performance.now();
        select.all(words.map((word) => `"${word}"`).join(' OR '), LIMIT);
        return performance.now() - began;
      };
    },
    close: () => db.close(),
  };
}

async function warmUp(...measures: Measure[]): Promise<void> {
  for (let i = 0; i < WARM_UP; i++) for (const measure of measures) await measure();
}

async function measureLarge(dir: string, memories: Memories): Promise<Figure[]> {
  const db = openSqlite({ file: join(dir, 'large.sqlite'), migrations: [TABLES] });
  const fts = openFts(join(dir, 'fts.sqlite'));
  const writeMs = await fill(db, memories, 'large', LARGE, fts.add);
  const bytes = await bytesOf(db);
  await fill(db, memories, 'small', SMALL);
  const large = timedSearch(db, memories, () => 'large');
  const small = timedSearch(db, memories, () => 'small');
  const bare = fts.timed(memories);
  await warmUp(large, small, bare);
  const name = `recall among ${LARGE.toLocaleString('en-US')} records`;
  const besides = { name: 'bare FTS5', measure: bare };
  const smaller = { name: `${SMALL.toLocaleString('en-US')} records`, measure: small };
  const figures: Figure[] = [
    await figureOf(`${name}, p50`, 0.5, large, besides, { of: 'value', max: 10 }),
    await figureOf(`${name}, p95`, 0.95, large, besides, { of: 'value', max: 30 }),
    await figureOf(`${name}, p50`, 0.5, large, smaller, { of: 'ratio', max: 3 }),
    {
      name: `indexing a record, ${BATCH} per commit`,
      unit: 'ms',
      own: exactly(writeMs / LARGE),
    },
    {
      name: 'indexing a record with a commit of its own',
      unit: 'ms',
      own: exactly(await measureSingles(db, memories)),
    },
    { name: 'size of the index per record', unit: 'bytes', own: exactly(bytes / LARGE) },
  ];
  fts.close();
  await db.close();
  return figures;
}

async function figureOf(
  name: string,
  share: number,
  measure: Measure,
  peer: { name: string; measure: Measure },
  bar: NonNullable<Figure['bar']>,
): Promise<Figure> {
  const compared = await compare({ ...ORDER, share }, measure, peer.measure);
  const { own, ratio } = compared;
  return { name, unit: 'ms', own, peer: { name: peer.name, ...compared.peer }, ratio, bar };
}

async function measureSingles(db: SqliteDatabase, memories: Memories): Promise<number> {
  const records = memories.take('large', SINGLES);
  const began = performance.now();
  for (const record of records) await db.write((sql) => addToIndex(sql, [record]));
  return (performance.now() - began) / SINGLES;
}

async function bytesOf(db: SqliteDatabase): Promise<number> {
  const row = await db.read((sql) =>
    sql.one<{ bytes: number }>(
      'SELECT page_count * page_size AS bytes FROM pragma_page_count, pragma_page_size',
    ),
  );
  return row!.bytes;
}

async function measureMany(dir: string, memories: Memories): Promise<Figure> {
  const db = openSqlite({ file: join(dir, 'many.sqlite'), migrations: [TABLES] });
  // Scopes grow beside each other.
  for (let round = 0; round < PER_SCOPE / BATCH; round++)
    for (let i = 0; i < SCOPES; i++) await fill(db, memories, `project:p${i}`, BATCH);
  let next = 0;
  const measure = timedSearch(db, memories, () => `project:p${(next++ * 7) % SCOPES}`);
  await warmUp(measure);
  const took: number[] = [];
  for (let i = 0; i < 2 * SCOPES; i++) took.push(await measure());
  await db.close();
  return {
    name: `recall in one of ${SCOPES} scopes of ${PER_SCOPE.toLocaleString('en-US')} records, p95`,
    unit: 'ms',
    own: exactly(
      quantile(
        took.sort((a, b) => a - b),
        0.95,
      ),
    ),
    bar: { of: 'value', max: 5 },
  };
}

async function run(): Promise<Figure[]> {
  const dir = mkdtempSync(join(tmpdir(), 'agentd-bench-'));
  const memories = makeMemories();
  try {
    return [...(await measureLarge(dir, memories)), await measureMany(dir, memories)];
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

export const memorySpeed: Benchmark = {
  name: 'memory-speed',
  about: 'recall among many records, and what indexing takes',
  run,
};
