// agentd's store: each method is one transaction named by its intent. Time is compared in here. What the
// transactions do inside is in the files beside this one; views for reading are in views.ts.
import type { Clock } from '../../../platform/clock.ts';
import type { NewId } from '../../../platform/ids.ts';
import type { Log } from '../../../platform/log.ts';
import { type AppendEvents, type Outbox, openOutbox } from '../../../platform/outbox.ts';
import type { Database } from '../../../platform/sql/database.ts';
import { type Once, onceByKey } from '../../../platform/sql/once.ts';
import type { TaskStatus } from '../../../wire/agentd.ts';
import { fault } from '../../../wire/errors.ts';
import type { Label } from '../../../wire/words.ts';
import { findCycle, type TaskNode } from '../dependency-rules.ts';
import { isEnded } from '../rules.ts';
import { type AgentSet, applyAgents, putAgent, setAgentStatus } from './agents.ts';
import { inboxForStep, insertMessage, type NewMessage } from './messages.ts';
import type { AgentRow, ArtifactRow, MessageRow, RunRow, TaskRow, WaitRow } from './rows.ts';
import { type Claim, claimRuns, findRun, giveBack, liveRun } from './runs.ts';
import {
  type Ending,
  endTask,
  findTask,
  insertTask,
  type NewTask,
  queueRun,
  reassign,
} from './tasks.ts';
import { type Committed, makeWriteTx, type Tx, type WriteTx } from './tx.ts';
import { makeViews, type Views } from './views.ts';
import { endWait, findWait, type NewWait, openWait, parkRun } from './waits.ts';

const CIRCLE_NODES_MAX = 5_000;

export type RunKey = { runId: string; fence: number };
/** A call that toold makes for a run: it happens once, whatever is asked again. */
/** `part` tells apart several things that one call needs done. */
export type RunCall = RunKey & { callId: string; part?: string; requestHash: string };

export type Due = { expiredLeases: RunRow[] };

export type Store = Views & {
  outbox: Outbox;
  applyAgents(set: AgentSet): Promise<void>;
  putAgent(agent: AgentSet['agents'][number], by: string): Promise<void>;
  setAgentStatus(
    name: string,
    status: 'active' | 'paused' | 'stopped' | 'removed',
    by: string,
  ): Promise<void>;
  createTask(task: NewTask, once: Once | undefined): Promise<TaskRow>;
  addRun(taskId: string): Promise<string>;
  claimRuns(options: {
    slots: number;
    leaseMs: number;
    maxTimeS: (task: TaskRow) => number | undefined;
  }): Promise<Claim[]>;
  saveBriefing(runId: string, briefing: unknown): Promise<void>;
  renewLease(key: RunKey, leaseMs: number): Promise<number>;
  inbox(key: RunKey, step: number): Promise<MessageRow[]>;
  park(key: RunKey, callIds: string[]): Promise<boolean>;
  activationEnded(key: RunKey, crash: { detail: string; crashesMax: number }): Promise<void>;
  /** Gives back every live run without counting a crash; how many there were. */
  recoverRuns(why?: string): Promise<number>;
  delegate(
    call: RunCall,
    task: NewTask,
    wait: { expiresMs?: number } | undefined,
  ): Promise<{ task: TaskRow; wait: WaitRow | null }>;
  finish(call: RunCall, ending: Ending): Promise<TaskRow>;
  breakRun(key: RunKey, reason: string): Promise<boolean>;
  sendFromRun(
    call: RunCall,
    message: NewMessage,
    wait: { expiresMs: number } | undefined,
  ): Promise<{ message: MessageRow; wait: WaitRow | null }>;
  send(message: NewMessage, once: Once | undefined): Promise<MessageRow>;
  openWait(call: RunCall, wait: Omit<NewWait, 'run' | 'callId'>): Promise<WaitRow>;
  answerWait(id: string, answer: string, by: string): Promise<WaitRow>;
  putArtifact(
    artifact: NewArtifact,
    call: RunCall | undefined,
    once: Once | undefined,
  ): Promise<ArtifactRow>;
  noteRead(
    artifactId: string,
    by: { principal: string; runId: string; callId: string; taskId: string },
  ): Promise<void>;
  cancelTask(id: string, reason: string, by: string): Promise<TaskRow>;
  assignTask(id: string, agent: string, by: string): Promise<TaskRow>;
  processDue(): Promise<Due>;
  setHalt(reason: string, by: string): Promise<number>;
  liftHalt(by: string): Promise<void>;
  runtimeEvent(
    event: 'runtime.started' | 'runtime.stopped',
    data: Record<string, string | number>,
  ): Promise<void>;
  close(): Promise<void>;
};

