// Which layers are copies, and of which of their directories a copy was made, as rows.
import type { Database, Sql } from '../../platform/sql/database.ts';

/** In bytes, by the number of the directory. */
export type CopySizes = Readonly<Record<string, number>>;
export type LayerCopyMethods = ReturnType<typeof makeLayerCopyMethods>;

export function makeLayerCopyMethods(db: Database) {
  return {
    /** From now on the layer is a copy: no overlay can be mounted for it. */
    useCopies: (rootTaskId: string): Promise<void> =>
      db.write((sql) => setCopies(sql, rootTaskId, {})),

    /** The directory of this number has the whole copy. */
    addCopy: (
      rootTaskId: string,
      { number, path, bytes }: { number: number; path: string; bytes: number },
    ): Promise<void> =>
      db.write(async (sql) => {
        const copies = await findCopies(sql, rootTaskId);
        await setCopies(sql, rootTaskId, { ...copies, [number]: bytes });
        // It was there before an agent wrote, so it is not counted as theirs.
        await sql.run(
          `INSERT INTO disk_before (root_task_id, path, bytes) VALUES (?, ?, ?)
           ON CONFLICT (root_task_id, path) DO UPDATE SET bytes = excluded.bytes`,
          rootTaskId,
          path,
          bytes,
        );
      }),
  };
}

/** Forgets copies of later directories, whose numbers are used again. */
export async function cutCopies(sql: Sql, rootTaskId: string, last: number): Promise<void> {
  const copies = await findCopies(sql, rootTaskId);
  if (copies === null) return;
  const kept = Object.entries(copies).filter(([number]) => Number(number) <= last);
  await setCopies(sql, rootTaskId, Object.fromEntries(kept));
}

async function findCopies(sql: Pick<Sql, 'one'>, rootTaskId: string): Promise<CopySizes | null> {
  const row = await sql.one<{ copies: string | null }>(
    'SELECT copies FROM layers WHERE root_task_id = ?',
    rootTaskId,
  );
  return row?.copies == null ? null : (JSON.parse(row.copies) as CopySizes);
}

const setCopies = (sql: Sql, rootTaskId: string, copies: CopySizes) =>
  sql
    .run('UPDATE layers SET copies = ? WHERE root_task_id = ?', JSON.stringify(copies), rootTaskId)
    .then(() => undefined);
