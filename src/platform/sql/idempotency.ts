// Runs work once per idempotency key: the result is stored in the work's own transaction, so that
// the same key gives the same result after any crash. A different request under a used key fails.
import { fault } from '../../wire/errors.ts';
import type { Sql } from './database.ts';

export const IDEMPOTENCY_TABLE = `
CREATE TABLE once (
  scope TEXT NOT NULL,
  once_key TEXT NOT NULL,
  request_hash TEXT NOT NULL,
  answer TEXT NOT NULL,
  at_ms BIGINT NOT NULL,
  PRIMARY KEY (scope, once_key)
);
CREATE INDEX once_by_time ON once (at_ms);`;

/** Results are kept this long. */
export const IDEMPOTENCY_WINDOW_MS = 30 * 86_400_000;

export type IdempotencyKey = { scope: string; key: string; requestHash: string };

/** Resolves to the recorded result of this key, or undefined. */
export async function findRecorded<T>(sql: Sql, key: IdempotencyKey): Promise<T | undefined> {
  const found = await sql.one<{ request_hash: string; answer: string }>(
    'SELECT request_hash, answer FROM once WHERE scope = ? AND once_key = ?',
    key.scope,
    key.key,
  );
  if (found === undefined) return undefined;
  if (found.request_hash !== key.requestHash) {
    throw fault(
      'idempotency_mismatch',
      `the key ${key.key} was already used for a different request`,
    );
  }
  return JSON.parse(found.answer) as T;
}

export async function runOnce<T>(
  sql: Sql,
  key: IdempotencyKey | undefined,
  nowMs: number,
  work: () => Promise<T>,
): Promise<T> {
  if (key === undefined) return work();
  const found = await findRecorded<T>(sql, key);
  if (found !== undefined) return found;
  const result = await work();
  await sql.run(
    'INSERT INTO once (scope, once_key, request_hash, answer, at_ms) VALUES (?, ?, ?, ?, ?)',
    key.scope,
    key.key,
    key.requestHash,
    JSON.stringify(result),
    nowMs,
  );
  await deleteExpired(sql, nowMs);
  return result;
}

/** Each new key deletes up to two old ones, so no call has to delete them all. */
export async function deleteExpired(sql: Sql, nowMs: number): Promise<void> {
  const rows = await sql.all<{ scope: string; once_key: string }>(
    'SELECT scope, once_key FROM once WHERE at_ms < ? ORDER BY at_ms LIMIT 2',
    nowMs - IDEMPOTENCY_WINDOW_MS,
  );
  for (const { scope, once_key } of rows)
    await sql.run('DELETE FROM once WHERE scope = ? AND once_key = ?', scope, once_key);
}
