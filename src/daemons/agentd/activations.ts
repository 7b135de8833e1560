// Runs activations: admits a run at the daemons it may call, opens its sockets, starts its process
// and records its exit. Also builds the runner's briefing, which is the same for every activation.
import { type BackoffOptions, isTransient, retryWithBackoff } from '../../platform/backoff.ts';
import { toTimestamp } from '../../platform/clock.ts';
import type { RunSockets } from '../../platform/daemon.ts';
import type { Client } from '../../platform/link.ts';
import type { Log } from '../../platform/log.ts';
import { computeGrant, type Grant } from '../../policy/capabilities.ts';
import type { BriefedSkill, Delegation, RunBriefing } from '../../wire/agentd.ts';
import type { RunCaller } from '../../wire/caller.ts';
import type { modeldRoutes } from '../../wire/modeld.ts';
import type { Label, RunId, TaskId } from '../../wire/primitives.ts';
import type { tooldRoutes } from '../../wire/toold.ts';
import type { Launcher, RunExit, RunnerProcess } from './adapters/sandbox-launcher.ts';
import { findHomeFor } from './agent-home.ts';
import type { AgentdConfig } from './config.ts';
import type { MemoryInputs } from './memory/inputs.ts';
import type { RecallMemories } from './memory/recall.ts';
import { readHosts } from './program-hosts.ts';
import type { TaskLimits } from './rules.ts';
import type { Activations } from './service.ts';
import type { RestoredTree } from './store/restores.ts';
import {
  type RunRow,
  readLayers,
  readProgram,
  readWorkspaceMode,
  type TaskRow,
} from './store/rows.ts';
import type { Claim } from './store/runs.ts';
import type { AgentdStore } from './store/store.ts';

export type ActivationDeps = {
  store: AgentdStore;
  config: AgentdConfig;
  log: Log;
  toold: Client<typeof tooldRoutes>;
  modeld: Client<typeof modeldRoutes>;
  runSockets: RunSockets;
  launcher: Launcher;
  limitsFor: (task: TaskRow) => Promise<TaskLimits>;
  readArtifactText: (id: string) => Promise<{ name: string; text: string; labels: Label[] }>;
  schedule: () => void;
  failpoint: (name: string) => void;
  recallMemories: RecallMemories;
  /** Those of the library that fit a goal. */
  readMemoryInputs: MemoryInputs['read'];
  matchSkills: (goal: string, allowed: readonly string[] | undefined) => BriefedSkill[];
};

/** The stored part of a briefing; the socket adds the rest. */
export type RecordedBriefing = Omit<RunBriefing, 'fence' | 'mode' | 'beat_ms'>;

export type LiveActivations = Activations & {
  /** Admits a run and opens its sockets; used for live runs and for replays. */
  admit(run: RunRow, task: TaskRow, mode: 'live' | 'replay'): Promise<void>;
  dismiss(runId: string, fence: number, mode: 'live' | 'replay'): Promise<void>;
  /** Starts the process, which waits until its socket paths are sent to it. */
  launch(
    run: RunRow,
    task: TaskRow,
    mode: 'live' | 'replay',
    onExit: (exit: RunExit) => void,
  ): Promise<RunnerProcess>;
  /** Resolves when the briefing of the run's activation is recorded, or will not be. */
  waitUntilBriefed(runId: string): Promise<void>;
  /** Ends the process of an ended or parked run if it does not exit within a grace period. */
  release(run: { runId: string; fence: number }): void;
  /** Resolves when no activation of the run has a process or sockets. */
  waitUntilGone(runId: string): Promise<void>;
  /** Ends every process and returns how many there were. */
  stopAll(): Promise<number>;
  /** Dismisses, at startup, runs that the previous process may not have dismissed. */
  dismissStale(): Promise<void>;
};

type LiveRun = {
  fence: number;
  launched: RunnerProcess | undefined;
  stopped: boolean;
  /** Never rejects. */
  briefed: Promise<void>;
};

const PROGRAM_STEPS_MAX = 1_000_000;

