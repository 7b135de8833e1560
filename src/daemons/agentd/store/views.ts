// Reading agentd's store: one task or many, trees, agents, counts. Lists are newest first, by
// keyset.
import type { Clock } from '../../../platform/clock.ts';
import { readIdCursor } from '../../../platform/page.ts';
import type { Database, Sql, Value } from '../../../platform/sql/database.ts';
import type {
  AgentView,
  ArtifactView,
  MessageView,
  RunView,
  TaskView,
  TreeNode,
  WaitView,
} from '../../../wire/agentd.ts';
import { fault } from '../../../wire/errors.ts';
import { agentNames, agentNotFound } from '../agent-not-found.ts';
import type { DeclaredAgent } from '../manifests.ts';
import {
  type AgentRow,
  type ArtifactRow,
  artifactView,
  type MessageRow,
  messageView,
  type RunRow,
  runView,
  type TaskRow,
  taskView,
  time,
  type WaitRow,
  waitView,
} from './rows.ts';
import { findRun } from './runs.ts';
import { findTask } from './task-rows.ts';
import { findWait } from './waits.ts';

export type ListPage<T> = { rows: T[]; cursor: string | null };
export type ListOptions = { limit: number; cursor?: string | undefined };

export type Views = {
  taskRow(id: string): Promise<TaskRow>;
  task(id: string): Promise<TaskView>;
  viewOf(row: TaskRow): Promise<TaskView>;
  tasks(filter: Record<string, string | undefined>, page: ListOptions): Promise<ListPage<TaskView>>;
  tree(id: string): Promise<TreeNode>;
  /** The task, then its parent, up to the root. */
  ancestry(id: string): Promise<TaskRow[]>;
  runRow(id: string): Promise<RunRow>;
  runs(filter: Record<string, string | undefined>, page: ListOptions): Promise<ListPage<RunView>>;
  wait(id: string): Promise<WaitView>;
  waits(filter: Record<string, string | undefined>, page: ListOptions): Promise<ListPage<WaitView>>;
  messages(
    filter: Record<string, string | undefined>,
    page: ListOptions,
  ): Promise<ListPage<MessageView>>;
  /** What a step of a run was given, for looking again. */
  deliveredAt(runId: string, step: number): Promise<MessageRow[]>;
  artifacts(
    filter: Record<string, string | undefined>,
    page: ListOptions,
  ): Promise<ListPage<ArtifactView>>;
  artifact(id: string): Promise<ArtifactView>;
  agents(): Promise<{ row: AgentRow; spec: DeclaredAgent; view: AgentView }[]>;
  agent(name: string): Promise<{ row: AgentRow; spec: DeclaredAgent; view: AgentView }>;
  counts(): Promise<{
    tasks: Record<string, number>;
    runs: Record<string, number>;
    waitsOpen: number;
  }>;
  halt(): Promise<{ reason: string } | undefined>;
  /** Runs that ended last, so many, and those that are parked: none needs its sockets. */
  lastAtRest(count: number): Promise<Pick<RunRow, 'id' | 'fence'>[]>;
  /** When something is due by time alone: a timer, an expiry, a lease, a pause that ends. */
  nextDueMs(): Promise<number | undefined>;
};

const TREE_MAX = 2_000;

async function list<R extends { id: string }>(
  sql: Sql,
  table: string,
  filter: Record<string, string | undefined>,
  page: ListOptions,
): Promise<{ rows: R[]; cursor: string | null }> {
  const where: string[] = [];
  const values: Value[] = [];
  for (const [column, value] of Object.entries(filter)) {
    if (value === undefined) continue;
    where.push(`${column} = ?`);
    values.push(value);
  }
  const before = readIdCursor(page.cursor);
  if (before !== undefined) {
    where.push('id < ?');
    values.push(before);
  }
  const { limit } = page;
  const clause = where.length === 0 ? '' : `WHERE ${where.join(' AND ')}`;
  const rows = await sql.all<R>(
    `SELECT * FROM ${table} ${clause} ORDER BY id DESC LIMIT ?`,
    ...values,
    limit,
  );
  return { rows, cursor: rows.length === limit ? rows[rows.length - 1]!.id : null };
}

