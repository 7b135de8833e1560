// Runs whose process is a program of a person: creates the task and claims its run, has toold open
// the box, follows the program until its end, and renews the lease meanwhile.
import { sha256Hex } from '../../platform/json.ts';
import type { Client } from '../../platform/link.ts';
import type { Log } from '../../platform/log.ts';
import { BOX_AGENT, type CreateProgram, type TaskView } from '../../wire/agentd.ts';
import { fault } from '../../wire/errors.ts';
import type { BoxId, RunId } from '../../wire/primitives.ts';
import type { tooldRoutes } from '../../wire/toold.ts';
import type { LiveActivations } from './activations.ts';
import type { FollowedProcess, Launcher, RunExit } from './adapters/sandbox-launcher.ts';
import { BOX_MANIFEST } from './box-manifest.ts';
import type { AgentdConfig } from './config.ts';
import type { Agents } from './manifests/agents.ts';
import { readHosts } from './program-hosts.ts';
import { effectiveLimits, type TaskLimits } from './rules.ts';
import type { Activations, AgentdService } from './service.ts';
import type { Claim } from './store/runs.ts';
import type { AgentdStore } from './store/store.ts';

export type Programs = Pick<Activations, 'stop' | 'liveCount'> & {
  /** Resolves when the program waits for its client. */
  create(input: CreateProgram, by: string): Promise<CreatedProgram>;
};

export type CreatedProgram = { task: TaskView; run_id: RunId; box_id: BoxId; token: string };

type Deps = {
  store: AgentdStore;
  config: AgentdConfig;
  log: Log;
  toold: Pick<Client<typeof tooldRoutes>, 'openProgram'>;
  activations: Pick<LiveActivations, 'admit' | 'dismiss' | 'liveCount'>;
  launcher: Pick<Launcher, 'follow'>;
  service: Pick<AgentdService, 'prepareTask' | 'schedule'>;
  agents: Pick<Agents, 'putAgent'>;
  failpoint: (name: string) => void;
};

type LiveProgram = { fence: number; process: FollowedProcess | undefined; isStopped: boolean };

const GOAL_CHARS_MAX = 4_096;

export function makePrograms(deps: Deps): Programs {
  const { store, config, log } = deps;
  const live = new Map<string, LiveProgram>();
  const leaseMs = config.lease_s * 1_000;

  /** The agent for programs exists as a manifest from its first use, which a person may change. */
  const declareBoxAgent = async (by: string): Promise<void> => {
    if ((await store.agents()).some(({ row }) => row.name === BOX_AGENT)) return;
    await deps.agents.putAgent(BOX_AGENT, BOX_MANIFEST, { createOnly: false, by });
  };

  const handleExit = async ({ run }: Claim, exit: RunExit): Promise<void> => {
    const entry = live.get(run.id);
    if (entry?.fence !== run.fence) return;
    live.delete(run.id);
    const { code, signal } = exit;
    const isOwn = !exit.wasKilled && (code !== null || signal !== null);
    const reason = exit.stderrTail === '' ? 'its box was closed' : exit.stderrTail;
    await store.endProgram(
      { runId: run.id, fence: run.fence },
      { code, signal, ...(isOwn ? {} : { reason: reason.slice(0, 300) }) },
    );
    await deps.activations.dismiss(run.id, run.fence, 'live');
    deps.service.schedule();
  };

  const renewLease = (key: { runId: string; fence: number }): void => {
    const timer = setInterval(() => {
      if (live.get(key.runId)?.fence !== key.fence) return clearInterval(timer);
      store
        .renewLease(key, leaseMs)
        .catch((error: unknown) =>
          log.warn('renewing the lease of a program failed', { run: key.runId, error }),
        );
    }, leaseMs / 4);
    timer.unref();
  };

  const start = async (claim: Claim, command: CreateProgram['command']) => {
    const { run, task } = claim;
    const key = { runId: run.id, fence: run.fence };
    const entry: LiveProgram = { fence: run.fence, process: undefined, isStopped: false };
    live.set(run.id, entry);
    try {
      deps.failpoint('agentd.after-program-claim');
      await deps.activations.admit(run, task, 'live');
      const params = { id: run.id as RunId };
      const onExit = (exit: RunExit): void =>
        void handleExit(claim, exit).catch((error: unknown) =>
          log.error('recording the end of a program failed', { run: run.id, error }),
        );
      const { opened, process } = await deps.launcher.follow({ ...key, mode: 'live', onExit }, () =>
        deps.toold.openProgram({ params, body: { fence: run.fence, command } }),
      );
      entry.process = process;
      if (entry.isStopped) void process.kill('it was stopped while it started');
      renewLease(key);
      return opened;
    } catch (error) {
      live.delete(run.id);
      const reason = `could not start: ${(error as Error).message}`.slice(0, 300);
      await store.endProgram(key, { code: null, signal: null, reason });
      await deps.activations.dismiss(run.id, run.fence, 'live');
      throw error;
    }
  };

  return {
    liveCount: () => live.size,
    async create({ command, model, name, allow_hosts: hosts, ...input }, by) {
      for (const host of hosts ?? []) readHosts(host);
      const agent = input.agent ?? BOX_AGENT;
      if (input.agent === undefined) await declareBoxAgent(by);
      if (deps.activations.liveCount() + live.size >= config.runs_live_max)
        throw fault(
          'overloaded',
          `${config.runs_live_max} runs are live, the maximum of this site`,
          {
            hint: 'Try again when one has ended, or raise agentd.runs_live_max.',
          },
        );
      const goal = formatCommand(command.argv);
      const task = await deps.service.prepareTask({ ...input, agent, goal }, { principal: by });
      const claim = await store.createProgram(
        {
          ...task,
          program: {
            argv: command.argv,
            ...(model === undefined ? {} : { model }),
            ...(hosts === undefined ? {} : { hosts }),
            ...(name === undefined ? {} : { name }),
            ...nameHome(agent, name ?? task.workspace ?? undefined),
          },
        },
        {
          leaseMs,
          maxTimeS: (row, limits) =>
            effectiveLimits(JSON.parse(row.limits) as TaskLimits, limits, config.limits).max_time_s,
        },
      );
      const { box_id, token } = await start(claim, command);
      const view = await store.viewTask(claim.task);
      return { task: view, run_id: claim.run.id as RunId, box_id, token };
    },
    async stop({ runId, fence }, reason) {
      const entry = live.get(runId);
      if (entry?.fence !== fence) return;
      entry.isStopped = true;
      await deps.activations.dismiss(runId, fence, 'live');
      await entry.process?.kill(reason);
    },
  };
}

/** Sessions continue in the home; without a name or a directory there is nothing to continue. */
function nameHome(agent: string, of: string | undefined): { home?: string } {
  if (of === undefined) return {};
  return { home: `home_${sha256Hex(JSON.stringify([agent, of])).slice(0, 24)}` };
}

/** As a person would type it. */
function formatCommand(argv: readonly string[]): string {
  const quote = (word: string): string =>
    /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
  return argv.map(quote).join(' ').slice(0, GOAL_CHARS_MAX);
}