const RETRY: BackoffOptions = {
  isTransient,
  backoffMsMax: 5_000,
  timeoutMs: 600_000,
  inBackground: true,
};

export function makeActivations(deps: ActivationDeps): LiveActivations {
  const { store, log } = deps;
  const live = new Map<string, LiveRun>();
  const exits = new Map<string, PromiseWithResolvers<void>>();
  const resolveExit = (runId: string): void => {
    exits.get(runId)?.resolve();
    exits.delete(runId);
  };

  const admit = async (run: RunRow, task: TaskRow, mode: 'live' | 'replay'): Promise<void> => {
    const [{ spec }, grant, limits, restored] = await Promise.all([
      store.agent(run.agent),
      grantFor(store, run.agent, task),
      deps.limitsFor(task),
      store.restoredTree(task.root_task_id),
    ]);
    const id = run.id as RunId;
    const labels = JSON.parse(task.labels) as Label[];
    const program = readProgram(task);
    const common = {
      fence: run.fence,
      mode,
      agent: run.agent,
      task_id: task.id as TaskId,
      root_task_id: task.root_task_id as TaskId,
      labels,
      ...(program === undefined ? {} : { is_program: true as const }),
    };
    const caller: RunCaller = {
      kind: 'run',
      principal: `agent:${run.agent}`,
      runId: id,
      fence: run.fence,
      mode,
      agent: run.agent,
      taskId: task.id as TaskId,
    };
    // A program has no steps of ours; it is bounded by cost, tokens and time.
    const isProgram = program !== undefined;
    const home = isProgram ? program.home : findHomeFor(spec, task);
    const maxSteps = isProgram
      ? PROGRAM_STEPS_MAX
      : (limits.max_steps ?? deps.config.limits.max_steps);
    await Promise.all([
      deps.toold.admitRun({
        params: { id },
        body: {
          ...common,
          tools: isProgram ? [] : grant.tools,
          grant_expires_at: grant.expiresAt,
          workspace: task.workspace,
          workspace_mode: readWorkspaceMode(task),
          layer_task_ids: readLayers(task) as TaskId[],
          max_calls: maxSteps * 16,
          ...(spec.composed?.persona == null ? {} : { persona: spec.composed.persona }),
          ...(home === undefined ? {} : { home }),
          ...(program?.hosts === undefined ? {} : { hosts: program.hosts.flatMap(readHosts) }),
          restored: toRestored(restored),
        },
      }),
      deps.modeld.admitRun({
        params: { id },
        body: {
          ...common,
          model: spec.model,
          ...(program?.model === undefined ? {} : { chosen_model: program.model }),
          max_steps: maxSteps,
          max_tokens: limits.max_tokens ?? null,
          max_cost_microusd: limits.max_cost_microusd ?? null,
        },
      }),
      // Nothing in the box of a program may call agentd.
      isProgram ? undefined : deps.runSockets.open(caller),
    ]);
  };

  const dismiss = async (runId: string, fence: number, mode: 'live' | 'replay'): Promise<void> => {
    const request = { params: { id: runId as RunId }, query: { fence } };
    const logFailure = (at: string, error: unknown) =>
      log.warn('dismissing a run failed', { run: runId, fence, at, error });
    // An unavailable daemon must not delay the others or the end of the process. It restarts with
    // every run whose dismissal it missed, so retry in the background.
    const runOrRetryLater = (at: string, work: () => Promise<unknown>) =>
      work().catch((error: unknown) => {
        if (!isTransient(error)) return logFailure(at, error);
        void retryWithBackoff(work, RETRY).catch((last: unknown) => logFailure(at, last));
      });
    await Promise.all([
      runOrRetryLater('toold', () => deps.toold.dismissRun(request)),
      runOrRetryLater('modeld', () => deps.modeld.dismissRun(request)),
      runOrRetryLater('agentd', () => deps.runSockets.close(runId, fence, mode)),
    ]);
  };

  const launch: LiveActivations['launch'] = (run, task, mode, onExit) =>
    deps.launcher.start({
      runId: run.id,
      fence: run.fence,
      mode,
      agent: run.agent,
      taskId: task.id,
      rootTaskId: task.root_task_id,
      onExit,
    });

  const handleExit = async (run: RunRow, exit: RunExit): Promise<void> => {
    const entry = live.get(run.id);
    // A run that failed to start is requeued by the caller of start().
    if (entry?.fence !== run.fence) return;
    live.delete(run.id);
    await dismiss(run.id, run.fence, 'live');
    resolveExit(run.id);
    if (exit.code !== 0) log.info('runner exited', { run: run.id, fence: run.fence, ...exit });
    // No effect if the run has parked or ended: this activation then no longer holds it.
    const status = exit.signal === null ? `exit ${exit.code}` : `killed by ${exit.signal}`;
    await store.endActivation(
      { runId: run.id, fence: run.fence },
      {
        detail: `${status} ${exit.stderrTail.slice(-300)}`.trim(),
        crashesMax: deps.config.crashes_max,
        counts: exit.code !== EXIT_TRY_AGAIN && !exit.wasKilled && !entry.stopped,
        pauseMs:
          exit.code === EXIT_TRY_AGAIN ? RETRY_DELAY_MS : exit.wasKilled ? RESTART_DELAY_MS : 0,
      },
    );
    deps.schedule();
  };

  const recordBriefing = async (claim: Omit<Claim, 'first'>): Promise<void> => {
    const { run, task } = claim;
    if (run.briefing !== null) return;
    const recalled = deps.recallMemories(run, task);
    const [briefing, memory] = await Promise.all([buildBriefing(deps, claim), recalled]);
    await store.saveBriefing(run.id, { ...briefing, memory });
  };

  const activations: LiveActivations = {
    admit,
    dismiss,
    launch,
    liveCount: () => live.size,
    async start(claim) {
      const { run, task } = claim;
      // Memory is asked, and the briefing recorded, while the process starts and connects: only its
      // first request waits for that.
      const recorded = recordBriefing(claim);
      const briefed = recorded.catch(() => undefined);
      const entry: LiveRun = { fence: run.fence, launched: undefined, stopped: false, briefed };
      live.set(run.id, entry);
      exits.set(run.id, Promise.withResolvers());
      try {
        deps.failpoint('agentd.after-claim');
        entry.launched = await launch(run, task, 'live', (exit) => {
          handleExit(run, exit).catch((error: unknown) =>
            log.error('recording the exit of a runner failed', { run: run.id, error }),
          );
        });
        deps.failpoint('agentd.after-launch');
        await admit(run, task, 'live');
        deps.failpoint('agentd.after-admit');
        if (entry.stopped) await entry.launched.kill('stopped');
        else await entry.launched.sendLine(JSON.stringify(entry.launched.sockets));
        await recorded;
      } catch (error) {
        // Not before: the requeued run would begin while this briefing is being recorded.
        await briefed;
        if (live.get(run.id) === entry) live.delete(run.id);
        await dismiss(run.id, run.fence, 'live');
        await entry.launched?.kill('it could not be prepared');
        resolveExit(run.id);
        throw error;
      }
    },
    async stop({ runId, fence }, reason) {
      const entry = live.get(runId);
      if (entry === undefined || entry.fence !== fence) return;
      entry.stopped = true;
      await dismiss(runId, fence, 'live');
      await entry.launched?.kill(reason);
    },
    release({ runId, fence }) {
      setTimeout(() => {
        const entry = live.get(runId);
        if (entry?.fence !== fence) return;
        log.warn('runner still alive after its run ended or parked', { run: runId, fence });
        activations
          .stop({ runId, fence }, 'its run has ended or parked')
          .catch((error: unknown) => log.error('stopping a runner failed', { run: runId, error }));
      }, GRACE_MS).unref();
    },
    waitUntilBriefed: async (runId) => live.get(runId)?.briefed,
    waitUntilGone: (runId) => exits.get(runId)?.promise ?? Promise.resolve(),
    async dismissStale() {
      for (const { id, fence } of await store.listStoppedRuns(deps.config.runs_live_max))
        await dismiss(id, fence, 'live');
    },
    async stopAll() {
      const count = live.size;
      for (const entry of live.values()) entry.stopped = true;
      await deps.launcher.stopAll();
      return count;
    },
  };
  return activations;
}

