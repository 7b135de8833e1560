// The files of task trees, as rows: which trees still have a workspace or homes of their own, how
// large they were when last measured, and the sums of that by agent.
import type { Database, Sql } from '../../platform/sql/database.ts';
import type { TaskId } from '../../wire/primitives.ts';
import type { FileKind } from '../../wire/sandboxd/tree-files.ts';
import { dropLayer } from './layer-fork-rows.ts';
import { dropDisarmed } from './live-rows.ts';

export const TREE_FILE_TABLES = `
ALTER TABLE workspaces ADD COLUMN agent TEXT;
ALTER TABLE workspaces ADD COLUMN files_bytes BIGINT NOT NULL DEFAULT 0;
ALTER TABLE workspaces ADD COLUMN measured_ms BIGINT;
ALTER TABLE workspaces ADD COLUMN files_pruned_ms BIGINT;
ALTER TABLE workspaces ADD COLUMN homes_pruned_ms BIGINT;
CREATE INDEX workspaces_with_files ON workspaces (root_task_id)
  WHERE files_pruned_ms IS NULL AND path IS NULL;
CREATE INDEX workspaces_with_homes ON workspaces (root_task_id) WHERE homes_pruned_ms IS NULL;
CREATE INDEX workspaces_unmeasured ON workspaces (root_task_id) WHERE measured_ms IS NULL;
CREATE TABLE tree_homes (
  root_task_id TEXT NOT NULL,
  agent TEXT NOT NULL,
  bytes BIGINT NOT NULL,
  PRIMARY KEY (root_task_id, agent)
);
CREATE TABLE file_sizes (
  kind TEXT NOT NULL,
  agent TEXT NOT NULL,
  trees BIGINT NOT NULL,
  bytes BIGINT NOT NULL,
  PRIMARY KEY (kind, agent)
);`;

export type TreeFiles = { rootTaskId: TaskId; createdMs: number; bytes: number };
export type FileSize = { kind: FileKind; agent: string; trees: number; bytes: number };
export type MeasuredTree = {
  rootTaskId: string;
  /** The agent that the workspace counts for; undefined: an operator's directory. */
  workspace: { agent: string; bytes: number } | undefined;
  homes: { agent: string; bytes: number }[];
};

export type TreeFileMethods = ReturnType<typeof makeTreeFileMethods>;

type WorkspaceFiles = { agent: string | null; files_bytes: number };

export function makeTreeFileMethods(db: Database, nowMs: () => number) {
  return {
    /** Trees that have files of this kind, oldest first, after this one. */
    listTreeFiles: (kind: FileKind, after: string, limit: number): Promise<TreeFiles[]> =>
      db.read(async (sql) => {
        const rows = await sql.all<{ root_task_id: TaskId; created_ms: number; bytes: number }>(
          kind === 'workspaces' ? LIST_WORKSPACES : LIST_HOMES,
          after,
          limit,
        );
        return rows.map(({ root_task_id, created_ms, bytes }) => ({
          rootTaskId: root_task_id,
          createdMs: Number(created_ms),
          bytes: Number(bytes ?? 0),
        }));
      }),

    /** One tree whose files have changed since they were measured, and without open boxes. */
    findUnmeasured: (after: string): Promise<{ root: string; isOwn: boolean } | undefined> =>
      db.read(async (sql) => {
        const row = await sql.one<{ root_task_id: string; path: string | null }>(
          `SELECT root_task_id, path FROM workspaces WHERE measured_ms IS NULL AND root_task_id > ?
           ORDER BY root_task_id LIMIT 1`,
          after,
        );
        return row && { root: row.root_task_id, isOwn: row.path === null };
      }),

    recordMeasured: (tree: MeasuredTree): Promise<void> =>
      db.write(async (sql) => {
        const { rootTaskId, workspace, homes } = tree;
        await dropWorkspaceSize(sql, rootTaskId);
        await dropHomeSizes(sql, rootTaskId);
        const isThere = await sql.run(
          'UPDATE workspaces SET agent = ?, files_bytes = ?, measured_ms = ? WHERE root_task_id = ?',
          workspace?.agent ?? null,
          workspace?.bytes ?? 0,
          nowMs(),
          rootTaskId,
        );
        if (isThere === 0) return;
        if (workspace !== undefined) await addToSize(sql, 'workspaces', { ...workspace, trees: 1 });
        for (const { agent, bytes } of homes) {
          await sql.run(
            'INSERT INTO tree_homes (root_task_id, agent, bytes) VALUES (?, ?, ?)',
            rootTaskId,
            agent,
            bytes,
          );
          await addToSize(sql, 'homes', { agent, bytes, trees: 1 });
        }
      }),

    recordPruned: (rootTaskId: string, kind: FileKind): Promise<void> =>
      db.write(async (sql) => {
        if (kind === 'workspaces') {
          await dropWorkspaceSize(sql, rootTaskId);
          await sql.run(
            `UPDATE workspaces SET files_pruned_ms = ?, files_bytes = 0, agent = NULL
             WHERE root_task_id = ?`,
            nowMs(),
            rootTaskId,
          );
          await dropLayer(sql, rootTaskId);
        } else {
          await dropHomeSizes(sql, rootTaskId);
          await dropDisarmed(sql, rootTaskId);
          await sql.run(
            'UPDATE workspaces SET homes_pruned_ms = ? WHERE root_task_id = ?',
            nowMs(),
            rootTaskId,
          );
        }
      }),

    fileSizes: (): Promise<FileSize[]> =>
      db.read(async (sql) => {
        const rows = await sql.all<FileSize>(
          'SELECT kind, agent, trees, bytes FROM file_sizes WHERE trees > 0',
        );
        return rows.map((row) => ({
          ...row,
          trees: Number(row.trees),
          bytes: Number(row.bytes),
        }));
      }),
  };
}

