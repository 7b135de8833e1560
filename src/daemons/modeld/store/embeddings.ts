// Stores vectors by model and text hash, so that each is paid for once.
import type { Sql } from '../../../platform/sql/database.ts';

const toBlob = (vector: number[]): Uint8Array => new Uint8Array(Float64Array.from(vector).buffer);
const fromBlob = (blob: Uint8Array): number[] => {
  const bytes = Uint8Array.from(blob);
  return [...new Float64Array(bytes.buffer)];
};

export async function findVectors(
  sql: Sql,
  model: string,
  hashes: readonly string[],
): Promise<(number[] | undefined)[]> {
  const found: (number[] | undefined)[] = [];
  for (const hash of hashes) {
    const row = await sql.one<{ vector: Uint8Array }>(
      'SELECT vector FROM embeddings WHERE model = ? AND hash = ?',
      model,
      hash,
    );
    found.push(row === undefined ? undefined : fromBlob(row.vector));
  }
  return found;
}

export async function writeVectors(
  sql: Sql,
  model: string,
  vectors: readonly { hash: string; vector: number[] }[],
): Promise<void> {
  for (const { hash, vector } of vectors) {
    await sql.run(
      'INSERT INTO embeddings (model, hash, vector) VALUES (?, ?, ?) ON CONFLICT DO NOTHING',
      model,
      hash,
      toBlob(vector),
    );
  }
}
