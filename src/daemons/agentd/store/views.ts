// Reads agentd's store: tasks, trees, agents, counts. Lists are newest first, paged by keyset.
import type { Clock } from '../../../platform/clock.ts';
import type { Database, Sql } from '../../../platform/sql/database.ts';
import type {
  AgentView,
  ArtifactView,
  MessageView,
  RunView,
  TaskView,
  TreeNode,
  WaitView,
} from '../../../wire/agentd.ts';
import { findKeptHome } from '../agent-home.ts';
import { type DeclaredAgent, hashPersona } from '../manifests/read-manifest.ts';
import { summarizeAgent } from '../personas/summary.ts';
import { agentNotFound, listAgentNames } from './agents.ts';
import { type BoardReads, makeBoardReads } from './board.ts';
import { type BriefingMembers, readBriefing } from './briefings.ts';
import { type DigestReads, makeDigestReads } from './digest.ts';
import { findTree } from './kept-trees.ts';
import { type ListFilter, type ListOptions, type ListPage, listRows } from './lists.ts';
import { countRunsByAgent, type RunCounts, readQueuedSince } from './queue.ts';
import { findRestoredTree, type RestoredTree } from './restores.ts';
import {
  type AgentRow,
  type ArtifactRow,
  type MessageRow,
  RUN_COLUMNS,
  type RunRow,
  type TaskRow,
  time,
  toArtifactView,
  toMessageView,
  toRunView,
  toTaskView,
  toWaitView,
  type WaitRow,
} from './rows.ts';
import { findRun } from './runs.ts';
import { findTask } from './task-rows.ts';
import { makeThreadReads, type ThreadReads } from './thread-reads.ts';
import { missingFault } from './tombstones.ts';
import { findWait } from './waits.ts';

type ListViews<T> = (filter: ListFilter, page: ListOptions) => Promise<ListPage<T>>;

export type Views = BoardReads &
  DigestReads &
  ThreadReads & {
    taskRow(id: string): Promise<TaskRow>;
    task(id: string): Promise<TaskView>;
    viewTask(row: TaskRow): Promise<TaskView>;
    /** Undefined unless the tree was open when the state was restored from a backup. */
    restoredTree(rootTaskId: string): Promise<RestoredTree | undefined>;
    tasks: ListViews<TaskView>;
    tree(id: string): Promise<TreeNode>;
    /** The task, then its parent, up to the root. */
    ancestry(id: string): Promise<TaskRow[]>;
    runRow(id: string): Promise<RunRow>;
    /** Returns the whole briefing; runRow has only part of it. */
    briefing(run: Pick<RunRow, 'id' | 'briefing'>): Promise<BriefingMembers | undefined>;
    runs: ListViews<RunView>;
    wait(id: string): Promise<WaitView>;
    waits: ListViews<WaitView>;
    messages: ListViews<MessageView>;
    message(id: string): Promise<MessageView>;
    /** Returns the messages recorded for a step, for replays. */
    deliveredMessages(runId: string, step: number): Promise<MessageRow[]>;
    artifacts: ListViews<ArtifactView>;
    artifact(id: string): Promise<ArtifactView>;
    agents(): Promise<{ row: AgentRow; spec: DeclaredAgent; view: AgentView }[]>;
    agent(name: string): Promise<{ row: AgentRow; spec: DeclaredAgent; view: AgentView }>;
    counts(): Promise<{
      tasks: Record<string, number>;
      runs: Record<string, number>;
      waitsOpen: number;
    }>;
    countRunsByAgent(): Promise<RunCounts>;
    /** Returns when the run that has waited longest was queued. */
    queuedSinceMs(): Promise<number | undefined>;
    halt(): Promise<{ reason: string } | undefined>;
    /** Returns all parked runs and the `count` most recently ended ones. */
    listStoppedRuns(count: number): Promise<Pick<RunRow, 'id' | 'fence'>[]>;
    /** Returns when the next timer, expiry, lease or backoff is due. */
    nextDueMs(): Promise<number | undefined>;
  };

const TREE_TASKS_MAX = 2_000;

/** One count for each index. */
const UNENDED_RUNS = ['queued', 'live', 'parked']
  .map(
    (status) => `SELECT '${status}' AS status, COUNT(*) AS n FROM runs WHERE status = '${status}'`,
  )
  .join(' UNION ALL ');

async function readTaskViews(sql: Sql, rows: TaskRow[]): Promise<TaskView[]> {
  const views: TaskView[] = [];
  for (const row of rows) {
    const deps = await sql.all<{ after_id: string }>(
      'SELECT after_id FROM task_deps WHERE task_id = ? ORDER BY after_id',
      row.id,
    );
    const after = deps.map((dep) => dep.after_id);
    views.push(toTaskView(row, after, await findTree({ sql }, row.root_task_id)));
  }
  return views;
}