async function withDeps(sql: Sql, rows: TaskRow[]): Promise<TaskView[]> {
  const views: TaskView[] = [];
  for (const row of rows) {
    const deps = await sql.all<{ after_id: string }>(
      'SELECT after_id FROM task_deps WHERE task_id = ? ORDER BY after_id',
      row.id,
    );
    views.push(
      taskView(
        row,
        deps.map((dep) => dep.after_id),
      ),
    );
  }
  return views;
}

export function makeViews(db: Database, clock: Clock): Views {
  const page =
    <R extends { id: string }, V>(table: string, view: (row: R) => V) =>
    (filter: Record<string, string | undefined>, options: ListOptions) =>
      db.read(async (sql) => {
        const { rows, cursor } = await list<R>(sql, table, filter, options);
        return { rows: rows.map(view), cursor };
      });
  return {
    ...agentViews(db),
    taskRow: (id) => db.read((sql) => findTask({ sql }, id)),
    task: (id) => db.read(async (sql) => (await withDeps(sql, [await findTask({ sql }, id)]))[0]!),
    viewOf: (row) => db.read(async (sql) => (await withDeps(sql, [row]))[0]!),
    tasks: (filter, options) =>
      db.read(async (sql) => {
        const { rows, cursor } = await list<TaskRow>(sql, 'tasks', filter, options);
        return { rows: await withDeps(sql, rows), cursor };
      }),
    tree: (id) => db.read((sql) => readTree(sql, id)),
    ancestry: (id) =>
      db.read(async (sql) => {
        const rows = [await findTask({ sql }, id)];
        for (
          let parent = rows[0]!.parent_task_id;
          parent !== null;
          parent = rows[rows.length - 1]!.parent_task_id
        )
          rows.push(await findTask({ sql }, parent));
        return rows;
      }),
    runRow: (id) => db.read((sql) => findRun({ sql }, id)),
    runs: page<RunRow, RunView>('runs', runView),
    wait: (id) => db.read(async (sql) => waitView(await findWait({ sql }, id))),
    waits: page<WaitRow, WaitView>('waits', waitView),
    messages: page<MessageRow, MessageView>('messages', messageView),
    deliveredAt: (runId, step) =>
      db.read((sql) =>
        sql.all<MessageRow>(
          'SELECT * FROM messages WHERE delivered_run = ? AND delivered_step = ? ORDER BY id',
          runId,
          step,
        ),
      ),
    artifacts: page<ArtifactRow, ArtifactView>('artifacts', artifactView),
    artifact: (id) =>
      db.read(async (sql) => {
        const row = await sql.one<ArtifactRow>('SELECT * FROM artifacts WHERE id = ?', id);
        if (row === undefined)
          throw fault('not_found', `there is no artifact ${id}`, {
            hint: 'See agentctl artifact list.',
          });
        return artifactView(row);
      }),
    halt: () => db.read((sql) => sql.one<{ reason: string }>('SELECT reason FROM halt')),
    lastAtRest: (count) =>
      db.read(async (sql) => {
        const newest = "SELECT id, fence FROM runs WHERE status = 'ended' ORDER BY ended_ms DESC";
        return [
          ...(await sql.all<RunRow>(`${newest} LIMIT ?`, count)),
          ...(await sql.all<RunRow>("SELECT id, fence FROM runs WHERE status = 'parked'")),
        ];
      }),
    nextDueMs: () => db.read((sql) => nextDue(sql, clock.nowMs())),
  };
}