export type NewArtifact = {
  id: string;
  name: string;
  mimeType: string;
  sizeBytes: number;
  hash: string;
  createdBy: string;
  taskId: string | null;
  contextId: string | null;
  labels: Label[];
};

export type StoreOptions = {
  db: Database;
  clock: Clock;
  newId: NewId;
  append: AppendEvents;
  log: Log;
  onCommitted: (committed: Committed) => void;
};

export async function openStore(options: StoreOptions): Promise<Store> {
  const { db, clock } = options;
  const outbox = await openOutbox({
    db,
    source: 'agentd',
    clock,
    append: options.append,
    log: options.log,
  });
  const write = makeWriteTx({ ...options, outbox });
  return {
    ...makeViews(db, clock),
    ...agentMethods(write),
    ...taskMethods(write),
    ...runMethods(write),
    ...callMethods(write),
    ...timeMethods(write),
    outbox,
    async close() {
      await outbox.drain(2_000);
      outbox.stop();
      await db.close();
    },
  };
}

const onceFor = (call: RunCall): Once => ({
  scope: 'run-call',
  key: call.part === undefined ? call.callId : `${call.callId}/${call.part}`,
  requestHash: call.requestHash,
});
/** What was done before is answered from the record, also when the run has moved on since. */
const forRun = <T>(
  write: WriteTx,
  call: RunCall,
  work: (tx: Tx, run: RunRow) => Promise<T>,
): Promise<T> =>
  write((tx) =>
    onceByKey(tx.sql, onceFor(call), tx.nowMs, async () =>
      work(tx, await liveRun(tx, call.runId, call.fence)),
    ),
  );

function agentMethods(write: WriteTx): Pick<Store, 'applyAgents' | 'putAgent' | 'setAgentStatus'> {
  return {
    applyAgents: (set) => write((tx) => applyAgents(tx, set)),
    putAgent: (agent, by) => write((tx) => putAgent(tx, agent, by)),
    setAgentStatus: (name, status, by) => write((tx) => setAgentStatus(tx, name, status, by)),
  };
}

function taskMethods(
  write: WriteTx,
): Pick<Store, 'createTask' | 'addRun' | 'cancelTask' | 'assignTask'> {
  return {
    createTask: (task, once) =>
      write((tx) => onceByKey(tx.sql, once, tx.nowMs, () => createChecked(tx, task))),
    addRun: (taskId) =>
      write(async (tx) => {
        const task = await findTask(tx, taskId);
        if (isEnded(task.status)) throw fault('ended', `${taskId} is ${task.status}`);
        return queueRun(tx, task);
      }),
    cancelTask: (id, reason, by) =>
      write(async (tx) => {
        const task = await findTask(tx, id);
        if (isEnded(task.status)) throw fault('ended', `${id} is ${task.status} already`);
        await endTask(tx, task, {
          status: 'canceled',
          reason,
          by,
          error: {
            code: 'canceled',
            message: reason,
            hint: 'Create or retry the task if it is still wanted.',
          },
        });
        return findTask(tx, id);
      }),
    assignTask: (id, agent, by) =>
      write(async (tx) => {
        const task = await findTask(tx, id);
        if (isEnded(task.status))
          throw fault('ended', `${id} is ${task.status}`, { hint: `agentctl task retry ${id}` });
        if (task.status === 'working' || task.status === 'waiting')
          throw fault('conflict', `${id} is in the hands of ${task.assigned_to}`, {
            hint: 'Cancel it first, or let it end.',
          });
        await assertActive(tx, agent);
        await reassign(tx, task, agent);
        await tx.event({
          id: `${id}.assigned.${tx.newId<string>('n')}`,
          event: 'task.assigned',
          principal: by,
          agent,
          task_id: id,
          root_task_id: task.root_task_id,
        });
        return findTask(tx, id);
      }),
  };
}

