// The steps of agentd's jobs, in order: a task is created, claimed, started, parked, woken, ended.
// What is decided is in rules; what lasts is in the store; processes and peers are reached through
// small interfaces.

import { isTransient } from '../../platform/backoff.ts';
import type { Clock } from '../../platform/clock.ts';
import type { NewId } from '../../platform/ids.ts';
import { hashJson } from '../../platform/json.ts';
import type { Log } from '../../platform/log.ts';
import type { IdempotencyKey } from '../../platform/sql/idempotency.ts';
import { makeWakeLoop } from '../../platform/wake-loop.ts';
import { ALL_TOOLS, delegationProblems } from '../../policy/capabilities.ts';
import type { CreateTask, Delegation, TaskView } from '../../wire/agentd.ts';
import { fault } from '../../wire/errors.ts';
import type { Artifacts } from './artifacts.ts';
import type { AgentdConfig } from './config.ts';
import { clampToParent, defaultAgent, effectiveLimits, type TaskLimits } from './rules.ts';
import type { TaskRow } from './store/rows.ts';
import type { Claim } from './store/runs.ts';
import type { AgentdStore } from './store/store.ts';
import type { NewTask } from './store/tasks.ts';
import type { CommittedWrite } from './store/tx.ts';

/** Starts and stops the process of one activation, with its sockets. */
export type Activations = {
  start(claim: Claim): Promise<void>;
  stop(run: { runId: string; fence: number }, reason: string): Promise<void>;
  liveCount(): number;
};

export type AgentdServiceDeps = {
  store: AgentdStore;
  config: AgentdConfig;
  clock: Clock;
  newId: NewId;
  log: Log;
  activations: () => Activations;
  haltReason: () => string | undefined;
  checkInputs: Artifacts['checkInputs'];
  /** Throws when no box would be given this directory. */
  checkWorkspace: (path: string) => Promise<void>;
};

export type AgentdService = {
  createTask(input: CreateTask, by: string, once: IdempotencyKey | undefined): Promise<TaskView>;
  retryTask(id: string, by: string, once: IdempotencyKey | undefined): Promise<TaskView>;
  /** Something changed that may let a run start. */
  schedule(): void;
  onCommitted(committed: CommittedWrite): void;
  limitsOf(task: TaskRow): Promise<TaskLimits>;
  begin(): Promise<void>;
  drain(): Promise<void>;
};

