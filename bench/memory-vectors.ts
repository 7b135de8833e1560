// Measures what a question's vector adds to a recall: it is compared with every vector of the
// scope. The vectors are made up, so that nothing is said about how well they find.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { addToIndex, type QuestionVector, search } from '../src/daemons/memoryd/index/index.ts';
import { MIGRATIONS } from '../src/daemons/memoryd/store/schema.ts';
import { addVectors } from '../src/daemons/memoryd/vectors/blocks.ts';
import { openSqlite, type SqliteDatabase } from '../src/platform/sql/sqlite.ts';
import type { Benchmark, Figure } from './figure.ts';
import { type Memories, makeMemories } from './fill/memories.ts';
import { compare, type Measure } from './rounds.ts';

const SCOPES = { small: 1_000, large: 20_000 };
const DIMENSIONS = 384;
const MODEL = 'made-up';
const BATCH = 250;
const LIMIT = 10;
const WARM_UP = 20;
const ORDER = { rounds: 5, turnsPerRound: 20 };

function makeVector(): Float32Array {
  const numbers = Array.from({ length: DIMENSIONS }, () => Math.random() - 0.5);
  const length = Math.hypot(...numbers);
  return Float32Array.from(numbers, (number) => number / length);
}

async function fill(db: SqliteDatabase, memories: Memories): Promise<void> {
  for (const [scope, count] of Object.entries(SCOPES))
    for (let left = count; left > 0; left -= BATCH) {
      const records = memories.take(scope, BATCH);
      await db.write(async (sql) => {
        await addToIndex(sql, records);
        const vectors = records.map(({ number }) => ({ number, vector: makeVector() }));
        await addVectors(sql, { scope, model: MODEL }, vectors);
      });
    }
}

const timedRecall =
  (db: SqliteDatabase, memories: Memories, scope: string, vector?: QuestionVector): Measure =>
  async () => {
    const options = { scopes: [scope], limit: LIMIT, nowMs: Date.now(), vector };
    const query = memories.question();
    const began = performance.now();
    await db.read((sql) => search(sql, { ...options, query }));
    return performance.now() - began;
  };

async function run(): Promise<Figure[]> {
  const dir = mkdtempSync(join(tmpdir(), 'bench-memory-vectors-'));
  const db = openSqlite({ file: join(dir, 'memoryd.sqlite'), migrations: MIGRATIONS });
  try {
    const memories = makeMemories();
    await fill(db, memories);
    const figures: Figure[] = [];
    for (const [scope, count] of Object.entries(SCOPES)) {
      const own = timedRecall(db, memories, scope, { model: MODEL, vector: makeVector() });
      const words = timedRecall(db, memories, scope);
      for (let i = 0; i < WARM_UP; i++) for (const measure of [own, words]) await measure();
      const compared = await compare(ORDER, own, words);
      figures.push({
        name: `recall among ${count.toLocaleString('en-US')} records, each with a vector, p50`,
        unit: 'ms',
        own: compared.own,
        peer: { name: 'words only', ...compared.peer },
        ratio: compared.ratio,
      });
    }
    return figures;
  } finally {
    await db.close();
    rmSync(dir, { recursive: true, force: true });
  }
}

export const memoryVectors: Benchmark = {
  name: 'memory-vectors',
  about: 'recall by words and vectors',
  run,
};