async function assertActive(tx: Tx, agent: string): Promise<void> {
  const row = await tx.sql.one<AgentRow>('SELECT * FROM agents WHERE name = ?', agent);
  if (row === undefined || row.status === 'removed')
    throw fault('not_found', `there is no agent ${agent}`, { hint: 'See agentctl list.' });
  if (row.status !== 'active')
    throw fault('agent_paused', `the agent ${agent} is ${row.status}`, {
      hint: `agentctl resume ${agent}`,
    });
}

async function createChecked(tx: Tx, task: NewTask): Promise<TaskRow> {
  await assertActive(tx, task.agent);
  if (task.parent !== undefined) {
    const parent = await findTask(tx, task.parent.id);
    if (isEnded(parent.status)) throw fault('ended', `the parent ${parent.id} is ${parent.status}`);
    await assertNoCircle(tx, { id: task.id, parentTaskId: parent.id, after: task.after });
  }
  return insertTask(tx, task);
}

/** What waits for what, from the new task on: a circle would wait for ever. */
async function assertNoCircle(
  tx: Tx,
  draft: { id: string; parentTaskId: string | null; after: string[] },
): Promise<void> {
  if (draft.after.length === 0 || draft.parentTaskId === null) return;
  const nodes = new Map<string, TaskNode>();
  const queue = [...draft.after, draft.parentTaskId];
  for (const id of queue) {
    if (nodes.has(id)) continue;
    const row = await findTask(tx, id);
    const deps = await tx.sql.all<{ after_id: string }>(
      'SELECT after_id FROM task_deps WHERE task_id = ?',
      id,
    );
    const children = await tx.sql.all<{ id: string }>(
      'SELECT id FROM tasks WHERE parent_task_id = ? AND ended_ms IS NULL',
      id,
    );
    const after = deps.map((dep) => dep.after_id);
    nodes.set(id, {
      id,
      parentTaskId: row.parent_task_id,
      after,
      status: row.status as TaskStatus,
    });
    queue.push(...after, ...children.map((child) => child.id));
    if (nodes.size > CIRCLE_NODES_MAX)
      throw fault('limit', 'too many tasks hang together to look for circles');
  }
  const circle = findCycle(draft, nodes.values());
  if (circle !== undefined)
    throw fault('cycle', `the tasks would wait for each other for ever: ${circle.join(' → ')}`);
}

function runMethods(
  write: WriteTx,
): Pick<
  Store,
  | 'claimRuns'
  | 'saveBriefing'
  | 'renewLease'
  | 'inbox'
  | 'park'
  | 'activationEnded'
  | 'recoverRuns'
  | 'breakRun'
> {
  return {
    claimRuns: (options) => write((tx) => claimRuns(tx, options), { mayStart: false }),
    saveBriefing: (runId, briefing) =>
      write(
        async (tx) => {
          await tx.sql.run(
            'UPDATE runs SET briefing = ? WHERE id = ?',
            JSON.stringify(briefing),
            runId,
          );
        },
        { mayStart: false },
      ),
    renewLease: (key, leaseMs) =>
      write(
        async (tx) => {
          await liveRun(tx, key.runId, key.fence);
          await tx.sql.run(
            'UPDATE runs SET lease_until_ms = ? WHERE id = ?',
            tx.nowMs + leaseMs,
            key.runId,
          );
          return tx.nowMs + leaseMs;
        },
        { mayStart: false },
      ),
    inbox: (key, step) =>
      write(
        async (tx) => {
          const run = await liveRun(tx, key.runId, key.fence);
          return inboxForStep(tx, run, await findTask(tx, run.task_id), step);
        },
        { mayStart: false },
      ),
    park: (key, callIds) =>
      write(async (tx) => parkRun(tx, await liveRun(tx, key.runId, key.fence), callIds)),
    activationEnded: (key, crash) =>
      write(async (tx) => {
        const run = await findRun(tx, key.runId);
        if (run.status === 'live' && run.fence === key.fence)
          await giveBack(tx, run, { ...crash, counts: true });
      }),
    recoverRuns: (why = 'the runtime ended while it ran') =>
      write(async (tx) => {
        const runs = await tx.sql.all<RunRow>("SELECT * FROM runs WHERE status = 'live'");
        for (const run of runs)
          await giveBack(tx, run, {
            detail: why,
            counts: false,
            crashesMax: 0,
          });
        return runs.length;
      }),
    breakRun: (key, reason) =>
      write(async (tx) => {
        const run = await findRun(tx, key.runId);
        if (run.status !== 'live' || run.fence !== key.fence) return false;
        await tx.event({
          id: `${run.id}.broken.${run.fence}`,
          event: 'run.broken',
          agent: run.agent,
          task_id: run.task_id,
          run_id: run.id,
          data: { reason: reason.slice(0, 500) },
        });
        await endTask(tx, await findTask(tx, run.task_id), {
          status: 'failed',
          reason,
          by: 'service:toold',
          error: {
            code: 'breaker',
            message: reason,
            hint: 'Change the goal or the agent, then agentctl task retry.',
          },
        });
        return true;
      }),
  };
}

