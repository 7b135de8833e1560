// The store's methods for pruning artifacts and the blobs that no artifact refers to.
import type { Database } from '../../../platform/sql/database.ts';
import {
  inspectArtifact,
  isObjectUsed,
  type PruneArtifactInput,
  type PruneArtifactResult,
  pruneArtifact,
} from './prune-artifact.ts';
import type { AgentdWriteTx } from './tx.ts';

export type StoredArtifact = {
  id: string;
  createdMs: number;
  sizeBytes: number;
  createdBy: string;
  labels: string[];
};

export type ArtifactPruneMethods = {
  /** Stored before this time, oldest first, after this id. */
  listOldArtifacts(query: {
    storedBeforeMs: number;
    after: string;
    limit: number;
  }): Promise<StoredArtifact[]>;
  listArtifactsOfTree(rootTaskId: string): Promise<StoredArtifact[]>;
  /** Resolves to undefined if it is gone already. */
  pruneArtifact(input: PruneArtifactInput): Promise<PruneArtifactResult | undefined>;
  /** Resolves to the result that pruneArtifact would have. */
  inspectArtifact(id: string): Promise<PruneArtifactResult | undefined>;
  listUnusedObjects(limit: number): Promise<string[]>;
  isObjectUnused(hash: string): Promise<boolean>;
  forgetObject(hash: string): Promise<void>;
  artifactSizes(): Promise<{ createdBy: string; count: number; bytes: number }[]>;
};

const COLUMNS = 'a.id, a.created_ms, a.size_bytes, a.created_by, a.labels';
type Row = {
  id: string;
  created_ms: number;
  size_bytes: number;
  created_by: string;
  labels: string;
};
const toStored = (row: Row): StoredArtifact => ({
  id: row.id,
  createdMs: Number(row.created_ms),
  sizeBytes: Number(row.size_bytes),
  createdBy: row.created_by,
  labels: JSON.parse(row.labels) as string[],
});
const NOT_A_START = { mayStart: false };

export function makeArtifactPruneMethods(db: Database, write: AgentdWriteTx): ArtifactPruneMethods {
  return {
    listOldArtifacts: ({ storedBeforeMs, after, limit }) =>
      db.read(async (sql) => {
        // Ids grow with time, so the first one that is too young ends the list.
        const rows = await sql.all<Row>(
          `SELECT ${COLUMNS} FROM artifacts a WHERE a.id > ? ORDER BY a.id LIMIT ?`,
          after,
          limit,
        );
        const young = rows.findIndex((row) => Number(row.created_ms) >= storedBeforeMs);
        return (young < 0 ? rows : rows.slice(0, young)).map(toStored);
      }),
    listArtifactsOfTree: (rootTaskId) =>
      db.read(async (sql) => {
        const rows = await sql.all<Row>(
          `SELECT ${COLUMNS} FROM tasks t JOIN artifacts a ON a.task_id = t.id
           WHERE t.root_task_id = ? ORDER BY a.id`,
          rootTaskId,
        );
        return rows.map(toStored);
      }),
    pruneArtifact: (input) => write((tx) => pruneArtifact(tx, input), NOT_A_START),
    inspectArtifact: (id) =>
      db.read(async (sql) => {
        const found = await inspectArtifact({ sql }, id);
        if (found === undefined || 'kept' in found) return found;
        return { bytes: Number(found.row.size_bytes), hash: found.row.object_hash };
      }),
    listUnusedObjects: (limit) =>
      db.read(async (sql) => {
        const rows = await sql.all<{ hash: string }>(
          'SELECT hash FROM unused_objects ORDER BY hash LIMIT ?',
          limit,
        );
        return rows.map(({ hash }) => hash);
      }),
    isObjectUnused: (hash) => db.read(async (sql) => !(await isObjectUsed({ sql }, hash))),
    forgetObject: (hash) =>
      write(async (tx) => {
        await tx.sql.run('DELETE FROM unused_objects WHERE hash = ?', hash);
      }, NOT_A_START),
    artifactSizes: () =>
      db.read(async (sql) => {
        const rows = await sql.all<{ created_by: string; n: number; bytes: number }>(
          'SELECT created_by, n, bytes FROM artifact_sizes WHERE n > 0',
        );
        return rows.map(({ created_by, n, bytes }) => ({
          createdBy: created_by,
          count: Number(n),
          bytes: Number(bytes),
        }));
      }),
  };
}