function agentViews(db: Database): Pick<Views, 'agents' | 'agent' | 'counts'> {
  const viewAll = async (sql: Sql, rows: AgentRow[]) => {
    const counts = await sql.all<{ agent: string; status: string; n: number }>(
      'SELECT agent, status, n FROM task_counts',
    );
    return rows.map((row) => {
      const spec = JSON.parse(row.spec) as DeclaredAgent;
      const sum = (statuses: string[]) =>
        counts
          .filter((c) => c.agent === row.name && statuses.includes(c.status))
          .reduce((total, c) => total + Number(c.n), 0);
      const view = {
        name: row.name,
        description: spec.description,
        linux_user: row.linux_user,
        model: spec.model,
        status: row.status,
        replicas: spec.replicas,
        capabilities: spec.capabilities,
        tools: spec.tools,
        manifest_hash: row.manifest_hash,
        manifest_file: row.manifest_file,
        tasks: {
          ready: sum(['ready', 'blocked', 'submitted']),
          working: sum(['working']),
          waiting: sum(['waiting']),
          ended: sum(['completed', 'failed', 'canceled', 'rejected']),
        },
        budget: spec.budget,
        created_at: time(row.created_ms),
        updated_at: time(row.updated_ms),
      } as AgentView;
      return { row, spec, view };
    });
  };
  return {
    agents: () =>
      db.read(async (sql) =>
        viewAll(
          sql,
          await sql.all<AgentRow>("SELECT * FROM agents WHERE status <> 'removed' ORDER BY name"),
        ),
      ),
    agent: (name) =>
      db.read(async (sql) => {
        const row = await sql.one<AgentRow>('SELECT * FROM agents WHERE name = ?', name);
        if (row === undefined) throw agentNotFound(name, await agentNames(sql));
        return (await viewAll(sql, [row]))[0]!;
      }),
    counts: () =>
      db.read(async (sql) => {
        const tasks: Record<string, number> = {};
        for (const row of await sql.all<{ status: string; n: number }>(
          'SELECT status, SUM(n) AS n FROM task_counts GROUP BY status',
        ))
          tasks[row.status] = Number(row.n);
        const runs: Record<string, number> = {};
        for (const row of await sql.all<{ status: string; n: number }>(
          "SELECT status, COUNT(*) AS n FROM runs WHERE status <> 'ended' GROUP BY status",
        ))
          runs[row.status] = Number(row.n);
        const open = await sql.one<{ n: number }>(
          "SELECT COUNT(*) AS n FROM waits WHERE status = 'open' AND kind = 'question'",
        );
        return { tasks, runs, waitsOpen: Number(open?.n ?? 0) };
      }),
  };
}

async function readTree(sql: Sql, id: string): Promise<TreeNode> {
  const top = await readNode(sql, await findTask({ sql }, id));
  const queue = [top];
  let count = 1;
  for (const node of queue) {
    const rows = await sql.all<TaskRow>(
      'SELECT * FROM tasks WHERE parent_task_id = ? ORDER BY id LIMIT ?',
      node.task.id,
      TREE_MAX - count,
    );
    for (const row of rows) {
      const child = await readNode(sql, row);
      node.children.push(child);
      queue.push(child);
    }
    count += rows.length;
  }
  return top;
}

async function readNode(sql: Sql, row: TaskRow): Promise<TreeNode> {
  const [task] = await withDeps(sql, [row]);
  const runs = await sql.all<RunRow>('SELECT * FROM runs WHERE task_id = ? ORDER BY id', row.id);
  const waits = await sql.all<WaitRow>('SELECT * FROM waits WHERE task_id = ? ORDER BY id', row.id);
  return { task: task!, runs: runs.map(runView), waits: waits.map(waitView), children: [] };
}

async function nextDue(sql: Sql, nowMs: number): Promise<number | undefined> {
  const queries = [
    "SELECT MIN(next_ms) AS at FROM waits WHERE status = 'open' AND next_ms IS NOT NULL",
    'SELECT MIN(expires_ms) AS at FROM tasks WHERE ended_ms IS NULL AND expires_ms IS NOT NULL',
    "SELECT MIN(lease_until_ms) AS at FROM runs WHERE status = 'live'",
  ];
  const times: number[] = [];
  for (const text of queries) {
    const at = (await sql.one<{ at: number | null }>(text))?.at;
    if (at !== null && at !== undefined) times.push(Number(at));
  }
  const paused = (
    await sql.one<{ at: number | null }>(
      "SELECT MIN(not_before_ms) AS at FROM runs WHERE status = 'queued' AND not_before_ms > ?",
      nowMs,
    )
  )?.at;
  if (paused !== null && paused !== undefined) times.push(Number(paused));
  return times.length === 0 ? undefined : Math.min(...times);
}
