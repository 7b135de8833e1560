// The groups of task trees: statements for their assignment, release and reuse. A tree's group can
// be on files outside its own directories, so a row lists where else its boxes could write, and
// stays until workspaces.ts has found none of them there.
import type { Sql } from '../../platform/sql/database.ts';
import { type Fault, fault } from '../../wire/errors.ts';
import { dropLayer } from './layer-fork-rows.ts';
import { dropSizes } from './tree-file-rows.ts';

export type Range = { first: number; last: number };
export type WorkspaceRow = { root_task_id: string; gid: number; path: string | null };
export type WorkspaceUse = WorkspaceRow & {
  /** Directories outside the tree's own that its boxes could write. */
  writes: string[];
  /** False: from before these were recorded, so that others are possible. */
  isComplete: boolean;
  hasOpenBoxes: boolean;
};
export type RangeUse = Range & { used: number };

/** A free group is not reused at once, in case files of its tree are restored. */
const REST_MS = 86_400_000;
const OUT_OF_RANGE_MAX = 100;

export function rangeSpentFault({ first, last }: Range, what: string): Fault {
  return fault('limit', `no ${what} is left between ${first} and ${last}`, {
    hint: 'Widen the range in the section sandboxd of agentd.yaml.',
  });
}

/** The first call for a task tree fixes its path; throws `conflict` for another one later. */
export async function findOrAddWorkspace(
  sql: Sql,
  tree: { rootTaskId: string; path: string | undefined },
  range: Range,
  nowMs: number,
): Promise<WorkspaceRow> {
  const { rootTaskId, path } = tree;
  const found = await sql.one<WorkspaceRow>(
    'SELECT root_task_id, gid, path FROM workspaces WHERE root_task_id = ?',
    rootTaskId,
  );
  if (found !== undefined) {
    if (path !== undefined && found.path !== path)
      throw fault('conflict', `the workspace of ${rootTaskId} is ${found.path ?? 'its own'}`);
    return { ...found, gid: Number(found.gid) };
  }
  const gid = await assignGid(sql, range, nowMs);
  await sql.run(
    `INSERT INTO workspaces (root_task_id, gid, path, created_ms, is_complete)
     VALUES (?, ?, ?, ?, 1)`,
    rootTaskId,
    gid,
    path ?? null,
    nowMs,
  );
  return { root_task_id: rootTaskId, gid, path: path ?? null };
}

/** Prefers a group that has rested, then one that was never used, then any free one. */
async function assignGid(sql: Sql, range: Range, nowMs: number): Promise<number> {
  const oldest = await findOldestFree(sql, range);
  const next = (await readHighest(sql, range)) + 1;
  const isReused = oldest !== undefined && (next > range.last || oldest.freedMs <= nowMs - REST_MS);
  if (isReused) {
    await sql.run('DELETE FROM free_gids WHERE gid = ?', oldest.gid);
    return oldest.gid;
  }
  if (next > range.last) throw rangeSpentFault(range, 'group for another workspace');
  return next;
}

/** Forgets, a few at a time, free groups that a changed configuration has put out of the range. */
async function findOldestFree(
  sql: Sql,
  { first, last }: Range,
): Promise<{ gid: number; freedMs: number } | undefined> {
  for (let i = 0; i < OUT_OF_RANGE_MAX; i++) {
    const row = await sql.one<{ gid: number; freed_ms: number }>(
      'SELECT gid, freed_ms FROM free_gids ORDER BY freed_ms, gid LIMIT 1',
    );
    if (row === undefined) return undefined;
    const gid = Number(row.gid);
    if (gid >= first && gid <= last) return { gid, freedMs: Number(row.freed_ms) };
    await sql.run('DELETE FROM free_gids WHERE gid = ?', gid);
  }
  return undefined;
}

/** Returns the highest group of the range that was ever assigned. */
async function readHighest(sql: Sql, { first, last }: Range): Promise<number> {
  let highest = first - 1;
  for (const table of ['workspaces', 'free_gids']) {
    const row = await sql.one<{ gid: number | null }>(
      `SELECT MAX(gid) AS gid FROM ${table} WHERE gid BETWEEN ? AND ?`,
      first,
      last,
    );
    highest = Math.max(highest, Number(row?.gid ?? 0));
  }
  return highest;
}

