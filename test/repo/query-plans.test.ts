// No statement of a store gets slower with history: each one is run on a filled store, and its plan
// may read only the rows it needs. A statement in the source that no store ran here fails too.
import assert from 'node:assert/strict';
import { mkdtempSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { after, before, describe, test } from 'node:test';
import { ROOT } from '../support/runtime.ts';
import { type Judge, makeJudge, type PlanProblem, readTables } from './query-plans/plan.ts';
import { HISTORY, recordStatements } from './query-plans/record.ts';
import { findStatements } from './query-plans/source.ts';
import { STORES } from './query-plans/stores.ts';

/** Statements that may read more, by the start of their text and the index they follow. */
const ALLOWED: { start: string; index: string; why: string }[] = [
  ...['agent', 'principal'].map((by) => ({
    start: `SELECT ${by} AS name, upstream_model, provider, SUM(calls)`,
    index: 'model_calls_by_time',
    why: 'sums the calls of less than an hour, up to the first whole one',
  })),
  ...['SELECT task AS name, upstream_model', 'SELECT created_ms FROM model_calls'].map((start) => ({
    start,
    index: 'model_calls_by_time',
    why: 'reads the newest 10,000 calls at most',
  })),
  {
    start: 'SELECT p.*, a.rules, a.chain FROM permits p',
    index: 'permits_by_agent',
    why: 'reads the permits of one agent that have not expired',
  },
  {
    start: 'SELECT * FROM permits WHERE 1 = 1 AND',
    index: 'sqlite_autoindex_permits_1',
    why: 'a person grants each permit, so there are not many; only people list them',
  },
  ...['SELECT SUM(LENGTH(answer)) AS n FROM once', 'DELETE FROM once WHERE scope IN'].map(
    (start) => ({
      start,
      index: 'sqlite_autoindex_once_1',
      why: 'reads the calls of one pruned tree; only people share a scope',
    }),
  ),
  {
    start: 'SELECT COUNT(*) AS n FROM free_gids',
    index: 'sqlite_autoindex_free_gids_1',
    why: 'groups are free for about a day; counted only for people who ask for the status',
  },
  {
    start: 'UPDATE memories SET forgotten = NULL WHERE forgotten >= ?',
    index: 'memories_forgotten',
    why: 'reads what was forgotten since an older copy of the journal, once it was put back',
  },
  {
    start: 'SELECT * FROM boxes WHERE place < ? AND closed_ms IS NOT NULL',
    index: 'boxes',
    why: 'passes over open boxes only',
  },
];

/** Indexes that no history asks for, and what they are for. */
const FOR_OPEN_WORK: Record<string, string> = {
  runs_queued: 'many runs may be queued at once',
  runs_delayed: 'many runs may be queued at once',
  runs_queued_since: 'many runs may be queued at once',
  approvals_pending: 'many approvals may be pending at once',
  approvals_by_expiry: 'many approvals may be pending at once',
  waits_by_child: 'many waits may be open at once',
  waits_for_messages: 'many waits may be open at once',
};

const dir = realpathSync(mkdtempSync(join(tmpdir(), 'query-plans-')));
after(() => rmSync(dir, { recursive: true, force: true }));
const inSource = findStatements(ROOT);
const flat = (statement: string) => statement.replace(/\s+/g, ' ').trim();
const findPlace = (statement: string): string | undefined => {
  const found = inSource
    .filter(({ matchesWhole }) => matchesWhole(statement))
    .sort((a, b) => b.knownChars - a.knownChars)[0];
  return found && `${found.path}:${found.line}`;
};
const allowed = new Set<unknown>();
const isAllowed = (statement: string, { index }: PlanProblem): boolean =>
  ALLOWED.some((one) => {
    const isMeant = flat(statement).startsWith(one.start) && one.index === index;
    if (isMeant) allowed.add(one);
    return isMeant;
  });
const isQuery = (statement: string): boolean =>
  !/^(PRAGMA|BEGIN|COMMIT|ROLLBACK|SAVEPOINT|RELEASE)\b/.test(statement);

const judgeAll = (judge: Judge, statements: Iterable<string>): string[] =>
  [...statements].flatMap((statement) => {
    const { plan, problems } = judge(statement);
    const wrong = problems.filter((problem) => !isAllowed(statement, problem));
    if (wrong.length === 0) return [];
    const texts = wrong.map(({ text }) => text).join('; ');
    const lines = [flat(statement), ...plan.map((line) => `  ${line}`)];
    return [[`${findPlace(statement)}: ${texts}`, ...lines].join('\n    ')];
  });

const used = new Map<string, Set<string>>();

for (const { daemon, smallTables, use } of STORES)
  describe(`the statements of ${daemon}`, () => {
    const file = join(dir, `${daemon}.sqlite`);
    let db: DatabaseSync;
    let judge: Judge;
    let statements: string[];
    before(async () => {
      const prepared = await recordStatements(file, use);
      statements = [...prepared].filter(isQuery);
      used.set(daemon, new Set(statements));
      db = new DatabaseSync(file);
      judge = makeJudge(db, new Set(Object.keys(smallTables)));
    });
    after(() => db.close());

    test('all of the source were run', () => {
      const missing = inSource
        .filter(({ path }) => path.startsWith(`src/daemons/${daemon}/`))
        .filter(({ matches }) => !statements.some(matches))
        .map(({ path, line }) => `${path}:${line}`);
      const file = `test/repo/query-plans/stores/${daemon}.ts`;
      assert.deepEqual(missing, [], `not run by ${file}: call the method there`);
      const unknown = statements.filter((statement) => findPlace(statement) === undefined);
      assert.deepEqual(
        unknown,
        [],
        'not found in the source as a string that starts with its verb',
      );
    });

    test('every table that grows is filled', () => {
      const rows = readTables(db).map(([table]) => {
        const { n } = db.prepare(`SELECT COUNT(*) AS n FROM ${table}`).get() as { n: number };
        return { table, n };
      });
      const short = rows.filter(({ table, n }) => n < HISTORY && !(table in smallTables));
      assert.deepEqual(short, [], 'fill them, or list them as small with the reason');
      const gone = Object.keys(smallTables).filter(
        (name) => !rows.some(({ table }) => table === name),
      );
      assert.deepEqual(gone, [], 'listed as small, but there is no such table');
    });

    test('none reads all rows of a table that grows', () => {
      const problems = judgeAll(judge, statements);
      assert.ok(problems.length === 0, `${problems.length} to mend:\n  ${problems.join('\n  ')}`);
    });

    test('each index is needed: without it one of them would', () => {
      const indexes = db
        .prepare(
          "SELECT name, tbl_name FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL",
        )
        .all() as { name: string; tbl_name: string }[];
      const unneeded = indexes.filter(({ name, tbl_name }) => {
        if (tbl_name in smallTables || name in FOR_OPEN_WORK) return false;
        db.exec(`BEGIN; DROP INDEX ${name}`);
        const some = statements.filter((statement) => statement.includes(tbl_name));
        const problems = judgeAll(judge, some);
        db.exec('ROLLBACK');
        return problems.length === 0;
      });
      assert.deepEqual(
        unneeded.map(({ name }) => name),
        [],
      );
    });
  });

test('every other statement of the source was run by some store', () => {
  const all = [...used.values()].flatMap((statements) => [...statements]);
  const missing = inSource
    .filter(({ path }) => !STORES.some(({ daemon }) => path.startsWith(`src/daemons/${daemon}/`)))
    .filter(({ matches }) => !all.some(matches))
    .map(({ path, line }) => `${path}:${line}`);
  assert.deepEqual(missing, []);
});

test('each exception is still needed', () => {
  const unused = ALLOWED.filter((one) => !allowed.has(one)).map(({ start }) => start);
  assert.deepEqual(unused, []);
});
