// Creates and retries tasks, and runs the scheduler that claims and starts runs. Decisions are in
// the rules files, durable state is in the store.
import { isTransient } from '../../platform/backoff.ts';
import type { Clock } from '../../platform/clock.ts';
import type { NewId } from '../../platform/ids.ts';
import { hashJson } from '../../platform/json.ts';
import type { Log } from '../../platform/log.ts';
import type { IdempotencyKey } from '../../platform/sql/idempotency.ts';
import { makeWakeLoop } from '../../platform/wake-loop.ts';
import { ALL_TOOLS, delegationProblems } from '../../policy/capabilities.ts';
import type { CreateTask, Delegation, FailurePolicy, TaskView } from '../../wire/agentd.ts';
import { fault } from '../../wire/errors.ts';
import type { Label } from '../../wire/primitives.ts';
import type { WorkspaceMode } from '../../wire/sandboxd/layers.ts';
import type { Artifacts } from './artifacts.ts';
import type { AgentdConfig } from './config.ts';
import type { FindMatch } from './matching/matching.ts';
import type { MemoryInputs } from './memory/inputs.ts';
import type { ForkLayer } from './own-layers.ts';
import { clampToParent, defaultAgent, effectiveLimits, type TaskLimits } from './rules.ts';
import type { AgentMatch } from './store/matches.ts';
import type { TaskRow } from './store/rows.ts';
import type { Claim } from './store/runs.ts';
import type { AgentdStore } from './store/store.ts';
import type { NewTask } from './store/tasks.ts';
import type { CommittedWrite } from './store/tx.ts';

/** Who creates a task. `owner`: a person, with a key of their own. */
export type Requester = {
  principal: string;
  owner?: string | undefined;
  /** Where the goal comes from; by default a person. */
  labels?: readonly Label[];
};

/** Starts and stops activations: a process with its sockets. */
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
  checkMemoryInputs: MemoryInputs['check'];
  /** Throws if no box may mount this directory, or not in this mode. */
  checkWorkspace: (path: string, mode: WorkspaceMode) => Promise<void>;
  forkLayer: ForkLayer;
  findMatch: FindMatch;
};

export type AgentdService = {
  createTask(input: CreateTask, by: Requester, once: IdempotencyKey | undefined): Promise<TaskView>;
  /** Checks a request as `createTask` does, for a task that is created in another way. */
  prepareTask(input: CreateTask, by: Requester): Promise<NewTask>;
  retryTask(id: string, by: Requester, once: IdempotencyKey | undefined): Promise<TaskView>;
  /** Wakes the scheduler, because a run may now be able to start. */
  schedule(): void;
  onCommitted(committed: CommittedWrite): void;
  limitsFor(task: TaskRow): Promise<TaskLimits>;
  begin(): Promise<void>;
  drain(): Promise<void>;
};

const HALT_RETRY_MS = 1_000;
const WORKSPACE_MODE_DEFAULT: WorkspaceMode = 'layer';

