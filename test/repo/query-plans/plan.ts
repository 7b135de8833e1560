// Judges the plan of a statement on a filled database: it must not read more rows of a table than
// it needs, however long the history. A plan may search a few rows by an index, or follow an index
// in the order of the result and stop at its limit; it may not read all rows, sort them, or filter
// them one by one.
import type { DatabaseSync } from 'node:sqlite';

/** A search may find this many rows; the filled tables have many times more. */
export const FEW_ROWS = 16;

/** A step of a plan that reads too much. */
export type PlanProblem = { index: string; text: string };
export type Judge = (statement: string) => { plan: string[]; problems: PlanProblem[] };

type Step = {
  table: string;
  alias: string;
  /** The column that is the rowid. */
  rowid: string | undefined;
  index: string | undefined;
  isAutomatic: boolean;
  equal: string[];
  range: string[];
};
type Index = { columns: string[]; expression: string; condition: string };

const INDEX = /(AUTOMATIC )?(?:PARTIAL )?(?:COVERING )?(?:INDEX (\S+)|(?:INTEGER )?PRIMARY KEY)/;
const STEP = RegExp(
  `^(?:SCAN|SEARCH) (\\S+)(?: USING ${INDEX.source})?(?: \\((.*)\\))?(?: LEFT-JOIN)?$`,
);

/** The plan's name for an expression that an index has instead of a column. */
const EXPRESSION = '<expr>';

export function makeJudge(db: DatabaseSync, smallTables: ReadonlySet<string>): Judge {
  const tables = new Map(readTables(db));
  const counts = new Map<string, number>();

  /** Returns how many rows the step reads at most, if nothing stops it. */
  const countRows = (step: Step, statement: string): number => {
    if (step.equal.includes('rowid')) return 1;
    const index = readIndex(db, step);
    const conditions = [index?.condition ?? '1'];
    const groups: string[] = [];
    for (const name of step.equal) {
      const column = name === EXPRESSION ? index!.expression : name;
      const literal = findLiteral(statement, column);
      if (literal === undefined) {
        groups.push(column);
        conditions.push(`${column} IS NOT NULL`);
      } else conditions.push(literal);
    }
    const group = groups.length === 0 ? '' : `GROUP BY ${groups.join(', ')}`;
    const text = `SELECT MAX(n) AS n FROM (SELECT COUNT(*) AS n FROM ${step.table}
      WHERE ${conditions.join(' AND ')} ${group})`;
    let n = counts.get(text);
    if (n === undefined) {
      n = Number((db.prepare(text).get() as { n: number | null }).n ?? 0);
      counts.set(text, n);
    }
    return n;
  };

  const judgeStep = (step: Step, statement: string, plan: readonly string[]) => {
    if (smallTables.has(step.table)) return undefined;
    if (step.isAutomatic) return `builds an index of ${step.table} each time`;
    const rows = countRows(step, statement);
    if (rows <= FEW_ROWS) return undefined;
    const all = `of the rows of ${step.table}`;
    if (isExtreme(step, statement, readIndex(db, step))) return undefined;
    if (!/\bLIMIT (\?|\d+)\s*$/.test(statement)) return `reads ${rows} ${all}`;
    if (plan.some((line) => line.includes('TEMP B-TREE'))) return `sorts ${rows} ${all}`;
    const rest = listFilters(statement, step, readIndex(db, step)?.condition ?? '');
    return rest.length === 0 ? undefined : `filters ${rows} ${all} by ${rest.join(', ')}`;
  };

  return (statement) => {
    const rows = db.prepare(`EXPLAIN QUERY PLAN ${statement}`).all() as { detail: string }[];
    const plan = rows.map(({ detail }) => detail);
    const steps = plan.flatMap((line) => readStep(line, statement, tables) ?? []);
    const problems = steps.flatMap((step) => {
      const text = judgeStep(step, statement, plan);
      return text === undefined ? [] : [{ index: step.index ?? step.table, text }];
    });
    return { plan, problems };
  };
}