export function makeViews(db: Database, clock: Clock): Views {
  const listViews =
    <R extends { id: string }, V>(
      table: 'runs' | 'waits' | 'messages' | 'artifacts',
      view: (row: R) => V,
    ) =>
    (filter: ListFilter, options: ListOptions) =>
      db.read(async (sql) => {
        const { rows, cursor } = await listRows<R>(sql, table, filter, options);
        return { rows: rows.map(view), cursor };
      });
  return {
    ...makeAgentViews(db),
    ...makeBoardReads(db),
    ...makeDigestReads(db),
    ...makeThreadReads(db),
    taskRow: (id) => db.read((sql) => findTask({ sql }, id)),
    task: (id) =>
      db.read(async (sql) => (await readTaskViews(sql, [await findTask({ sql }, id)]))[0]!),
    restoredTree: (root) => db.read((sql) => findRestoredTree(sql, root)),
    viewTask: (row) => db.read(async (sql) => (await readTaskViews(sql, [row]))[0]!),
    tasks: (filter, options) =>
      db.read(async (sql) => {
        const { rows, cursor } = await listRows<TaskRow>(sql, 'tasks', filter, options);
        return { rows: await readTaskViews(sql, rows), cursor };
      }),
    tree: (id) => db.read((sql) => readTree(sql, id)),
    ancestry: (id) =>
      db.read(async (sql) => {
        let row = await findTask({ sql }, id);
        const rows = [row];
        while (row.parent_task_id !== null) {
          row = await findTask({ sql }, row.parent_task_id);
          rows.push(row);
        }
        return rows;
      }),
    runRow: (id) => db.read((sql) => findRun({ sql }, id)),
    briefing: (run) => db.read((sql) => readBriefing(sql, run)),
    runs: listViews<RunRow, RunView>('runs', toRunView),
    wait: (id) => db.read(async (sql) => toWaitView(await findWait({ sql }, id))),
    waits: listViews<WaitRow, WaitView>('waits', toWaitView),
    message: (id) =>
      db.read(async (sql) => {
        const row = await sql.one<MessageRow>('SELECT * FROM messages WHERE id = ?', id);
        if (row === undefined) throw await missingFault(sql, { name: 'message', id });
        return toMessageView(row);
      }),
    messages: listViews<MessageRow, MessageView>('messages', toMessageView),
    deliveredMessages: (runId, step) =>
      db.read((sql) =>
        sql.all<MessageRow>(
          'SELECT * FROM messages WHERE delivered_run = ? AND delivered_step = ? ORDER BY id',
          runId,
          step,
        ),
      ),
    artifacts: listViews<ArtifactRow, ArtifactView>('artifacts', toArtifactView),
    artifact: (id) =>
      db.read(async (sql) => {
        const row = await sql.one<ArtifactRow>('SELECT * FROM artifacts WHERE id = ?', id);
        if (row === undefined) {
          const hint = 'See agentctl artifact list.';
          throw await missingFault(sql, { name: 'artifact', id, hint });
        }
        return toArtifactView(row);
      }),
    countRunsByAgent: () => db.read((sql) => countRunsByAgent(sql, clock.nowMs())),
    queuedSinceMs: () => db.read(readQueuedSince),
    halt: () => db.read((sql) => sql.one<{ reason: string }>('SELECT reason FROM halt')),
    listStoppedRuns: (count) =>
      db.read(async (sql) => {
        const newest = "SELECT id, fence FROM runs WHERE status = 'ended' ORDER BY ended_ms DESC";
        return [
          ...(await sql.all<RunRow>(`${newest} LIMIT ?`, count)),
          ...(await sql.all<RunRow>("SELECT id, fence FROM runs WHERE status = 'parked'")),
        ];
      }),
    nextDueMs: () => db.read((sql) => readNextDue(sql, clock.nowMs())),
  };
}

function makeAgentViews(db: Database): Pick<Views, 'agents' | 'agent' | 'counts'> {
  const buildViews = async (sql: Sql, rows: AgentRow[]) => {
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
        persona: spec.composed?.persona ?? null,
        role: spec.composed?.role ?? null,
        purpose: spec.composed?.purpose ?? null,
        summary: summarizeAgent(spec),
        persona_sha256: hashPersona(spec),
        home_id: findKeptHome(spec) ?? null,
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
        buildViews(
          sql,
          await sql.all<AgentRow>("SELECT * FROM agents WHERE status <> 'removed' ORDER BY name"),
        ),
      ),
    agent: (name) =>
      db.read(async (sql) => {
        const row = await sql.one<AgentRow>('SELECT * FROM agents WHERE name = ?', name);
        if (row === undefined) throw agentNotFound(name, await listAgentNames(sql));
        return (await buildViews(sql, [row]))[0]!;
      }),
    counts: () =>
      db.read(async (sql) => {
        const tasks: Record<string, number> = {};
        for (const row of await sql.all<{ status: string; n: number }>(
          'SELECT status, SUM(n) AS n FROM task_counts GROUP BY status',
        ))
          tasks[row.status] = Number(row.n);
        const runs: Record<string, number> = {};
        for (const row of await sql.all<{ status: string; n: number }>(UNENDED_RUNS))
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
      TREE_TASKS_MAX - count,
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
  const [task] = await readTaskViews(sql, [row]);
  const runs = await sql.all<RunRow>(
    `SELECT ${RUN_COLUMNS} FROM runs WHERE task_id = ? ORDER BY id`,
    row.id,
  );
  const waits = await sql.all<WaitRow>('SELECT * FROM waits WHERE task_id = ? ORDER BY id', row.id);
  return { task: task!, runs: runs.map(toRunView), waits: waits.map(toWaitView), children: [] };
}

async function readNextDue(sql: Sql, nowMs: number): Promise<number | undefined> {
  const queries: [string, ...number[]][] = [
    ['SELECT MIN(next_ms) AS at FROM waits WHERE next_ms IS NOT NULL'],
    ['SELECT MIN(expires_ms) AS at FROM tasks WHERE ended_ms IS NULL AND expires_ms IS NOT NULL'],
    ["SELECT MIN(lease_until_ms) AS at FROM runs WHERE status = 'live'"],
    [
      "SELECT MIN(not_before_ms) AS at FROM runs WHERE status = 'queued' AND not_before_ms > ?",
      nowMs,
    ],
  ];
  const times: number[] = [];
  for (const [text, ...values] of queries) {
    const at = (await sql.one<{ at: number | null }>(text, ...values))?.at;
    if (at !== null && at !== undefined) times.push(Number(at));
  }
  return times.length === 0 ? undefined : Math.min(...times);
}