export function makeService(deps: AgentdServiceDeps): AgentdService {
  const { store, config, clock, newId, log } = deps;
  /** No run starts before the runs of the previous process are requeued. */
  let hasRecovered = false;

  const limitsFor = async (task: TaskRow): Promise<TaskLimits> => {
    const agent =
      task.assigned_to === null ? {} : (await store.agent(task.assigned_to)).spec.limits;
    return effectiveLimits(JSON.parse(task.limits) as TaskLimits, agent, config.limits);
  };

  const claimAndStart = async (): Promise<void> => {
    const slots = config.runs_live_max - deps.activations().liveCount();
    const claims = await store.claimRuns({
      slots,
      leaseMs: config.lease_s * 1000,
      maxTimeS: (task, agent) =>
        effectiveLimits(JSON.parse(task.limits) as TaskLimits, agent, config.limits).max_time_s,
    });
    for (const claim of claims) {
      deps
        .activations()
        .start(claim)
        .catch(async (error: unknown) => {
          log.error('starting an activation failed', { run: claim.run.id, error });
          await store
            .endActivation(
              { runId: claim.run.id, fence: claim.run.fence },
              {
                detail: `could not start: ${(error as Error).message}`,
                crashesMax: config.crashes_max,
                counts: !isTransient(error),
                pauseMs: 1_000,
              },
            )
            .catch((failure: unknown) =>
              log.error('requeueing the run failed', { run: claim.run.id, error: failure }),
            );
        });
    }
  };

  /** Does not wait, because the process may hang. */
  const stopInBackground = (run: { runId: string; fence: number }, reason: string): void => {
    deps
      .activations()
      .stop(run, reason)
      .catch((error: unknown) => log.error('stopping a runner failed', { run: run.runId, error }));
  };

  const scheduler = makeWakeLoop({
    clock,
    async work() {
      const next = await store.nextDueMs();
      const expired = next !== undefined && next <= clock.nowMs() ? await store.processDue() : [];
      for (const run of expired) {
        log.warn('runner lease expired', { run: run.id });
        const key = { runId: run.id, fence: run.fence };
        const detail = 'lease expired without a heartbeat';
        await store.endActivation(key, { detail, crashesMax: config.crashes_max, counts: true });
        stopInBackground(key, detail);
      }
      // No write follows a file HALT that is removed before it is recorded, so look again.
      if (deps.haltReason() !== undefined) return clock.nowMs() + HALT_RETRY_MS;
      await claimAndStart();
      return store.nextDueMs();
    },
    backoffMs: { min: 100, max: 1_000 },
    onError: (error) => log.error('scheduling failed; retrying', { error }),
  });
  const schedule = (): void => {
    if (hasRecovered) scheduler.wake();
  };

  const buildTask = async (input: CreateTask, by: Requester): Promise<NewTask> => {
    const parent =
      input.parent_task_id === undefined ? undefined : await store.taskRow(input.parent_task_id);
    const failure = readFailurePolicy(input, parent);
    const match = await findMatchFor(input, failure.onFailure);
    const agent = match === undefined ? await findAgentFor(input) : match.agent;
    assertSameThread(input.context_id, parent);
    const inputs = input.inputs ?? [];
    const marks = [
      ...(await deps.checkInputs(inputs, undefined)),
      ...(await deps.checkMemoryInputs(inputs, by, agent)),
    ];
    assertDelegation(input.delegation);
    const ownsLayer = input.workspace === 'own';
    const workspace = input.workspace === 'own' ? undefined : input.workspace;
    if (ownsLayer && parent === undefined)
      throw fault('bad_request', 'workspace own is given without a parent task', {
        hint: 'Name the directory in workspace, or the task to go on from in parent_task_id.',
      });
    if (workspace !== undefined && parent !== undefined)
      throw fault('bad_request', 'a subtask uses the workspace of its root task', {
        hint: 'Omit the workspace or the parent task, or give own for a layer of its own.',
      });
    if (workspace === undefined && input.workspace_mode !== undefined)
      throw fault('bad_request', 'workspace_mode is given without a workspace', {
        hint: 'Name the directory in workspace, or omit workspace_mode.',
      });
    const workspaceMode = input.workspace_mode ?? WORKSPACE_MODE_DEFAULT;
    if (workspace !== undefined) await deps.checkWorkspace(workspace, workspaceMode);
    assertFutureDeadline(input.deadline);
    const limits = (input.limits ?? {}) as TaskLimits;
    const id = newId<string>('task');
    if (ownsLayer) await deps.forkLayer(parent!, id);
    return {
      id,
      ownsLayer,
      parent,
      contextId: input.context_id ?? parent?.context_id ?? newId('ctx'),
      goal: input.goal,
      createdBy: by.principal,
      owner: by.owner,
      agent,
      match,
      ...failure,
      priority: input.priority ?? parent?.priority ?? 0,
      inputs,
      limits: (parent === undefined
        ? limits
        : clampToParent(limits, await limitsFor(parent))) as Record<string, unknown>,
      delegation: input.delegation,
      after: input.after ?? [],
      deadlineMs: input.deadline === undefined ? null : Date.parse(input.deadline),
      retryOf: null,
      workspace,
      workspaceMode,
      labels: [
        ...new Set([
          ...(parent === undefined
            ? (by.labels ?? ['person'])
            : (JSON.parse(parent.labels) as string[])),
          ...marks,
        ]),
      ],
    };
  };

  const findAgentFor = async ({ agent: named }: CreateTask): Promise<string> => {
    const agents = named === undefined ? await store.agents() : [];
    // The default may be paused: the task is then refused rather than given to another agent.
    const agent = named ?? defaultAgent(agents.map(({ row }) => row.name));
    if (agent !== undefined) return agent;
    throw fault('bad_request', 'the task names no agent and there is no default agent', {
      hint: 'Name one with --agent; see agentctl list.',
    });
  };

  /** Also for a named agent, if its needs are to be checked or others may have to try. */
  const findMatchFor = async (
    { goal, needs, agent }: CreateTask,
    onFailure: FailurePolicy | undefined,
  ): Promise<AgentMatch | undefined> =>
    needs === undefined && onFailure !== 'reassign'
      ? undefined
      : deps.findMatch({ goal, needs: needs ?? [], agent });

  /** The policy of a root task; what a failed subtask means is for the agent above it to say. */
  const readFailurePolicy = (
    { on_failure: own, attempts_max: own_max }: CreateTask,
    parent: TaskRow | undefined,
  ): Pick<NewTask, 'onFailure' | 'attemptsMax'> => {
    if (parent === undefined)
      return {
        onFailure: own ?? config.on_failure,
        attemptsMax: own_max ?? config.attempts_max,
      };
    if (own === undefined && own_max === undefined) return {};
    throw fault('bad_request', 'a subtask has no failure policy', {
      hint: 'Omit on_failure and attempts_max, or omit the parent task.',
    });
  };

  /** A person may delegate any known tool. */
  const assertDelegation = (delegation: Delegation | undefined): void => {
    const problems =
      delegation === undefined ? [] : delegationProblems(ALL_TOOLS, delegation, clock.nowMs());
    if (problems.length > 0) throw fault('bad_request', `delegation: ${problems.join('; ')}`);
  };

  const assertFutureDeadline = (deadline: string | undefined): void => {
    if (deadline === undefined || Date.parse(deadline) > clock.nowMs()) return;
    throw fault('bad_request', `the deadline ${deadline} has passed`, {
      hint: 'Give a time in the future.',
    });
  };

  const assertSameThread = (contextId: string | undefined, parent: TaskRow | undefined): void => {
    if (contextId === undefined || parent === undefined || parent.context_id === contextId) return;
    throw fault('bad_request', 'context_id must match the parent task');
  };

  /** Throws while the audit log accepts no events or the runtime is halted. */
  const assertAcceptingWork = (): void => {
    store.outbox.assertAuditAccepting();
    const reason = deps.haltReason();
    if (reason !== undefined) throw fault('halted', `the runtime is halted: ${reason}`);
  };

  return {
    limitsFor,
    schedule,
    onCommitted({ endedRuns, mayStart }) {
      for (const run of endedRuns) stopInBackground(run, 'its run has ended');
      if (mayStart) schedule();
    },
    async createTask(input, by, once) {
      const recorded = once === undefined ? undefined : await store.findRecorded<TaskRow>(once);
      if (recorded !== undefined) return store.viewTask(recorded);
      assertAcceptingWork();
      const row = await store.createTask(await buildTask(input, by), once);
      return store.viewTask(row);
    },
    async prepareTask(input, by) {
      assertAcceptingWork();
      return buildTask(input, by);
    },
    async retryTask(id, by, once) {
      assertAcceptingWork();
      const old = await store.task(id);
      if (old.program !== undefined)
        throw fault('conflict', `${id} is a program that a person started`, {
          hint: 'Start it again: agentctl box run … -- COMMAND',
        });
      if (old.ended_at === null)
        throw fault('conflict', `${id} has not ended; it is ${old.status}`, {
          hint: `agentctl task cancel ${id}`,
        });
      const task = await buildTask(
        {
          goal: old.goal,
          // One that no agent got yet is matched again.
          ...(old.assigned_to === null ? { needs: [] } : { agent: old.assigned_to }),
          ...(old.parent_task_id === null
            ? { on_failure: old.on_failure, attempts_max: old.attempts_max }
            : {}),
          context_id: old.context_id,
          inputs: old.inputs,
          limits: old.limits,
          delegation: old.delegation ?? undefined,
          priority: old.priority,
          ...(old.workspace === null
            ? {}
            : { workspace: old.workspace, workspace_mode: old.workspace_mode ?? 'live' }),
        } as CreateTask,
        by,
      );
      return store.viewTask(
        await store.createTask(
          { ...task, retryOf: id },
          once ?? { scope: `retry ${by.principal}`, key: task.id, requestHash: hashJson(id) },
        ),
      );
    },
    async begin() {
      const recovered = await store.recoverRuns();
      if (recovered > 0) log.info('resuming runs from before the restart', { runs: recovered });
      hasRecovered = true;
      schedule();
    },
    drain: () => scheduler.stop(),
  };
}