const toRestored = (tree: RestoredTree | undefined) =>
  tree === undefined
    ? null
    : { backup: tree.backup, taken_at: tree.takenAt, changed: tree.changed };

/** Returns the agent's tools, minus those that delegations to this task or its ancestors omit. */
export async function grantFor(store: AgentdStore, agent: string, task: TaskRow): Promise<Grant> {
  const [{ spec }, ancestry] = await Promise.all([store.agent(agent), store.ancestry(task.id)]);
  const delegations = ancestry
    .filter((row) => row.delegation !== null)
    .map((row) => JSON.parse(row.delegation!) as Delegation);
  return computeGrant({ tools: spec.tools, delegations });
}

/** The exit code of a runner that found a daemon or provider unavailable; not a crash. */
const EXIT_TRY_AGAIN = 75;
const RETRY_DELAY_MS = 5_000;
/** Gives sandboxd or the warden time to restart. */
const RESTART_DELAY_MS = 200;
/** The time an ended or parked run's process has to exit by itself. */
const GRACE_MS = 2_000;
/** For models that modeld does not list by this name. */
const CONTEXT_TOKENS_DEFAULT = 32_000;

async function buildBriefing(
  deps: ActivationDeps,
  { run, task, persona }: Omit<Claim, 'first'>,
): Promise<RecordedBriefing> {
  const [{ spec }, agents, limits, view, { models }, { tools }, grant] = await Promise.all([
    deps.store.agent(run.agent),
    deps.store.agents(),
    deps.limitsFor(task),
    deps.store.task(task.id),
    deps.modeld.listModels({}),
    deps.toold.listTools({}),
    grantFor(deps.store, run.agent, task),
  ]);
  const canDelegateTo = (name: string) =>
    name !== run.agent && (spec.team.delegateTo === null || spec.team.delegateTo.includes(name));
  const inputs: RunBriefing['inputs'] = [];
  const memories = await deps.readMemoryInputs(run, task, view.inputs);
  for (const input of view.inputs) {
    if (input.kind === 'text')
      inputs.push({ name: 'text', text: input.text ?? '', labels: view.labels });
    else if (input.kind === 'artifact_ref' && input.id !== undefined)
      inputs.push(await deps.readArtifactText(input.id.replace(/^artifact:\/\//, '')));
    else if (input.id !== undefined) inputs.push(memories.get(input.id)!);
  }
  for (const id of view.after) {
    const before = await deps.store.task(id);
    if (before.context_id !== view.context_id || before.result === null) continue;
    inputs.push({
      name: `result of ${before.assigned_to ?? 'a person'} for: ${before.goal.slice(0, 200)}`,
      text: before.result,
      labels: before.labels,
    });
  }
  const skills = deps.matchSkills(task.goal, spec.manifest.spec.skills);
  return {
    run_id: run.id as RunId,
    agent: run.agent,
    model: spec.model,
    persona,
    task: view,
    inputs,
    tools: tools.filter((tool) => grant.tools.includes(tool.name)),
    colleagues: spec.tools.includes('task.delegate')
      ? agents
          .filter(({ row }) => row.status === 'active' && canDelegateTo(row.name))
          .map(({ row, spec: other }) => ({ name: row.name, description: other.description }))
      : [],
    ...(skills.length === 0 ? {} : { skills }),
    ...(findHomeFor(spec, task) === undefined ? {} : { keeps_home: true }),
    limits: {
      max_steps: limits.max_steps ?? deps.config.limits.max_steps,
      max_tokens: limits.max_tokens ?? null,
      max_cost_microusd: limits.max_cost_microusd ?? null,
      ends_at: task.expires_ms === null ? null : toTimestamp(Number(task.expires_ms)),
      context_tokens:
        models.find((model) => model.name === spec.model)?.context_tokens ?? CONTEXT_TOKENS_DEFAULT,
    },
  };
}
