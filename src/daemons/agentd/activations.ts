// One activation of a run: admit it at the daemons it may call, open its sockets, start its
// process, and take note when the process is gone. Also the briefing a runner gets, the same at
// every activation.

import { type BackoffOptions, isTransient, retryWithBackoff } from '../../platform/backoff.ts';
import { toTimestamp } from '../../platform/clock.ts';
import type { RunSockets } from '../../platform/daemon.ts';
import type { Client } from '../../platform/link.ts';
import type { Log } from '../../platform/log.ts';
import { type Grant, grantOf } from '../../policy/capabilities.ts';
import type { Delegation, RunBriefing } from '../../wire/agentd.ts';
import type { RunCaller } from '../../wire/caller.ts';
import type { modeldRoutes } from '../../wire/modeld.ts';
import type { Label, RunId, TaskId } from '../../wire/primitives.ts';
import type { tooldRoutes } from '../../wire/toold.ts';
import type { Launched, Launcher, RunExit } from './adapters/sandbox-launcher.ts';
import type { AgentdConfig } from './config.ts';
import type { TaskLimits } from './rules.ts';
import type { Activations } from './service.ts';
import type { RunRow, TaskRow } from './store/rows.ts';
import type { AgentdStore } from './store/store.ts';

export type ActivationDeps = {
  store: AgentdStore;
  config: AgentdConfig;
  log: Log;
  toold: Client<typeof tooldRoutes>;
  modeld: Client<typeof modeldRoutes>;
  runSockets: RunSockets;
  launcher: Launcher;
  limitsOf: (task: TaskRow) => Promise<TaskLimits>;
  readArtifactText: (id: string) => Promise<{ name: string; text: string; labels: Label[] }>;
  schedule: () => void;
  failpoint: (name: string) => void;
};

/** What is recorded of a briefing; the socket adds the rest. */
export type RecordedBriefing = Omit<RunBriefing, 'fence' | 'mode' | 'beat_ms'>;

export type LiveActivations = Activations & {
  /** Admits a run and opens its sockets; used for live runs and for replays. */
  admit(run: RunRow, task: TaskRow, mode: 'live' | 'replay'): Promise<void>;
  dismiss(runId: string, fence: number, mode: 'live' | 'replay'): Promise<void>;
  /** Starts the process; it begins when it is told its sockets. */
  launch(
    run: RunRow,
    task: TaskRow,
    mode: 'live' | 'replay',
    onExit: (exit: RunExit) => void,
  ): Promise<Launched>;
  /** Its run has ended or parked: the process must go, by itself or not. */
  release(run: { runId: string; fence: number }): void;
  /** Resolves when no activation of the run holds its process or its sockets any more. */
  gone(runId: string): Promise<void>;
  /** Ends every process; how many there were. */
  stopAll(): Promise<number>;
  /** At start, when none is live: the last of an earlier life may not have been dismissed. */
  dismissLeft(): Promise<void>;
};

const AGAIN_MS_MAX = 5_000;
const AWAY_MS_MAX = 600_000;

const RETRY: BackoffOptions = {
  isTransient: isTransient,
  backoffMsMax: AGAIN_MS_MAX,
  timeoutMs: AWAY_MS_MAX,
  inBackground: true,
};