/** Pairs of a table and the column that is its rowid. */
export function readTables(db: DatabaseSync): [table: string, rowid: string | undefined][] {
  const rows = db
    .prepare("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
    .all() as { name: string }[];
  return rows.map(({ name }) => {
    const columns = db.prepare(`PRAGMA table_info(${name})`).all() as {
      name: string;
      type: string;
      pk: number;
    }[];
    const keys = columns.filter(({ pk }) => pk > 0);
    const isRowid = keys.length === 1 && keys[0]!.type === 'INTEGER';
    return [name, isRowid ? keys[0]!.name : undefined];
  });
}

function readStep(
  line: string,
  statement: string,
  tables: ReadonlyMap<string, string | undefined>,
): Step | undefined {
  const [, alias, automatic, index, conditions = ''] = STEP.exec(line) ?? [];
  if (alias === undefined) {
    // The only virtual table is json_each, which reads a value that the statement was given.
    if (/^(SCAN|SEARCH) /.test(line) && !/CONSTANT ROW|subquery|VIRTUAL TABLE/i.test(line))
      throw new Error(`a line of a plan that this test does not know: ${line}`);
    return undefined;
  }
  const table = tables.has(alias) ? alias : findTable(alias, statement, tables);
  if (table === undefined) return undefined;
  const terms = conditions.split(' AND ').filter((term) => term !== '');
  const named = (term: string) => {
    const [column] = /^(\w+|<expr>)/.exec(term)!;
    return column === tables.get(table) ? 'rowid' : column;
  };
  return {
    table,
    alias,
    rowid: tables.get(table),
    index,
    isAutomatic: automatic !== undefined,
    equal: terms.filter((term) => /^(\w+|<expr>)(=| IS )/.test(term)).map(named),
    // A key of several columns stands as a whole.
    range: terms.flatMap((term) =>
      /^\([\w,]+\)[<>]/.test(term) ? [term] : /^\w+[<>]/.test(term) ? [named(term)] : [],
    ),
  };
}

function findTable(
  alias: string,
  statement: string,
  tables: ReadonlyMap<string, unknown>,
): string | undefined {
  for (const [, table] of statement.matchAll(
    RegExp(`(\\w+) (?:AS )?${RegExp.escape(alias)}\\b`, 'g'),
  ))
    if (tables.has(table!)) return table;
  return undefined;
}

function readIndex(db: DatabaseSync, { table, index }: Step): Index | undefined {
  if (index === undefined) return undefined;
  const columns = db.prepare(`PRAGMA index_info(${index})`).all() as { name: string }[];
  const { sql } = db.prepare('SELECT sql FROM sqlite_master WHERE name = ?').get(index) as {
    sql: string | null;
  };
  const [, expression = ''] = /\bON \w+ \(([\s\S]+?)\)(?: WHERE|$)/.exec(sql ?? '') ?? [];
  const [, condition = '1'] = /\bWHERE\s+([\s\S]+)$/.exec(sql ?? '') ?? [];
  if (columns.length === 0) throw new Error(`${index} of ${table} has no columns`);
  return { columns: columns.map(({ name }) => name), expression, condition };
}

/** Returns the condition on this column if its values are in the text. */
function findLiteral(statement: string, column: string): string | undefined {
  if (RegExp(`\\b${RegExp.escape(column)} = \\?`).test(statement)) return undefined;
  const values = String.raw`(?:= '[^']*'|= \d+|IN \('[^)]*'\)|IS NULL)`;
  const literal = RegExp(`\\b${RegExp.escape(column)} ${values}`, 'g');
  const found = [...statement.matchAll(literal)].map(([condition]) => condition);
  return found.length === 0 ? undefined : `(${found.join(' OR ')})`;
}

/** One end of an index, such as a MAX(id), is a single row. */
function isExtreme(step: Step, statement: string, index: Index | undefined): boolean {
  const select = statement.replace(/^\s*INSERT INTO \w+ \([\w, ]+\)\s+/, '');
  const [, column] = /^\s*SELECT (?:COALESCE\()?(?:MIN|MAX)\((?:\w+\.)?(\w+)\)/.exec(select) ?? [];
  if (column === undefined || listFilters(statement, step, index?.condition ?? '').length > 0)
    return false;
  const next = index === undefined ? step.rowid : index.columns[step.equal.length];
  return column === next;
}

/** Returns the conditions on the table that its index does not decide. */
function listFilters(statement: string, step: Step, condition: string): string[] {
  const flat = statement.replace(/\(\s*SELECT[^()]*(\([^()]*\)[^()]*)*\)/g, '(?)');
  const [, where] =
    /\bWHERE\s+([\s\S]+?)(?:\s(?:ORDER|GROUP) BY[\s\S]*|\sLIMIT[\s\S]*)?$/.exec(flat) ?? [];
  const decided = new Set([...step.equal, ...step.range]);
  const implied = new Set(splitConditions(condition));
  return splitConditions(where ?? '').filter((term) => {
    const [, alias, column] = /^(?:(\w+)\.)?(\w+)/.exec(term) ?? [];
    if (alias !== undefined && alias !== step.alias) return false;
    if (decided.has(term.replaceAll(' ', ''))) return false;
    if (term === '1 = 1' || implied.has(term.replace(/^\w+\./, ''))) return false;
    const isPlain = /^(?:\w+\.)?\w+ (=|<|>|<=|>=|IN|IS|BETWEEN) /.test(term);
    return !isPlain || !decided.has(column === step.rowid ? 'rowid' : column!);
  });
}

/** Splits at each AND outside of parentheses and of BETWEEN … AND. */
function splitConditions(text: string): string[] {
  const terms: string[] = [];
  let depth = 0;
  let term = '';
  for (const word of text.split(/(\(|\)|\s+AND\s+)/)) {
    if (word === '(') depth++;
    if (word === ')') depth--;
    if (depth === 0 && /^\s+AND\s+$/.test(word) && !/ BETWEEN \S+$/.test(term)) {
      terms.push(term);
      term = '';
    } else term += word;
  }
  return [...terms, term].map((one) => one.trim().replace(/\s+/g, ' ')).filter((one) => one !== '');
}