function callMethods(
  write: WriteTx,
): Pick<
  Store,
  | 'delegate'
  | 'finish'
  | 'sendFromRun'
  | 'send'
  | 'openWait'
  | 'answerWait'
  | 'putArtifact'
  | 'noteRead'
> {
  return {
    delegate: (call, task, wait) =>
      forRun(write, call, async (tx, run) => {
        const row = await createChecked(tx, task);
        await insertMessage(tx, {
          type: 'TaskRequest',
          contextId: row.context_id,
          taskId: row.id,
          from: row.created_by,
          to: `agent:${row.assigned_to}`,
          inReplyTo: null,
          labels: JSON.parse(row.labels) as Label[],
          parts: [{ kind: 'text', text: row.goal }],
          text: row.goal,
          delivered: true,
        });
        if (wait === undefined) return { task: row, wait: null };
        return {
          task: row,
          wait: await openWait(tx, {
            run,
            callId: call.callId,
            kind: 'child',
            by: [`agent:${row.assigned_to}`],
            childTaskId: row.id,
            ...wait,
          }),
        };
      }),
    finish: (call, ending) =>
      forRun(write, call, async (tx, run) => {
        await endTask(tx, await findTask(tx, run.task_id), { ...ending, winner: run.id });
        // The process that asked for this is still waiting for its answer; it ends by itself.
        tx.endedRuns.splice(
          0,
          tx.endedRuns.length,
          ...tx.endedRuns.filter((ended) => ended.runId !== run.id),
        );
        return findTask(tx, run.task_id);
      }),
    sendFromRun: (call, message, wait) =>
      forRun(write, call, async (tx, run) => {
        const row = await insertMessage(tx, message);
        if (wait === undefined) return { message: row, wait: null };
        return {
          message: row,
          wait: await openWait(tx, {
            run,
            callId: call.callId,
            kind: 'message',
            by: [message.to],
            from: message.to,
            messageId: row.id,
            expiresMs: wait.expiresMs,
          }),
        };
      }),
    send: (message, once) =>
      write((tx) => onceByKey(tx.sql, once, tx.nowMs, () => insertMessage(tx, message))),
    openWait: (call, wait) =>
      forRun(write, call, (tx, run) => openWait(tx, { ...wait, run, callId: call.callId })),
    answerWait: (id, answer, by) =>
      write(async (tx) => {
        const wait = await findWait(tx, id);
        if (wait.status !== 'open')
          throw fault('conflict', `${id} has ended already (${wait.outcome})`, {
            hint: 'The first answer counts.',
          });
        if (wait.kind !== 'question')
          throw fault(
            'conflict',
            `${id} waits for ${wait.kind === 'child' ? 'a task' : `a ${wait.kind}`}, not for an answer`,
          );
        const choices = JSON.parse(wait.choices) as string[];
        if (choices.length > 0 && !choices.includes(answer))
          throw fault('bad_request', `the answer must be one of: ${choices.join(' · ')}`);
        await endWait(tx, wait, { outcome: 'answered', answer: { text: answer }, by });
        return wait;
      }),
    putArtifact: (artifact, call, once) =>
      write((tx) =>
        onceByKey(tx.sql, call === undefined ? once : onceFor(call), tx.nowMs, async () => {
          if (call !== undefined) await liveRun(tx, call.runId, call.fence);
          return insertArtifact(tx, artifact, call);
        }),
      ),
    noteRead: (artifactId, by) =>
      write(
        async (tx) => {
          await tx.event({
            id: `${by.callId}.read`,
            event: 'artifact.read',
            principal: by.principal,
            task_id: by.taskId,
            run_id: by.runId,
            call_id: by.callId,
            artifact: artifactId,
          });
        },
        { mayStart: false },
      ),
  };
}