export function makeActivations(parts: ActivationDeps): LiveActivations {
  const { store, log } = parts;
  const live = new Map<
    string,
    { fence: number; launched: Launched | undefined; stopped: boolean }
  >();
  const leaving = new Map<string, PromiseWithResolvers<void>>();
  const leave = (runId: string): void => {
    leaving.get(runId)?.resolve();
    leaving.delete(runId);
  };

  const admit = async (run: RunRow, task: TaskRow, mode: 'live' | 'replay'): Promise<void> => {
    const [{ spec }, grant, limits] = await Promise.all([
      store.agent(run.agent),
      grantFor(store, run.agent, task),
      parts.limitsOf(task),
    ]);
    const id = run.id as RunId;
    const labels = JSON.parse(task.labels) as Label[];
    const common = {
      fence: run.fence,
      mode,
      agent: run.agent,
      task_id: task.id as TaskId,
      root_task_id: task.root_task_id as TaskId,
      labels,
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
    const maxSteps = limits.max_steps ?? parts.config.limits.max_steps;
    await Promise.all([
      parts.toold.admitRun({
        params: { id },
        body: {
          ...common,
          tools: grant.tools,
          grant_expires_at: grant.expiresAt,
          workspace: task.workspace,
          max_calls: maxSteps * 16,
        },
      }),
      parts.modeld.admitRun({
        params: { id },
        body: {
          ...common,
          model: spec.model,
          max_steps: maxSteps,
          max_tokens: limits.max_tokens ?? null,
          max_cost_microusd: limits.max_cost_microusd ?? null,
        },
      }),
      parts.runSockets.open(caller),
    ]);
  };

  const dismiss = async (runId: string, fence: number, mode: 'live' | 'replay'): Promise<void> => {
    const asked = { params: { id: runId as RunId }, query: { fence } };
    const orSaid = (at: string, error: unknown) =>
      log.warn('a run could not be dismissed', { run: runId, fence, at, error });
    // One that is away must keep neither the others nor the end of the process waiting. It comes
    // back with every run that it was not told to leave, so it is told then.
    const orLater = (at: string, work: () => Promise<unknown>) =>
      work().catch((error: unknown) => {
        if (!isTransient(error)) return orSaid(at, error);
        void retryWithBackoff(work, RETRY).catch((last: unknown) => orSaid(at, last));
      });
    await Promise.all([
      orLater('toold', () => parts.toold.dismissRun(asked)),
      orLater('modeld', () => parts.modeld.dismissRun(asked)),
      orLater('agentd', () => parts.runSockets.close(runId, fence, mode)),
    ]);
  };

  const launch: LiveActivations['launch'] = (run, task, mode, onExit) =>
    parts.launcher.start({
      runId: run.id,
      fence: run.fence,
      mode,
      agent: run.agent,
      taskId: task.id,
      rootTaskId: task.root_task_id,
      onExit,
    });

  const exited = async (run: RunRow, exit: RunExit): Promise<void> => {
    const entry = live.get(run.id);
    // One that could not be made ready is given back by whoever tried.
    if (entry?.fence !== run.fence) return;
    live.delete(run.id);
    await dismiss(run.id, run.fence, 'live');
    leave(run.id);
    if (exit.code !== 0) log.info('a runner ended', { run: run.id, fence: run.fence, ...exit });
    // Nothing happens here when the run has parked or ended: then it is not held by this activation
    // any more.
    const how = exit.signal === null ? `exit ${exit.code}` : `killed by ${exit.signal}`;
    await store.activationEnded(
      { runId: run.id, fence: run.fence },
      {
        detail: `${how} ${exit.stderrTail.slice(-300)}`.trim(),
        crashesMax: parts.config.crashes_max,
        counts: exit.code !== TRY_AGAIN && !exit.wasEnded && !entry.stopped,
        pauseMs: exit.code === TRY_AGAIN ? PAUSE_MS : exit.wasEnded ? ENDED_PAUSE_MS : 0,
      },
    );
    parts.schedule();
  };

  const prepareBriefing = async (run: RunRow, task: TaskRow): Promise<void> => {
    if (run.briefing === null) await store.saveBriefing(run.id, await brief(parts, run, task));
  };

  const activations: LiveActivations = {
    admit,
    dismiss,
    launch,
    liveCount: () => live.size,
    async start({ run, task }) {
      const entry = {
        fence: run.fence,
        launched: undefined as Launched | undefined,
        stopped: false,
      };
      live.set(run.id, entry);
      leaving.set(run.id, Promise.withResolvers());
      try {
        parts.failpoint('agentd.after-claim');
        // The process takes longest: it starts while everything else is made ready for it.
        entry.launched = await launch(run, task, 'live', (exit) => {
          exited(run, exit).catch((error: unknown) =>
            log.error('the end of a runner could not be recorded', { run: run.id, error }),
          );
        });
        parts.failpoint('agentd.after-launch');
        await Promise.all([admit(run, task, 'live'), prepareBriefing(run, task)]);
        parts.failpoint('agentd.after-admit');
        if (entry.stopped) await entry.launched.kill('stopped');
        else await entry.launched.tell(JSON.stringify(entry.launched.sockets));
      } catch (error) {
        if (live.get(run.id) === entry) live.delete(run.id);
        await dismiss(run.id, run.fence, 'live');
        await entry.launched?.kill('it could not be made ready');
        leave(run.id);
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
        log.warn('a runner went on after its run had ended or parked', { run: runId, fence });
        activations
          .stop({ runId, fence }, 'its run has ended or parked')
          .catch((error: unknown) =>
            log.error('a runner could not be stopped', { run: runId, error }),
          );
      }, GRACE_MS).unref();
    },
    gone: (runId) => leaving.get(runId)?.promise ?? Promise.resolve(),
    async dismissLeft() {
      for (const { id, fence } of await store.lastAtRest(parts.config.runs_live_max))
        await dismiss(id, fence, 'live');
    },
    async stopAll() {
      const count = live.size;
      for (const entry of live.values()) entry.stopped = true;
      await parts.launcher.stopAll();
      return count;
    },
  };
  return activations;
}

