// Finds the records of a scope that mean what a question means: by the angle between vectors,
// compared one by one. A scope is rarely so large that an index of vectors would be faster.
import type { Sql } from '../../../platform/sql/database.ts';
import { readBlock } from '../vectors/blocks.ts';
import type { ScopeRow } from './add.ts';
import { idfOf, type WeighedTerm } from './candidates.ts';

/** Has length 1; only vectors of the same model are compared. */
export type QuestionVector = { model: string; vector: Float32Array };

/** Compared per scope, the newest first. */
const VECTORS_MAX = 20_000;
const BLOCKS_AT_ONCE = 8;
/** Less says nothing, whatever the model. */
const SIMILARITY_MIN = 0.3;
/** Many models call any two texts similar; from so many records on, their mean is the least. */
const RECORDS_TELLING = 32;
/** The others are too far behind to be hits. */
const MEANT_MAX = 500;

/** How much of the question each record means, from 0 to 1, by ordinal. */
export async function matchMeaning(
  sql: Sql,
  scope: ScopeRow & { scope: string },
  question: QuestionVector,
): Promise<Float32Array> {
  const { numbers, similarities, mean } = await compareAll(sql, scope.scope, question);
  const least = Math.max(SIMILARITY_MIN, numbers.length < RECORDS_TELLING ? 0 : mean);
  const scale = 1 / Math.max(1 - least, Number.EPSILON);
  const meant = [...numbers.keys()]
    .filter((i) => similarities[i]! > least)
    .sort((a, b) => similarities[b]! - similarities[a]!)
    .slice(0, MEANT_MAX);
  const shares = new Map(meant.map((i) => [numbers[i]!, (similarities[i]! - least) * scale]));
  const rows = await sql.all<{ number: number; ordinal: number }>(
    'SELECT r.number, r.ordinal FROM json_each(?) wanted ' +
      'JOIN memory_index_records r ON r.number = wanted.value',
    JSON.stringify([...shares.keys()]),
  );
  const found = new Float32Array(scope.next);
  for (const { number, ordinal } of rows) found[ordinal] = shares.get(number)!;
  return found;
}

type Compared = { numbers: number[]; similarities: number[]; mean: number };

async function compareAll(
  sql: Sql,
  scope: string,
  { model, vector }: QuestionVector,
): Promise<Compared> {
  const numbers: number[] = [];
  const similarities: number[] = [];
  let sum = 0;
  let before = Number.MAX_SAFE_INTEGER;
  while (numbers.length < VECTORS_MAX) {
    const rows = await sql.all<{ block: number; numbers: Uint8Array; vectors: Uint8Array }>(
      'SELECT block, numbers, vectors FROM vector_blocks ' +
        'WHERE scope = ? AND model = ? AND block < ? ORDER BY block DESC LIMIT ?',
      scope,
      model,
      before,
      BLOCKS_AT_ONCE,
    );
    for (const { block, ...row } of rows) {
      before = block;
      for (const stored of readBlock(row)) {
        const similarity = multiply(vector, stored.vector);
        numbers.push(stored.number);
        similarities.push(similarity);
        sum += similarity;
      }
    }
    if (rows.length < BLOCKS_AT_ONCE) break;
  }
  return { numbers, similarities, mean: sum / Math.max(numbers.length, 1) };
}

/** A record that means the whole question counts as one that has all its words once. */
export function worthOfMeaning(scope: ScopeRow, terms: readonly WeighedTerm[]): number {
  const worth = terms.reduce((sum, { idf }) => sum + idf, 0);
  return worth > 0 ? worth : idfOf(1, scope.records);
}

function multiply(a: Float32Array, b: Float32Array): number {
  if (a.length !== b.length) return 0;
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += a[i]! * b[i]!;
  return sum;
}