export function makeService(parts: AgentdServiceDeps): AgentdService {
  const { store, config, clock, newId, log } = parts;
  /** Until the runs of the process before this one are recovered, none is started. */
  let hasRecovered = false;

  const limitsOf = async (task: TaskRow): Promise<TaskLimits> => {
    const agent =
      task.assigned_to === null ? {} : (await store.agent(task.assigned_to)).spec.limits;
    return effectiveLimits(JSON.parse(task.limits) as TaskLimits, agent, config.limits);
  };

  const claimAndStart = async (): Promise<void> => {
    if (parts.haltReason() !== undefined) return;
    const slots = config.runs_live_max - parts.activations().liveCount();
    const claims = await store.claimRuns({
      slots,
      leaseMs: config.lease_s * 1000,
      maxTimeS: (task, agent) =>
        effectiveLimits(JSON.parse(task.limits) as TaskLimits, agent, config.limits).max_time_s,
    });
    for (const claim of claims) {
      parts
        .activations()
        .start(claim)
        .catch(async (error: unknown) => {
          log.error('an activation could not start', { run: claim.run.id, error });
          await store
            .activationEnded(
              { runId: claim.run.id, fence: claim.run.fence },
              {
                detail: `could not start: ${(error as Error).message}`,
                crashesMax: config.crashes_max,
                counts: !isTransient(error),
                pauseMs: 1_000,
              },
            )
            .catch((failure: unknown) =>
              log.error('and could not be given back', { run: claim.run.id, error: failure }),
            );
        });
    }
  };

  /** Nobody waits for a process that hangs. */
  const stopUnwaited = (run: { runId: string; fence: number }, reason: string): void => {
    parts
      .activations()
      .stop(run, reason)
      .catch((error: unknown) =>
        log.error('a runner could not be stopped', { run: run.runId, error }),
      );
  };

  const scheduler = makeWakeLoop({
    clock,
    async work() {
      const next = await store.nextDueMs();
      const due =
        next !== undefined && next <= clock.nowMs() ? (await store.processDue()).expiredLeases : [];
      for (const run of due) {
        log.warn('a runner gave no sign of life', { run: run.id });
        const key = { runId: run.id, fence: run.fence };
        const detail = 'it gave no sign of life';
        await store.activationEnded(key, { detail, crashesMax: config.crashes_max, counts: true });
        stopUnwaited(key, detail);
      }
      await claimAndStart();
      return store.nextDueMs();
    },
    backoffMs: { min: 100, max: 1_000 },
    onError: (error) => log.error('scheduling failed; trying again', { error }),
  });
  const schedule = (): void => {
    if (hasRecovered) scheduler.wake();
  };

  const newTaskFrom = async (input: CreateTask, by: string): Promise<NewTask> => {
    const parent =
      input.parent_task_id === undefined ? undefined : await store.taskRow(input.parent_task_id);
    const agents = await store.agents();
    // Also one that is paused: then that is said, and nobody else gets what was meant for it.
    const agent = input.agent ?? defaultAgent(agents.map(({ row }) => row.name));
    if (agent === undefined)
      throw fault('bad_request', 'the task names no agent and there is no planner to take it', {
        hint: 'Name one with --agent; see agentctl list.',
      });
    assertContext(input.context_id, parent);
    const marks = await parts.checkInputs(input.inputs ?? [], undefined);
    assertDelegation(input.delegation);
    if (input.workspace !== undefined && parent !== undefined)
      throw fault('bad_request', 'a part of a task works in the workspace of the whole', {
        hint: 'Leave the workspace out, or the parent task.',
      });
    if (input.workspace !== undefined) await parts.checkWorkspace(input.workspace);
    assertAhead(input.deadline);
    const limits = (input.limits ?? {}) as TaskLimits;
    return {
      id: newId('task'),
      parent,
      contextId: input.context_id ?? parent?.context_id ?? newId('ctx'),
      goal: input.goal,
      createdBy: by,
      agent,
      priority: input.priority ?? parent?.priority ?? 0,
      inputs: input.inputs ?? [],
      limits: (parent === undefined
        ? limits
        : clampToParent(limits, await limitsOf(parent))) as Record<string, unknown>,
      delegation: input.delegation,
      after: input.after ?? [],
      deadlineMs: input.deadline === undefined ? null : Date.parse(input.deadline),
      retryOf: null,
      workspace: input.workspace,
      labels: [
        ...new Set([
          ...(parent === undefined ? ['person'] : (JSON.parse(parent.labels) as string[])),
          ...marks,
        ]),
      ],
    };
  };

  /** A person may pass on anything there is, in words that mean something. */
  const assertDelegation = (delegation: Delegation | undefined): void => {
    const problems =
      delegation === undefined ? [] : delegationProblems(ALL_TOOLS, delegation, clock.nowMs());
    if (problems.length > 0) throw fault('bad_request', `delegation: ${problems.join('; ')}`);
  };

  const assertAhead = (deadline: string | undefined): void => {
    if (deadline === undefined || Date.parse(deadline) > clock.nowMs()) return;
    throw fault('bad_request', `the deadline ${deadline} is past`, {
      hint: 'Name a time to come, such as 2h from now.',
    });
  };

  const assertContext = (contextId: string | undefined, parent: TaskRow | undefined): void => {
    if (contextId === undefined || parent === undefined || parent.context_id === contextId) return;
    throw fault('bad_request', 'context_id must be that of the parent task');
  };

  /** Work is taken only while it can be recorded and nobody has stopped it. */
  const assertAuditAccepting = (): void => {
    store.outbox.assertAuditAccepting();
    const why = parts.haltReason();
    if (why !== undefined) throw fault('halted', `everything is halted: ${why}`);
  };

  return {
    limitsOf,
    schedule,
    onCommitted({ endedRuns, mayStart }) {
      for (const run of endedRuns) stopUnwaited(run, 'it has ended');
      if (mayStart) schedule();
    },
    async createTask(input, by, once) {
      const before = once === undefined ? undefined : await store.recall<TaskRow>(once);
      if (before !== undefined) return store.viewOf(before);
      assertAuditAccepting();
      const row = await store.createTask(await newTaskFrom(input, by), once);
      return store.viewOf(row);
    },
    async retryTask(id, by, once) {
      assertAuditAccepting();
      const old = await store.task(id);
      if (old.ended_at === null)
        throw fault('conflict', `${id} has not ended; it is ${old.status}`, {
          hint: `agentctl task cancel ${id}`,
        });
      const task = await newTaskFrom(
        {
          goal: old.goal,
          agent: old.assigned_to ?? undefined,
          context_id: old.context_id,
          inputs: old.inputs,
          limits: old.limits,
          delegation: old.delegation ?? undefined,
          priority: old.priority,
          ...(old.workspace === null ? {} : { workspace: old.workspace }),
        } as CreateTask,
        by,
      );
      return store.viewOf(
        await store.createTask(
          { ...task, retryOf: id },
          once ?? { scope: `retry ${by}`, key: task.id, requestHash: hashJson(id) },
        ),
      );
    },
    async begin() {
      const lost = await store.recoverRuns();
      if (lost > 0) log.info('runs of an earlier life are taken up again', { runs: lost });
      hasRecovered = true;
      schedule();
    },
    drain: () => scheduler.stop(),
  };
}