/** What a run of this agent at this task may do: its manifest less every delegation above. */
export async function grantFor(store: AgentdStore, agent: string, task: TaskRow): Promise<Grant> {
  const [{ spec }, ancestry] = await Promise.all([store.agent(agent), store.ancestry(task.id)]);
  const delegations = ancestry
    .filter((row) => row.delegation !== null)
    .map((row) => JSON.parse(row.delegation!) as Delegation);
  return grantOf({ tools: spec.tools, delegations });
}

/** A runner that ends so found a daemon or a provider away; that is no fault of its run. */
const TRY_AGAIN = 75;
const PAUSE_MS = 5_000;
/** What held it has gone and is started again. */
const ENDED_PAUSE_MS = 200;
/** What an ended or parked run gets to end its process by itself. */
const GRACE_MS = 2_000;
/** Of a model that modeld does not list by this name. */
const CONTEXT_TOKENS_DEFAULT = 32_000;

/** Everything that is the same for every activation of the run; the socket adds fence and mode. */
async function brief(parts: ActivationDeps, run: RunRow, task: TaskRow): Promise<RecordedBriefing> {
  const [{ spec }, agents, limits, view, { models }, { tools }, grant] = await Promise.all([
    parts.store.agent(run.agent),
    parts.store.agents(),
    parts.limitsOf(task),
    parts.store.task(task.id),
    parts.modeld.listModels({}),
    parts.toold.listTools({}),
    grantFor(parts.store, run.agent, task),
  ]);
  const mayAsk = (name: string) =>
    name !== run.agent && (spec.team.delegateTo === null || spec.team.delegateTo.includes(name));
  const inputs: RunBriefing['inputs'] = [];
  for (const input of view.inputs) {
    if (input.kind === 'text')
      inputs.push({ name: 'text', text: input.text ?? '', labels: view.labels });
    else if (input.kind === 'artifact_ref' && input.id !== undefined)
      inputs.push(await parts.readArtifactText(input.id.replace(/^artifact:\/\//, '')));
  }
  return {
    run_id: run.id as RunId,
    agent: run.agent,
    model: spec.model,
    persona: spec.persona,
    task: view,
    inputs,
    tools: tools.filter((tool) => grant.tools.includes(tool.name)),
    colleagues: spec.tools.includes('task.delegate')
      ? agents
          .filter(({ row }) => row.status === 'active' && mayAsk(row.name))
          .map(({ row, spec: other }) => ({ name: row.name, description: other.description }))
      : [],
    limits: {
      max_steps: limits.max_steps ?? parts.config.limits.max_steps,
      max_tokens: limits.max_tokens ?? null,
      max_cost_microusd: limits.max_cost_microusd ?? null,
      ends_at: task.expires_ms === null ? null : toTimestamp(Number(task.expires_ms)),
      context_tokens:
        models.find((model) => model.name === spec.model)?.context_tokens ?? CONTEXT_TOKENS_DEFAULT,
    },
  };
}