async function insertArtifact(
  tx: Tx,
  a: NewArtifact,
  call: RunCall | undefined,
): Promise<ArtifactRow> {
  const row: ArtifactRow = {
    id: a.id,
    name: a.name,
    mime_type: a.mimeType,
    size_bytes: a.sizeBytes,
    object_hash: a.hash,
    created_by: a.createdBy,
    task_id: a.taskId,
    context_id: a.contextId,
    labels: JSON.stringify(a.labels),
    created_ms: tx.nowMs,
  };
  const names = Object.keys(row);
  await tx.sql.run(
    `INSERT INTO artifacts (${names.join(', ')}) VALUES (${names.map(() => '?').join(', ')})`,
    ...(Object.values(row) as (string | number | null)[]),
  );
  await tx.event({
    id: `${row.id}.stored`,
    event: 'artifact.stored',
    principal: row.created_by,
    artifact: row.id,
    data: { sha256: row.object_hash, bytes: row.size_bytes },
    ...(row.task_id === null ? {} : { task_id: row.task_id }),
    ...(call === undefined ? {} : { run_id: call.runId, call_id: call.callId }),
  });
  return row;
}

function timeMethods(
  write: WriteTx,
): Pick<Store, 'processDue' | 'setHalt' | 'liftHalt' | 'runtimeEvent'> {
  return {
    processDue: () =>
      write(async (tx) => {
        const waits = await tx.sql.all<WaitRow>(
          "SELECT * FROM waits WHERE status = 'open' AND next_ms IS NOT NULL AND next_ms <= ? ORDER BY next_ms LIMIT 500",
          tx.nowMs,
        );
        for (const wait of waits) {
          const due = wait.due_ms !== null && Number(wait.due_ms) <= tx.nowMs;
          await endWait(tx, wait, {
            outcome: due ? 'completed' : 'expired',
            answer: null,
            by: 'service:agentd',
          });
        }
        const tasks = await tx.sql.all<TaskRow>(
          'SELECT * FROM tasks WHERE ended_ms IS NULL AND expires_ms IS NOT NULL AND expires_ms <= ? LIMIT 500',
          tx.nowMs,
        );
        for (const task of tasks) {
          const byDeadline = task.deadline_ms !== null && Number(task.deadline_ms) <= tx.nowMs;
          const message = byDeadline ? 'its deadline has passed' : 'its time limit is reached';
          await endTask(tx, await findTask(tx, task.id), {
            status: 'failed',
            reason: message,
            by: 'service:agentd',
            error: {
              code: 'limit',
              message,
              hint: 'Retry it with more time: agentctl task create … --max-time.',
            },
          });
        }
        return {
          expiredLeases: await tx.sql.all<RunRow>(
            "SELECT * FROM runs WHERE status = 'live' AND lease_until_ms <= ?",
            tx.nowMs,
          ),
        };
      }),
    setHalt: (reason, by) =>
      write(async (tx) => {
        const fresh = await tx.sql.run(
          'INSERT INTO halt (id, reason, since_ms) VALUES (1, ?, ?) ON CONFLICT DO NOTHING',
          reason,
          tx.nowMs,
        );
        if (fresh === 0) return 0;
        await tx.event({
          id: tx.newId('halt'),
          event: 'halt.set',
          principal: by,
          data: { reason: reason.slice(0, 500) },
        });
        const runs = await tx.sql.all<RunRow>("SELECT * FROM runs WHERE status = 'live'");
        for (const run of runs) {
          tx.endedRuns.push({ runId: run.id, fence: run.fence });
          await giveBack(tx, run, { detail: 'halted', counts: false, crashesMax: 0 });
        }
        return runs.length;
      }),
    liftHalt: (by) =>
      write(async (tx) => {
        if ((await tx.sql.run('DELETE FROM halt')) > 0)
          await tx.event({ id: tx.newId('halt'), event: 'halt.lifted', principal: by });
      }),
    runtimeEvent: (event, data) =>
      write((tx) => tx.event({ id: tx.newId('rt'), event, principal: 'service:agentd', data })),
  };
}
