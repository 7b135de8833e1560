// Starts and ends runner processes through sandboxd, each in its own box. Polling for their ends
// also keeps them alive: when agentd stops polling, sandboxd ends its runners.
import { constants } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { retryWithBackoff } from '../../../platform/backoff.ts';
import type { Client } from '../../../platform/link.ts';
import type { Log } from '../../../platform/log.ts';
import { Fault } from '../../../wire/errors.ts';
import type { RunId, TaskId } from '../../../wire/primitives.ts';
import type { RunnerEnd, sandboxdRoutes } from '../../../wire/sandboxd.ts';

export type Sockets = { agentd: string; toold: string; modeld: string };

export type RunExit = {
  code: number | null;
  signal: string | null;
  stderrTail: string;
  /** It was killed, or sandboxd or the warden exited. */
  wasKilled: boolean;
};

export type LaunchPlan = {
  runId: string;
  fence: number;
  mode: 'live' | 'replay';
  agent: string;
  taskId: string;
  rootTaskId: string;
  /** Called once, when the process has exited. */
  onExit: (exit: RunExit) => void;
};

export type FollowPlan = Pick<LaunchPlan, 'runId' | 'fence' | 'mode' | 'onExit'>;

export type FollowedProcess = {
  /** Resolves when the process has exited. */
  kill(reason: string): Promise<void>;
};

export type RunnerProcess = FollowedProcess & {
  pid: number;
  /** Paths inside the runner's box. */
  sockets: Sockets;
  /** Sends a line to its standard input. */
  sendLine(line: string): Promise<void>;
};

export type Launcher = {
  start(plan: LaunchPlan): Promise<RunnerProcess>;
  /** Follows the process that `open` starts in some other way under sandboxd, until its end. */
  follow<T extends { epoch: string }>(
    plan: FollowPlan,
    open: () => Promise<T>,
  ): Promise<{ opened: T; process: FollowedProcess }>;
  /**
   * Ends every process, also those of a previous agentd. Resolves to their number when all have
   * exited. New ones can still be started.
   */
  stopAll(): Promise<number>;
};

type Sandboxd = Pick<
  Client<typeof sandboxdRoutes>,
  'startRunner' | 'runnerEnds' | 'tellRunner' | 'endRunner' | 'endRunners'
>;

const RETRY_DELAY_MS = 50;
const FAILURE_DELAY_MS = 1_000;
const OUTAGE_MS_MAX = 10_000;