/** Counts groups in use, and those skipped by an earlier change of the range. */
export async function readGidUse(sql: Sql, range: Range): Promise<RangeUse> {
  const free = await sql.one<{ n: number }>(
    'SELECT COUNT(*) AS n FROM free_gids WHERE gid BETWEEN ? AND ?',
    range.first,
    range.last,
  );
  const assigned = (await readHighest(sql, range)) - range.first + 1;
  return { ...range, used: assigned - Number(free?.n ?? 0) };
}

/** Called before a box that can write there is opened. */
export async function addWrites(
  sql: Sql,
  rootTaskId: string,
  paths: readonly string[],
): Promise<void> {
  for (const path of paths)
    await sql.run(
      'INSERT INTO workspace_writes (root_task_id, path) VALUES (?, ?) ON CONFLICT DO NOTHING',
      rootTaskId,
      path,
    );
}

export async function listWrites(sql: Sql, rootTaskId: string): Promise<string[]> {
  const rows = await sql.all<{ path: string }>(
    'SELECT path FROM workspace_writes WHERE root_task_id = ? ORDER BY path',
    rootTaskId,
  );
  return rows.map(({ path }) => path);
}

export async function findUse(sql: Sql, rootTaskId: string): Promise<WorkspaceUse | undefined> {
  const row = await sql.one<WorkspaceRow & { is_complete: number }>(
    'SELECT root_task_id, gid, path, is_complete FROM workspaces WHERE root_task_id = ?',
    rootTaskId,
  );
  if (row === undefined) return undefined;
  const { is_complete, ...own } = row;
  return {
    ...own,
    gid: Number(row.gid),
    writes: await listWrites(sql, rootTaskId),
    isComplete: Number(is_complete) === 1,
    hasOpenBoxes: await hasOpenBoxes(sql, rootTaskId),
  };
}

/** Reads open boxes only, of which there are few. */
async function hasOpenBoxes(sql: Sql, rootTaskId: string): Promise<boolean> {
  const open = await sql.one(
    'SELECT id FROM boxes WHERE closed_ms IS NULL AND root_task_id = ? LIMIT 1',
    rootTaskId,
  );
  return open !== undefined;
}

/** Forgets the tree and frees its group, unless one of its boxes is open. */
export async function freeWorkspace(
  sql: Sql,
  { root_task_id: rootTaskId, gid }: WorkspaceRow,
  nowMs: number,
): Promise<boolean> {
  if (await hasOpenBoxes(sql, rootTaskId)) return false;
  const own = 'DELETE FROM workspaces WHERE root_task_id = ? AND gid = ?';
  await dropSizes(sql, rootTaskId);
  if ((await sql.run(own, rootTaskId, gid)) === 0) return true;
  for (const table of ['workspace_writes', 'disk_before'])
    await sql.run(`DELETE FROM ${table} WHERE root_task_id = ?`, rootTaskId);
  await dropLayer(sql, rootTaskId);
  await sql.run('INSERT INTO free_gids (gid, freed_ms) VALUES (?, ?)', gid, nowMs);
  return true;
}

/** Remembers that a release was refused, so that it is tried again. */
export async function delayRelease(sql: Sql, rootTaskId: string, nowMs: number): Promise<void> {
  await sql.run(
    'UPDATE workspaces SET release_tried_ms = ? WHERE root_task_id = ?',
    nowMs,
    rootTaskId,
  );
}

/** Returns the refused release that was tried longest ago, if that was before this time. */
export async function nextDelayed(sql: Sql, beforeMs: number): Promise<string | undefined> {
  const row = await sql.one<{ root_task_id: string }>(
    `SELECT root_task_id FROM workspaces
     WHERE release_tried_ms IS NOT NULL AND release_tried_ms < ?
     ORDER BY release_tried_ms LIMIT 1`,
    beforeMs,
  );
  return row?.root_task_id;
}
