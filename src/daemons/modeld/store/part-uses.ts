// Counts how often stored parts are used, so that a part can go with the last call that used it.
// Counting is deferred: calls are counted in the order of the journal when something is pruned, and
// no call pays for it. A run's call repeats the context of the one before it; only what that one
// did not have counts, so that a run of n steps counts n parts, not n².
import type { SqlNow } from '../../../platform/sql/sqlite.ts';
import { LAST_COUNTED, type ModelCallRow, readHashes } from './calls.ts';
import { BY_HASH, byHash } from './parts.ts';

type UsingCall = Pick<ModelCallRow, 'seq' | 'run_id' | 'agent' | 'context' | 'params' | 'response'>;

const COLUMNS = 'seq, run_id, agent, context, params, response';

/** Counts up to `limit` more calls. Returns false when none is left that can be counted. */
export function countCalls(sql: SqlNow, limit: number): boolean {
  const counted = readCounted(sql);
  const running = sql.one<{ seq: number | null }>(
    "SELECT MIN(seq) AS seq FROM model_calls WHERE status = 'running'",
  );
  // The response of a running call is not known yet.
  const end = running?.seq ?? Number.MAX_SAFE_INTEGER;
  const calls = sql.all<UsingCall>(
    `SELECT ${COLUMNS} FROM model_calls WHERE seq > ? AND seq < ? ORDER BY seq LIMIT ?`,
    counted,
    end,
    limit,
  );
  for (const call of calls)
    for (const hash of listUses(call, findPrevious(sql, call))) addUse(sql, hash, call.agent);
  if (calls.length > 0) sql.run('UPDATE parts_counted SET seq = ?', calls.at(-1)!.seq);
  return calls.length === limit;
}

export const readCounted = (sql: SqlNow): number => sql.one<{ seq: number }>(LAST_COUNTED)!.seq;

/** Reading more at once would keep calls in progress waiting. */
const UNCOUNTED_MAX = 10_000;

/** The hashes that calls use which are not counted yet; undefined if there are too many of them. */
export function listUncounted(sql: SqlNow): Set<string> | undefined {
  const calls = sql.all<UsingCall>(
    `SELECT ${COLUMNS} FROM model_calls WHERE seq > ? ORDER BY seq LIMIT ?`,
    readCounted(sql),
    UNCOUNTED_MAX + 1,
  );
  if (calls.length > UNCOUNTED_MAX) return undefined;
  return new Set(calls.flatMap((call) => listUses(call, undefined)));
}

function findPrevious(sql: SqlNow, { run_id, seq }: UsingCall): UsingCall | undefined {
  if (run_id === null) return undefined;
  return sql.one<UsingCall>(
    `SELECT ${COLUMNS} FROM model_calls WHERE run_id = ? AND seq < ? ORDER BY seq DESC LIMIT 1`,
    run_id,
    seq,
  );
}

/** The same when a call is counted and when it is pruned, because the rows stay as they are. */
function listUses(call: UsingCall, previous: UsingCall | undefined): string[] {
  const known = new Set(previous === undefined ? [] : readHashes(previous.context));
  const context = new Set(readHashes(call.context));
  return [
    ...[...context].filter((hash) => !known.has(hash)),
    ...(call.params === '' || call.params === previous?.params ? [] : [call.params]),
    ...(call.response === null ? [] : [call.response]),
  ];
}

/** A part's size counts for the agent that used it first. */
function addUse(sql: SqlNow, hash: string, agent: string): void {
  const part = sql.one<{ id: number; bytes: number | null; n: number | null }>(
    `SELECT p.id, octet_length(p.body) AS bytes, u.n FROM parts p
     LEFT JOIN part_uses u ON u.part_id = p.id WHERE ${BY_HASH}`,
    ...byHash(hash),
  );
  if (part === undefined) return;
  if (part.n !== null) {
    sql.run('UPDATE part_uses SET n = n + 1 WHERE part_id = ?', part.id);
    return;
  }
  const bytes = part.bytes ?? 0;
  sql.run(
    'INSERT INTO part_uses (part_id, n, agent, bytes) VALUES (?, 1, ?, ?)',
    part.id,
    agent,
    bytes,
  );
  addToSize(sql, agent, 1, bytes);
}

function addToSize(sql: SqlNow, agent: string, parts: number, bytes: number): void {
  sql.run(
    `INSERT INTO context_sizes (agent, parts, bytes) VALUES (?, ?, ?) ON CONFLICT (agent)
     DO UPDATE SET parts = parts + excluded.parts, bytes = bytes + excluded.bytes`,
    agent,
    parts,
    bytes,
  );
}

/** Returns the bytes of the body, if this was the part's last use and it was deleted. */
function dropUse(sql: SqlNow, hash: string, isUsed: boolean): number {
  const part = sql.one<{ id: number; n: number; agent: string; bytes: number; forgotten: number }>(
    `SELECT p.id, u.n, u.agent, u.bytes, p.body IS NULL AS forgotten FROM parts p
     JOIN part_uses u ON u.part_id = p.id WHERE ${BY_HASH}`,
    ...byHash(hash),
  );
  if (part === undefined) return 0;
  // A forgotten part stays, so that it stays forgotten.
  if (part.n > 1 || isUsed || part.forgotten === 1) {
    sql.run('UPDATE part_uses SET n = n - 1 WHERE part_id = ?', part.id);
    return 0;
  }
  sql.run('DELETE FROM parts WHERE id = ?', part.id);
  sql.run('DELETE FROM part_uses WHERE part_id = ?', part.id);
  addToSize(sql, part.agent, -1, -part.bytes);
  return part.bytes;
}

/**
 * Releases the parts of a run's calls, in order and all counted, and deletes those that no other
 * call uses. Returns the bytes of the deleted bodies.
 */
export function releaseParts(
  sql: SqlNow,
  calls: readonly UsingCall[],
  uncounted: ReadonlySet<string>,
): number {
  let bytes = 0;
  let previous: UsingCall | undefined;
  for (const call of calls) {
    for (const hash of listUses(call, previous)) bytes += dropUse(sql, hash, uncounted.has(hash));
    previous = call;
  }
  return bytes;
}

export const readRunCalls = (sql: SqlNow, runId: string): UsingCall[] =>
  sql.all<UsingCall>(`SELECT ${COLUMNS} FROM model_calls WHERE run_id = ? ORDER BY seq`, runId);

export const readCallParts = (sql: SqlNow, seq: number): UsingCall[] =>
  sql.all<UsingCall>(`SELECT ${COLUMNS} FROM model_calls WHERE seq = ?`, seq);

export type ContextSize = { agent: string; parts: number; bytes: number };
export const readContextSizes = (sql: SqlNow): ContextSize[] =>
  sql.all<ContextSize>('SELECT agent, parts, bytes FROM context_sizes WHERE parts > 0');
