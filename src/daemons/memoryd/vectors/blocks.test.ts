// Blocks have what a simple map would have, after any additions, replacements and removals.
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import fc from 'fast-check';
import { openSqlite, type SqliteDatabase } from '../../../platform/sql/sqlite.ts';
import { MIGRATIONS } from '../store/schema.ts';
import { addVectors, readBlock, removeVectors } from './blocks.ts';

const dir = mkdtempSync(join(tmpdir(), 'vector-blocks-'));
const file = join(dir, 'memoryd.sqlite');
const db: SqliteDatabase = openSqlite({ file, migrations: MIGRATIONS });
test.after(async () => {
  await db.close();
  rmSync(dir, { recursive: true });
});

type Kept = Map<number, { kind: string; vector: number[] }>;

async function readAll(): Promise<Kept> {
  const rows = await db.read((sql) =>
    sql.all<{ scope: string; model: string; numbers: Uint8Array; vectors: Uint8Array }>(
      'SELECT scope, model, numbers, vectors FROM vector_blocks',
    ),
  );
  const kept: Kept = new Map();
  for (const { scope, model, ...row } of rows)
    for (const { number, vector } of readBlock(row)) {
      assert.ok(!kept.has(number), `${number} is there once`);
      kept.set(number, { kind: `${scope} ${model}`, vector: [...vector] });
    }
  return kept;
}

const sorted = (kept: Kept) => [...kept].sort(([a], [b]) => a - b);

test('any order of additions and removals leaves what was added and not removed', async () => {
  const step = fc.record({
    adds: fc.boolean(),
    from: fc.nat({ max: 300 }),
    count: fc.integer({ min: 1, max: 150 }),
    scope: fc.constantFrom('team', 'project:app'),
    model: fc.constantFrom('two', 'three'),
  });
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 8 }), async (steps) => {
      const expected: Kept = new Map();
      let made = 0;
      for (const { adds, from, count, scope, model } of steps) {
        const numbers = Array.from({ length: count }, (_, i) => from + i + 1);
        if (!adds) {
          await db.write((sql) => removeVectors(sql, numbers));
          for (const number of numbers) expected.delete(number);
          continue;
        }
        const dimensions = model === 'two' ? 2 : 3;
        const added = numbers.map((number) => ({
          number,
          vector: Float32Array.from({ length: dimensions }, () => made++ % 97),
        }));
        await db.write((sql) => addVectors(sql, { scope, model }, added));
        for (const { number, vector } of added)
          expected.set(number, { kind: `${scope} ${model}`, vector: [...vector] });
      }
      assert.deepEqual(sorted(await readAll()), sorted(expected));
      const places = await db.read((sql) =>
        sql.all<{ number: number }>('SELECT number FROM vectors ORDER BY number'),
      );
      assert.deepEqual(
        places.map(({ number }) => number),
        sorted(expected).map(([number]) => number),
      );
      await db.write((sql) => removeVectors(sql, [...expected.keys()]));
      assert.deepEqual(await readAll(), new Map());
    }),
    { numRuns: 40 },
  );
});

test('vectors of another length under the same name of a model get a block of their own', async () => {
  const kind = { scope: 'team', model: 'm' };
  await db.write((sql) => addVectors(sql, kind, [{ number: 1, vector: Float32Array.of(1, 0) }]));
  await db.write((sql) => addVectors(sql, kind, [{ number: 2, vector: Float32Array.of(1, 0, 0) }]));
  const kept = await readAll();
  assert.deepEqual(
    [kept.get(1)!.vector, kept.get(2)!.vector],
    [
      [1, 0],
      [1, 0, 0],
    ],
  );
  await db.write((sql) => removeVectors(sql, [1, 2]));
});

test('nothing of a removed vector is left in the file', async () => {
  const vector = Float32Array.from({ length: 64 }, (_, i) => Math.fround(0.123 + i / 7));
  const bytes = Buffer.from(vector.buffer);
  const kind = { scope: 'team', model: 'm' };
  const other = Float32Array.from({ length: 64 }, () => 0.5);
  await db.write((sql) =>
    addVectors(sql, kind, [
      { number: 1, vector },
      { number: 2, vector: other },
    ]),
  );
  const inFile = async (): Promise<boolean> => {
    await db.read((sql) => sql.all('PRAGMA wal_checkpoint(TRUNCATE)'));
    return readFileSync(file).includes(bytes.subarray(0, 128));
  };
  assert.equal(await inFile(), true, 'control');
  await db.write((sql) => removeVectors(sql, [1]));
  assert.equal(await inFile(), false);
  assert.deepEqual([...(await readAll()).keys()], [2]);
});
