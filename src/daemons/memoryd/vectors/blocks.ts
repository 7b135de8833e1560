// Stores vectors in blocks, each of one scope and one model: read one by one, they would take
// several times as long to compare. `vectors` has the place of each.
import type { Sql } from '../../../platform/sql/database.ts';

export type StoredVector = { number: number; vector: Float32Array };
type BlockRow = { block: number; numbers: Uint8Array; vectors: Uint8Array };
type Kind = { scope: string; model: string };

const PER_BLOCK = 64;

/** Replaces those that the numbers have. */
export async function addVectors(
  sql: Sql,
  kind: Kind,
  added: readonly StoredVector[],
): Promise<void> {
  await removeVectors(
    sql,
    added.map(({ number }) => number),
  );
  const last = await sql.one<BlockRow>(
    'SELECT block, numbers, vectors FROM vector_blocks WHERE scope = ? AND model = ? ' +
      'ORDER BY block DESC LIMIT 1',
    kind.scope,
    kind.model,
  );
  let kept = last === undefined ? [] : readBlock(last);
  let block = last?.block;
  const isOpen = kept.length < PER_BLOCK && kept[0]?.vector.length === added[0]?.vector.length;
  if (!isOpen) [kept, block] = [[], undefined];
  let rest = [...added];
  while (rest.length > 0) {
    const now = rest.slice(0, PER_BLOCK - kept.length);
    rest = rest.slice(now.length);
    block ??= await findFreeBlock(sql);
    await putBlock(sql, kind, block, [...kept, ...now]);
    for (const { number } of now)
      await sql.run(
        'INSERT INTO vectors (number, model, block) VALUES (?, ?, ?)',
        number,
        kind.model,
        block,
      );
    [kept, block] = [[], undefined];
  }
}

/** Ignores numbers without one. */
export async function removeVectors(sql: Sql, numbers: readonly number[]): Promise<void> {
  const removed = new Set(numbers);
  const places = await sql.all<{ number: number; block: number }>(
    'SELECT v.number, v.block FROM json_each(?) wanted JOIN vectors v ON v.number = wanted.value',
    JSON.stringify(numbers),
  );
  for (const block of new Set(places.map((place) => place.block))) {
    const row = await sql.one<BlockRow & Kind>(
      'SELECT block, scope, model, numbers, vectors FROM vector_blocks WHERE block = ?',
      block,
    );
    if (row === undefined) continue;
    const left = readBlock(row).filter(({ number }) => !removed.has(number));
    if (left.length > 0) await putBlock(sql, row, block, left);
    else await sql.run('DELETE FROM vector_blocks WHERE block = ?', block);
  }
  for (const { number } of places) await sql.run('DELETE FROM vectors WHERE number = ?', number);
}

async function findFreeBlock(sql: Sql): Promise<number> {
  const row = await sql.one<{ block: number | null }>(
    'SELECT MAX(block) AS block FROM vector_blocks',
  );
  return (row?.block ?? 0) + 1;
}

async function putBlock(
  sql: Sql,
  { scope, model }: Kind,
  block: number,
  entries: readonly StoredVector[],
): Promise<void> {
  const dimensions = entries[0]!.vector.length;
  const vectors = new Float32Array(entries.length * dimensions);
  entries.forEach(({ vector }, i) => void vectors.set(vector, i * dimensions));
  const numbers = Float64Array.from(entries, ({ number }) => number);
  await sql.run(
    'REPLACE INTO vector_blocks (block, scope, model, numbers, vectors) VALUES (?, ?, ?, ?, ?)',
    block,
    scope,
    model,
    new Uint8Array(numbers.buffer),
    new Uint8Array(vectors.buffer),
  );
}

/** The vectors are views of one array. */
export function readBlock({ numbers, vectors }: Omit<BlockRow, 'block'>): StoredVector[] {
  const found = new Float64Array(align(numbers, Float64Array.BYTES_PER_ELEMENT));
  const floats = new Float32Array(align(vectors, Float32Array.BYTES_PER_ELEMENT));
  const dimensions = floats.length / found.length;
  return Array.from(found, (number, i) => ({
    number,
    vector: floats.subarray(i * dimensions, (i + 1) * dimensions),
  }));
}

/** A copy, where the bytes do not fill a buffer of their own. */
function align(bytes: Uint8Array, size: number): ArrayBuffer {
  const isWhole = bytes.byteOffset === 0 && bytes.buffer.byteLength === bytes.byteLength;
  const whole = isWhole && bytes.byteLength % size === 0 ? bytes : Uint8Array.from(bytes);
  return whole.buffer as ArrayBuffer;
}
