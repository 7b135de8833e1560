// A state directory of the first release with a history of ended tasks: the migrations lose and
// change none of their rows, and everything about an old task can still be read.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { after, before, describe, it } from 'node:test';
import { fillFirstRelease } from '../../bench/fill/first-release.ts';
import type { TaskId } from '../../src/wire/primitives.ts';
import { freshDir, startRuntime, type TestRuntime } from '../support/runtime.ts';

const COPIES = 300;
const TABLES = {
  agentd: ['tasks', 'runs', 'inbox_steps', 'artifacts', 'once'],
  toold: ['runs', 'calls'],
  modeld: ['runs', 'model_calls', 'parts', 'budget_spent'],
};
/** Gives the columns of the first release that later versions keep as they were. */
const COLUMNS: Record<string, string> = {
  // Its scope became narrower.
  'agentd.once': 'once_key, request_hash, answer, at_ms',
};

/** Their other rows are sums, which go on. */
const WHERE: Record<string, string> = { 'modeld.budget_spent': "WHERE subject = 'task'" };

type Rows = Map<string, Set<string>>;

/** Each table's rows as text, with the columns that the first release had. */
function readRows(stateDir: string, columns: Map<string, string>): Rows {
  const found: Rows = new Map();
  for (const [daemon, tables] of Object.entries(TABLES)) {
    const db = new DatabaseSync(join(stateDir, `${daemon}.sqlite`), { readOnly: true });
    for (const table of tables) {
      const name = `${daemon}.${table}`;
      if (!columns.has(name)) columns.set(name, COLUMNS[name] ?? listColumns(db, table));
      const text = `SELECT ${columns.get(name)} FROM ${table} ${WHERE[name] ?? ''}`;
      const all = db.prepare(text).all();
      found.set(name, new Set(all.map((row) => JSON.stringify(row))));
    }
    db.close();
  }
  return found;
}

const listColumns = (db: DatabaseSync, table: string): string =>
  db
    .prepare(`SELECT name FROM pragma_table_info(?)`)
    .all(table)
    .map(({ name }) => name)
    .join(', ');

/** The ends of the ids of open tasks and runs; ids of calls end as their run's does. */
function readOpenIds(stateDir: string): string[] {
  const db = new DatabaseSync(join(stateDir, 'agentd.sqlite'), { readOnly: true });
  const rows = db.prepare("SELECT id, task_id FROM runs WHERE status <> 'ended'").all();
  db.close();
  return rows.flatMap(({ id, task_id }) => [id, task_id].map((one) => String(one).slice(-20)));
}

describe('a history of the first release', () => {
  const base = freshDir();
  const stateDir = join(base, 'state');
  const columns = new Map<string, string>();
  let ids: string[] = [];
  let open: string[] = [];
  let old: Rows;
  let runtime: TestRuntime;
  before(async () => {
    ids = await fillFirstRelease(stateDir, COPIES);
    old = readRows(stateDir, columns);
    open = readOpenIds(stateDir);
    runtime = await startRuntime({ base });
  });
  after(() => runtime.remove());

  it('is counted and listed whole', async () => {
    const { tasks } = await runtime.agentd.status({});
    assert.equal(tasks.completed, COPIES + 1);
    const listed = new Set<string>();
    for (let cursor: string | null = ''; cursor !== null; ) {
      const query = {
        limit: 100,
        status: 'completed',
        ...(cursor === '' ? {} : { cursor }),
      } as const;
      const page: Awaited<ReturnType<typeof runtime.agentd.listTasks>> =
        await runtime.agentd.listTasks({ query });
      for (const { id } of page.tasks) listed.add(id);
      cursor = page.cursor;
    }
    assert.deepEqual(
      ids.filter((id) => !listed.has(id)),
      [],
    );
  });

  it('has for each task its result, artifact, calls and events', async () => {
    for (const id of [ids[0]!, ids[COPIES / 2]!, ids.at(-1)!] as TaskId[]) {
      const { task } = await runtime.agentd.getTask({ params: { id } });
      assert.match(task.result ?? '', new RegExp(`Hello ${id}`));
      const { artifacts } = await runtime.agentd.listArtifacts({ query: { task_id: id } });
      assert.equal(artifacts.length, 1);
      const { calls } = await runtime.toold.listCalls({ query: { task_id: id } });
      assert.deepEqual(calls.map(({ tool }) => tool).sort(), ['artifact.put', 'task.finish']);
      const { events } = await runtime.audit.task({ params: { task_id: id }, query: {} });
      assert.ok(events.length > 10, `${events.length} events`);
    }
    const { total } = await runtime.modeld.usage({ query: { since: '2020-01-01T00:00:00.000Z' } });
    assert.ok(total.calls >= 2 * (COPIES + 1), `${total.calls} model calls`);
  });

  it('has every row as it was', async () => {
    await runtime.stop();
    const now = readRows(stateDir, columns);
    const isOfHistory = (row: string): boolean => !open.some((tail) => row.includes(tail));
    for (const [name, rows] of old) {
      const kept = [...rows].filter(isOfHistory);
      assert.ok(kept.length >= COPIES, `${name}: ${kept.length}`);
      const lost = kept.filter((row) => !now.get(name)!.has(row));
      assert.deepEqual(lost, [], name);
    }
  });
});
