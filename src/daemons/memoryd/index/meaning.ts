// Finds the records of a scope that mean what a question means: by the angle between vectors,
// compared one by one. A scope is rarely so large that an index of vectors would be faster.
import type { Sql } from '../../../platform/sql/database.ts';
import type { ScopeRow } from './add.ts';
import type { WeighedTerm } from './candidates.ts';
import { idfOf } from './candidates.ts';

/** Has length 1; only vectors of the same model are compared. */
export type QuestionVector = { model: string; vector: Float32Array };

/** Compared per scope, the newest first. */
export const VECTORS_MAX = 20_000;
const PAGE = 500;
/** Less says nothing, whatever the model. */
const SIMILARITY_MIN = 0.3;
/** Many models call any two texts similar; from so many records on, their mean is the least. */
const RECORDS_TELLING = 32;

/** How much of the question each record means, from 0 to 1, by ordinal. */
export async function matchMeaning(
  sql: Sql,
  scope: ScopeRow & { scope: string },
  question: QuestionVector,
): Promise<Float32Array> {
  const similarities = new Float32Array(scope.next);
  let sum = 0;
  let compared = 0;
  let before = Number.MAX_SAFE_INTEGER;
  while (compared < VECTORS_MAX) {
    const rows = await readPage(sql, scope.scope, question.model, before);
    for (const { number, ordinal, vector } of rows) {
      before = number;
      const similarity = multiply(question.vector, toFloats(vector));
      similarities[ordinal] = similarity;
      sum += similarity;
    }
    compared += rows.length;
    if (rows.length < PAGE) break;
  }
  const mean = compared < RECORDS_TELLING ? 0 : sum / compared;
  return aboveLeast(similarities, Math.max(SIMILARITY_MIN, mean));
}

/** A record that means the whole question counts as one that has all its words once. */
export function worthOfMeaning(scope: ScopeRow, terms: readonly WeighedTerm[]): number {
  const worth = terms.reduce((sum, { idf }) => sum + idf, 0);
  return worth > 0 ? worth : idfOf(1, scope.records);
}

type VectorRow = { number: number; ordinal: number; vector: Uint8Array };

const readPage = (sql: Sql, scope: string, model: string, before: number): Promise<VectorRow[]> =>
  sql.all<VectorRow>(
    'SELECT v.number, r.ordinal, v.vector FROM vectors v ' +
      'JOIN memory_index_records r ON r.number = v.number ' +
      'WHERE v.scope = ? AND v.model = ? AND v.number < ? ORDER BY v.number DESC LIMIT ?',
    scope,
    model,
    before,
    PAGE,
  );

/** A copy, where the bytes do not begin at a multiple of four. */
function toFloats(bytes: Uint8Array): Float32Array {
  const { buffer, byteOffset, byteLength } = byteOf(bytes);
  return new Float32Array(buffer, byteOffset, byteLength / Float32Array.BYTES_PER_ELEMENT);
}

const byteOf = (bytes: Uint8Array): Uint8Array =>
  bytes.byteOffset % Float32Array.BYTES_PER_ELEMENT === 0 ? bytes : bytes.slice();

function multiply(a: Float32Array, b: Float32Array): number {
  if (a.length !== b.length) return 0;
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += a[i]! * b[i]!;
  return sum;
}

function aboveLeast(similarities: Float32Array, least: number): Float32Array {
  const scale = 1 / Math.max(1 - least, Number.EPSILON);
  return similarities.map((similarity) => Math.max(similarity - least, 0) * scale);
}
