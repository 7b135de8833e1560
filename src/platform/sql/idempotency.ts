// Doing a thing once per key: the answer is kept in the transaction that made it, so that the same
// key gives the same answer after any crash, and a different request under the same key is refused.
import { fault } from '../../wire/errors.ts';
import type { Sql } from './database.ts';

export const ONCE_TABLE = `
CREATE TABLE once (
  scope TEXT NOT NULL,
  once_key TEXT NOT NULL,
  request_hash TEXT NOT NULL,
  answer TEXT NOT NULL,
  at_ms BIGINT NOT NULL,
  PRIMARY KEY (scope, once_key)
);
CREATE INDEX once_by_time ON once (at_ms);`;

export type IdempotencyKey = { scope: string; key: string; requestHash: string };

/** What was answered before under this key, if anything. */
export async function recallOnce<T>(sql: Sql, once: IdempotencyKey): Promise<T | undefined> {
  const found = await sql.one<{ request_hash: string; answer: string }>(
    'SELECT request_hash, answer FROM once WHERE scope = ? AND once_key = ?',
    once.scope,
    once.key,
  );
  if (found === undefined) return undefined;
  if (found.request_hash !== once.requestHash) {
    throw fault(
      'idempotency_mismatch',
      `the key ${once.key} was used before for a different request`,
    );
  }
  return JSON.parse(found.answer) as T;
}

/** Keys nobody will ask for again. */
export function forgetOnce(sql: Sql, beforeMs: number): Promise<number> {
  return sql.run('DELETE FROM once WHERE at_ms < ?', beforeMs);
}

export async function onceByKey<T>(
  sql: Sql,
  once: IdempotencyKey | undefined,
  nowMs: number,
  work: () => Promise<T>,
): Promise<T> {
  if (once === undefined) return work();
  const found = await recallOnce<T>(sql, once);
  if (found !== undefined) return found;
  const answer = await work();
  await sql.run(
    'INSERT INTO once (scope, once_key, request_hash, answer, at_ms) VALUES (?, ?, ?, ?, ?)',
    once.scope,
    once.key,
    once.requestHash,
    JSON.stringify(answer),
    nowMs,
  );
  return answer;
}
