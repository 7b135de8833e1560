// The texts that changes of layers began from, as rows: which file had which, by layer. The texts
// themselves are files (layer-originals.ts).
import type { Database, Sql } from '../../platform/sql/database.ts';

export const LAYER_ORIGINAL_TABLES = `
CREATE TABLE layer_originals (
  root_task_id TEXT NOT NULL,
  began_ns TEXT NOT NULL,
  path TEXT NOT NULL,
  sha256 TEXT NOT NULL,
  mode BIGINT NOT NULL,
  size_bytes BIGINT NOT NULL,
  PRIMARY KEY (root_task_id, began_ns, path)
);`;

/** A file as it was when the layer began, or as an apply has left it since. */
export type OriginalFile = { path: string; sha256: string; mode: number; sizeBytes: number };
/** A layer is named by when it began: an undo can make an earlier one the current one again. */
export type LayerKey = { rootTaskId: string; beganNs: bigint };

type Stored = { path: string; sha256: string; mode: number; size_bytes: number };

export type LayerOriginalMethods = ReturnType<typeof makeLayerOriginalMethods>;

export function makeLayerOriginalMethods(db: Database) {
  return {
    listOriginals: ({ rootTaskId, beganNs }: LayerKey): Promise<Map<string, OriginalFile>> =>
      db.read(async (sql) => {
        const rows = await sql.all<Stored>(
          `SELECT path, sha256, mode, size_bytes FROM layer_originals
           WHERE root_task_id = ? AND began_ns = ?`,
          rootTaskId,
          String(beganNs),
        );
        return new Map(
          rows.map(({ path, sha256, mode, size_bytes }) => [
            path,
            { path, sha256, mode: Number(mode), sizeBytes: Number(size_bytes) },
          ]),
        );
      }),

    addOriginals: (
      { rootTaskId, beganNs }: LayerKey,
      files: readonly OriginalFile[],
    ): Promise<void> =>
      db.write(async (sql) => {
        for (const { path, sha256, mode, sizeBytes } of files)
          await sql.run(
            `INSERT INTO layer_originals (root_task_id, began_ns, path, sha256, mode, size_bytes)
             VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (root_task_id, began_ns, path) DO UPDATE SET
               sha256 = excluded.sha256, mode = excluded.mode, size_bytes = excluded.size_bytes`,
            rootTaskId,
            String(beganNs),
            path,
            sha256,
            mode,
            sizeBytes,
          );
      }),

    /** Forgets those of layers that no undo returns to. */
    keepOriginalsOf: (rootTaskId: string, beganNs: readonly bigint[]): Promise<void> =>
      db.write(async (sql) => {
        await sql.run(
          `DELETE FROM layer_originals WHERE root_task_id = ?
             AND began_ns NOT IN (${beganNs.map(() => '?').join(', ')})`,
          rootTaskId,
          ...beganNs.map(String),
        );
      }),

    /** The hashes of all texts that a tree still needs. */
    listOriginalHashes: (rootTaskId: string): Promise<Set<string>> =>
      db.read(async (sql) => {
        const rows = await sql.all<{ sha256: string }>(
          'SELECT DISTINCT sha256 FROM layer_originals WHERE root_task_id = ?',
          rootTaskId,
        );
        return new Set(rows.map(({ sha256 }) => sha256));
      }),
  };
}

/** With its tree. */
export const dropOriginals = (sql: Pick<Sql, 'run'>, rootTaskId: string): Promise<number> =>
  sql.run('DELETE FROM layer_originals WHERE root_task_id = ?', rootTaskId);
