// Copies the rows of ended tasks in a daemon's database.
import { DatabaseSync, type SQLInputValue } from 'node:sqlite';
import type { LastEvent } from './events.ts';
import { type Copy, type CopyTemplate, findIds, makeValueTemplate } from './template.ts';

/**
 * The tables that grow with each task. Not copied: workspaces, which have a group and a directory
 * each, and texts that tasks share.
 */
export const TABLES: Readonly<Record<string, readonly string[]>> = {
  agentd: ['tasks', 'runs', 'inbox_steps', 'once', 'run_briefing_parts'],
  toold: ['runs', 'calls'],
  modeld: ['runs', 'model_calls', 'budget_limits', 'budget_spent'],
  sandboxd: ['boxes'],
};

type TableCopier = { ids: string[]; insert(copy: Copy): void };

export type RowCopier = {
  /** The ids in the rows. */
  ids: string[];
  add(copy: Copy): void;
  /** Commits, and brings the sums and the outbox in line with the rows. */
  finish(copies: number, last: LastEvent): void;
};

const BATCH_COPIES = 50;

export type TableRow = Record<string, SQLInputValue>;
/** Which rows are copied: by default all with ids, as they are. */
export type RowChoice = {
  tables: readonly string[];
  isWanted?: (ids: readonly string[]) => boolean;
  edit?: (row: TableRow) => TableRow;
};

export function openRows(
  file: string,
  daemon: string,
  choice: RowChoice = { tables: TABLES[daemon]! },
): RowCopier {
  const db = new DatabaseSync(file);
  // A crash of this process only costs the filled state.
  db.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF; PRAGMA cache_size = -200000');
  const tables = choice.tables.map((table) => openTable(db, table, choice));
  let pending = 0;
  const commit = () => {
    if (pending > 0) db.exec('COMMIT');
    pending = 0;
  };
  return {
    ids: tables.flatMap(({ ids }) => ids),
    add(copy) {
      if (pending === 0) db.exec('BEGIN');
      for (const table of tables) table.insert(copy);
      if (++pending === BATCH_COPIES) commit();
    },
    finish(copies, last) {
      commit();
      if (daemon === 'agentd')
        db.prepare("UPDATE task_counts SET n = n * (1 + ?) WHERE status = 'completed'").run(copies);
      if (daemon === 'modeld' && hasTable(db, 'usage_totals')) db.exec(writeUsageSums(db));
      // The outbox keeps the newest event, from which it goes on counting.
      db.exec('DELETE FROM outbox');
      db.prepare('INSERT INTO outbox (seq, event) VALUES (?, ?)').run(last.seq, last.text);
      db.exec('PRAGMA wal_checkpoint(TRUNCATE)');
      db.close();
    },
  };
}

const hasTable = (db: DatabaseSync, name: string): boolean =>
  db.prepare('SELECT 1 FROM sqlite_master WHERE name = ?').get(name) !== undefined;

function openTable(
  db: DatabaseSync,
  table: string,
  { isWanted = (ids) => ids.length > 0, edit = (row) => row }: RowChoice,
): TableCopier {
  const columns = db.prepare(`PRAGMA table_info(${table})`).all() as {
    name: string;
    type: string;
    pk: number;
  }[];
  // A number that the database gives by itself.
  const isRowid = ({ pk, type }: (typeof columns)[number]) => pk > 0 && type === 'INTEGER';
  const keys = columns.filter(({ pk }) => pk > 0);
  const own = columns.filter((column) => !(keys.length === 1 && isRowid(column)));
  const names = own.map(({ name }) => name);
  const all = db.prepare(`SELECT ${names.join(', ')} FROM ${table}`).all() as TableRow[];
  const rows = all.map(edit).filter((row) => isWanted(findIds(JSON.stringify(row))));
  if (rows.length === 0) throw new Error(`there is nothing to copy in ${table}`);
  const templates = rows.map((row): CopyTemplate<SQLInputValue>[] =>
    names.map((name) => makeValueTemplate(row[name]!)),
  );
  const marks = names.map(() => '?').join(', ');
  const insert = db.prepare(`INSERT INTO ${table} (${names.join(', ')}) VALUES (${marks})`);
  return {
    ids: findIds(JSON.stringify(rows)),
    insert(copy) {
      for (const row of templates) insert.run(...row.map((make) => make(copy)));
    },
  };
}

/** Who called is in the sums since an upgrade. */
function writeUsageSums(db: DatabaseSync): string {
  const columns = db.prepare('PRAGMA table_info(usage_totals)').all();
  const hasPrincipal = columns.some(({ name }) => name === 'principal');
  const caller = `${hasPrincipal ? 'principal, ' : ''}agent, upstream_model, provider`;
  return `
DELETE FROM usage_hours;
INSERT INTO usage_hours
  SELECT created_ms / 3600000 AS hour, ${caller}, COUNT(*),
    COALESCE(SUM(input_tokens), 0), SUM(output_tokens), SUM(cache_read_tokens),
    SUM(cache_write_tokens), SUM(reasoning_tokens), SUM(cost)
  FROM model_calls WHERE status <> 'running' GROUP BY hour, ${caller};
DELETE FROM usage_totals;
INSERT INTO usage_totals
  SELECT ${caller}, SUM(calls), SUM(input_tokens), SUM(output_tokens),
    SUM(cache_read_tokens), SUM(cache_write_tokens), SUM(reasoning_tokens), SUM(cost)
  FROM usage_hours GROUP BY ${caller};`;
}
