// Lists the changes of procedural memories in their order, for the files that are made of them.
import type { Sql } from '../../../platform/sql/database.ts';
import type { Change, JournalEntry } from '../journal/entry.ts';

/** After the change was applied. Resolves to whether it is about a procedure. */
export async function listProcedureChange(
  sql: Sql,
  { entry, number }: { entry: JournalEntry; number: number },
  change: Change,
): Promise<boolean> {
  switch (change.do) {
    case 'add':
    case 'revise':
    case 'accept':
    case 'end':
      return addChange(sql, { entry, number }, change);
    case 'forget':
    case 'prune': {
      const listed = await sql.run('DELETE FROM procedure_changes WHERE memory_id = ?', change.id);
      // Its texts are in the history of the files.
      if (listed > 0) await sql.run('UPDATE procedures SET rewrite = rewrite + 1');
      return listed > 0;
    }
    default:
      return false;
  }
}

async function addChange(
  sql: Sql,
  { entry, number }: { entry: JournalEntry; number: number },
  change: Extract<Change, { do: 'add' | 'revise' | 'accept' | 'end' }>,
): Promise<boolean> {
  const status = change.do === 'end' ? change.status : 'active';
  const added = await sql.run(
    `INSERT INTO procedure_changes (number, memory_id, version, did, at_ms, author, run)
     SELECT ?, id, version, ?, ?, ?, ? FROM memories
     WHERE id = ? AND class = 'procedural' AND status = ?`,
    number,
    change.do === 'end' ? 'end' : entry.op,
    Date.parse(entry.at),
    entry.by,
    entry.run === undefined ? null : JSON.stringify(entry.run),
    change.id,
    status,
  );
  return added > 0;
}