export function makeSandboxLauncher({ sandboxd, log }: { sandboxd: Sandboxd; log: Log }): Launcher {
  const live = new Map<string, { epoch: string; onEnd: (exit: RunExit) => void }>();
  /** Ends that arrived before the response to their start. */
  const early = new Map<string, RunExit>();
  let starting = 0;
  let watching = false;
  // Kept across watches, so that no end is reported twice.
  let after = 0;
  let epoch = '';

  /** Transient errors are expected and retried soon; others are logged and retried later. */
  const delayAfterError = async (
    error: unknown,
    message: string,
    details: object,
  ): Promise<void> => {
    const expected = isBusy(error);
    if (!expected) log.error(message, { ...details, error });
    await sleep(expected ? RETRY_DELAY_MS : FAILURE_DELAY_MS);
  };

  /** Polls while any runner is live. Runners of a previous sandboxd process ended with it. */
  const watch = async (): Promise<void> => {
    while (live.size > 0) {
      try {
        const response = await sandboxd.runnerEnds({ query: { after, epoch } });
        if (response.epoch !== epoch) after = 0;
        epoch = response.epoch;
        for (const { seq, run_id, fence, mode, end } of response.ends) {
          after = Math.max(after, seq);
          const name = formatName(run_id, fence, mode);
          if (live.has(name)) live.get(name)?.onEnd(toRunExit(end));
          else if (starting > 0) early.set(name, toRunExit(end));
        }
        for (const entry of [...live.values()])
          if (entry.epoch !== epoch) entry.onEnd(SANDBOXD_LOST);
      } catch (error) {
        await delayAfterError(error, 'polling runner ends failed', {});
      }
    }
  };
  const ensureWatching = (): void => {
    if (watching) return;
    watching = true;
    void watch().finally(() => {
      watching = false;
      if (live.size > 0) ensureWatching();
    });
  };

  /** Resolves when the runner has exited. */
  const waitForEnd = (name: string, startedIn: string): Promise<RunExit> => {
    const before = early.get(name);
    if (before !== undefined) return Promise.resolve(before);
    const { promise, resolve } = Promise.withResolvers<RunExit>();
    const onEnd = (exit: RunExit): void => {
      live.delete(name);
      resolve(exit);
    };
    live.set(name, { epoch: startedIn, onEnd });
    ensureWatching();
    return promise;
  };

  /** Retries until sandboxd accepts or the runner has exited: it may outlive the failure. */
  const requestEnd = async (name: string, key: Key): Promise<void> => {
    while (live.has(name)) {
      try {
        await sandboxd.endRunner(key);
        return;
      } catch (error) {
        await delayAfterError(error, 'ending a runner failed; retrying', { runner: name });
      }
    }
  };

  const follow: Launcher['follow'] = async (plan, open) => {
    const { runId, fence, mode } = plan;
    const name = formatName(runId, fence, mode);
    starting++;
    const opened = await open().finally(() => {
      starting--;
    });
    if (epoch === '') epoch = opened.epoch;
    const exited = waitForEnd(name, opened.epoch).then((exit) => {
      if (starting === 0) early.clear();
      try {
        plan.onExit(exit);
      } catch (error) {
        log.error('handling the exit of a process failed', { run: runId, error });
      }
    });
    const process: FollowedProcess = {
      async kill(reason) {
        log.info('ending the process of a run', { run: runId, fence, reason });
        await requestEnd(name, toRunnerKey(plan));
        await exited;
      },
    };
    return { opened, process };
  };

  return {
    follow,
    async start(plan) {
      const { opened, process } = await follow(plan, () =>
        sandboxd.startRunner({
          body: {
            run_id: plan.runId as RunId,
            fence: plan.fence,
            mode: plan.mode,
            agent: plan.agent,
            task_id: plan.taskId as TaskId,
            root_task_id: plan.rootTaskId as TaskId,
          },
        }),
      );
      const { pid, sockets } = opened;
      return {
        ...process,
        pid,
        sockets,
        async sendLine(line) {
          await sandboxd.tellRunner({ ...toRunnerKey(plan), body: { line } });
        },
      };
    },
    async stopAll() {
      const backoff = {
        isTransient: isBusy,
        backoffMsMax: RETRY_DELAY_MS,
        timeoutMs: OUTAGE_MS_MAX,
      };
      return (await retryWithBackoff(() => sandboxd.endRunners({}), backoff)).ended;
    },
  };
}

const formatName = (runId: string, fence: number, mode: string): string =>
  `${runId}.${fence}.${mode}`;

const toRunnerKey = ({ runId, fence, mode }: Omit<FollowPlan, 'onExit'>): Key => ({
  params: { id: runId as RunId },
  query: { fence, mode },
});

type Key = {
  params: { id: RunId };
  query: { fence: number; mode: 'live' | 'replay' };
};

const SANDBOXD_LOST: RunExit = {
  code: null,
  signal: null,
  stderrTail: 'sandboxd exited',
  wasKilled: true,
};

/** sandboxd is restarting or overloaded. */
const isBusy = (error: unknown): boolean =>
  error instanceof Fault && ['unavailable', 'overloaded', 'deadline'].includes(error.code);

function toRunExit({ code, signal, ended_by, stderr_tail }: RunnerEnd): RunExit {
  const by = ended_by === null || ended_by === 'lost' ? '' : `ended by ${ended_by}: `;
  const wasKilled = ended_by === 'warden' || ended_by === 'halt' || ended_by === 'killed';
  const name = Object.entries(constants.signals).find(([, number]) => number === signal)?.[0];
  return { code, signal: name ?? null, stderrTail: `${by}${stderr_tail}`, wasKilled };
}