const LIST_WORKSPACES = `SELECT root_task_id, created_ms, files_bytes AS bytes FROM workspaces
  WHERE files_pruned_ms IS NULL AND path IS NULL AND root_task_id > ?
  ORDER BY root_task_id LIMIT ?`;
const LIST_HOMES = `SELECT root_task_id, created_ms,
    (SELECT SUM(h.bytes) FROM tree_homes h WHERE h.root_task_id = w.root_task_id) AS bytes
  FROM workspaces w WHERE homes_pruned_ms IS NULL AND root_task_id > ?
  ORDER BY root_task_id LIMIT ?`;

/** Its boxes may have written: it is measured again. */
export async function markUnmeasured(sql: Sql, rootTaskId: string): Promise<void> {
  await sql.run('UPDATE workspaces SET measured_ms = NULL WHERE root_task_id = ?', rootTaskId);
}

async function dropWorkspaceSize(sql: Sql, rootTaskId: string): Promise<void> {
  const row = await sql.one<WorkspaceFiles>(
    'SELECT agent, files_bytes FROM workspaces WHERE root_task_id = ?',
    rootTaskId,
  );
  if (row === undefined || row.agent === null) return;
  const { agent, files_bytes } = row;
  await addToSize(sql, 'workspaces', { agent, bytes: -Number(files_bytes), trees: -1 });
}

async function dropHomeSizes(sql: Sql, rootTaskId: string): Promise<void> {
  const rows = await sql.all<{ agent: string; bytes: number }>(
    'SELECT agent, bytes FROM tree_homes WHERE root_task_id = ?',
    rootTaskId,
  );
  for (const { agent, bytes } of rows)
    await addToSize(sql, 'homes', { agent, bytes: -Number(bytes), trees: -1 });
  await sql.run('DELETE FROM tree_homes WHERE root_task_id = ?', rootTaskId);
}

/** With its row: the sizes that it still counts for. */
export async function dropSizes(sql: Sql, rootTaskId: string): Promise<void> {
  await dropWorkspaceSize(sql, rootTaskId);
  await dropHomeSizes(sql, rootTaskId);
}

async function addToSize(
  sql: Sql,
  kind: FileKind,
  { agent, trees, bytes }: { agent: string; trees: number; bytes: number },
): Promise<void> {
  await sql.run(
    `INSERT INTO file_sizes (kind, agent, trees, bytes) VALUES (?, ?, ?, ?)
     ON CONFLICT (kind, agent) DO UPDATE SET trees = file_sizes.trees + excluded.trees,
       bytes = file_sizes.bytes + excluded.bytes`,
    kind,
    agent,
    trees,
    bytes,
  );
}
