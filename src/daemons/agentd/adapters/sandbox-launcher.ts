// Starts and ends the processes of runs, each in its own sandbox, by asking sandboxd. Waiting for
// the end of one is also what keeps it alive: when agentd is gone, sandboxd ends its runners.
import { constants } from 'node:os';
import { setTimeout as pause } from 'node:timers/promises';
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
  /** Not by itself: it was killed, or what held it (sandboxd, the warden) went away. */
  wasEnded: boolean;
};

export type LaunchPlan = {
  runId: string;
  fence: number;
  mode: 'live' | 'replay';
  agent: string;
  taskId: string;
  rootTaskId: string;
  /** Called once, when the process is gone. */
  onExit: (exit: RunExit) => void;
};

export type Launched = {
  pid: number;
  /** Where it finds its daemons, as it sees them. */
  sockets: Sockets;
  /** Hands it a line; what it was not given at its start it learns so. */
  tell(line: string): Promise<void>;
  /** Ends it; returns when it is gone. */
  kill(reason: string): Promise<void>;
};

export type Launcher = {
  start(plan: LaunchPlan): Promise<Launched>;
  /**
   * Ends every process and returns when all are gone, those of an earlier agentd too. Starting goes
   * on to be possible.
   */
  stopAll(): Promise<number>;
};

type Sandboxd = Pick<
  Client<typeof sandboxdRoutes>,
  'startRunner' | 'runnerEnds' | 'tellRunner' | 'endRunner' | 'endRunners'
>;

const AGAIN_MS = 50;
const FAILED_AGAIN_MS = 1_000;
const AWAY_MS_MAX = 10_000;

export function makeSandboxLauncher({ sandboxd, log }: { sandboxd: Sandboxd; log: Log }): Launcher {
  const live = new Map<string, { epoch: string; over: (exit: RunExit) => void }>();
  /** Ends of those whose start has not been answered yet. */
  const early = new Map<string, RunExit>();
  let starting = 0;
  let watching = false;
  // Kept from one watch to the next: an end that was told is not told again.
  let after = 0;
  let epoch = '';

  /** Being away is usual and soon over; anything else is said, and is not asked again at once. */
  const pauseAfter = async (error: unknown, what: string, about: object): Promise<void> => {
    const known = isBusy(error);
    if (!known) log.error(what, { ...about, error });
    await pause(known ? AGAIN_MS : FAILED_AGAIN_MS);
  };

  /** Asks for as long as there are any. One of another life of sandboxd went with that life. */
  const watch = async (): Promise<void> => {
    while (live.size > 0) {
      try {
        const told = await sandboxd.runnerEnds({ query: { after, epoch } });
        if (told.epoch !== epoch) after = 0;
        epoch = told.epoch;
        for (const { seq, run_id, fence, mode, end } of told.ends) {
          after = Math.max(after, seq);
          const name = nameOf(run_id, fence, mode);
          if (live.has(name)) live.get(name)?.over(exitOf(end));
          else if (starting > 0) early.set(name, exitOf(end));
        }
        for (const entry of [...live.values()]) if (entry.epoch !== epoch) entry.over(GONE);
      } catch (error) {
        await pauseAfter(error, 'sandboxd cannot be asked for its runners', {});
      }
    }
  };
  const keepWatching = (): void => {
    if (watching) return;
    watching = true;
    void watch().finally(() => {
      watching = false;
      if (live.size > 0) keepWatching();
    });
  };

  /** Resolves when it is gone; from then on its name is free. */
  const ended = (name: string, startedIn: string): Promise<RunExit> => {
    const before = early.get(name);
    if (before !== undefined) return Promise.resolve(before);
    const { promise, resolve } = Promise.withResolvers<RunExit>();
    const over = (exit: RunExit): void => {
      live.delete(name);
      resolve(exit);
    };
    live.set(name, { epoch: startedIn, over });
    keepWatching();
    return promise;
  };

  /** Asks until it is asked for or gone: a sandboxd that fails now may still hold it. */
  const askForEnd = async (name: string, key: Key): Promise<void> => {
    while (live.has(name)) {
      try {
        await sandboxd.endRunner(key);
        return;
      } catch (error) {
        await pauseAfter(error, 'a runner could not be ended; asking again', { runner: name });
      }
    }
  };

  return {
    async start(plan) {
      const { runId, fence, mode } = plan;
      const name = nameOf(runId, fence, mode);
      starting++;
      const started = await sandboxd
        .startRunner({
          body: {
            run_id: runId as RunId,
            fence,
            mode,
            agent: plan.agent,
            task_id: plan.taskId as TaskId,
            root_task_id: plan.rootTaskId as TaskId,
          },
        })
        .finally(() => {
          starting--;
        });
      const { pid, sockets } = started;
      if (epoch === '') epoch = started.epoch;
      const key: Key = { params: { id: runId as RunId }, query: { fence, mode } };
      const gone = ended(name, started.epoch).then((exit) => {
        if (starting === 0) early.clear();
        try {
          plan.onExit(exit);
        } catch (error) {
          log.error('the end of a runner could not be handled', { run: runId, error });
        }
      });
      return {
        pid,
        sockets,
        async tell(line) {
          await sandboxd.tellRunner({ ...key, body: { line } });
        },
        async kill(reason) {
          log.info('ending a runner', { run: runId, fence, pid, reason });
          await askForEnd(name, key);
          await gone;
        },
      };
    },
    async stopAll() {
      const patience = { isTransient: isBusy, backoffMsMax: AGAIN_MS, timeoutMs: AWAY_MS_MAX };
      return (await retryWithBackoff(() => sandboxd.endRunners({}), patience)).ended;
    },
  };
}

const nameOf = (runId: string, fence: number, mode: string): string => `${runId}.${fence}.${mode}`;

type Key = {
  params: { id: RunId };
  query: { fence: number; mode: 'live' | 'replay' };
};

const GONE: RunExit = {
  code: null,
  signal: null,
  stderrTail: 'sandboxd went away',
  wasEnded: true,
};

/** sandboxd exists, but does not answer now: it is restarting or has too much to do. */
const isBusy = (error: unknown): boolean =>
  error instanceof Fault && ['unavailable', 'overloaded', 'deadline'].includes(error.code);

function exitOf({ code, signal, ended_by, stderr_tail }: RunnerEnd): RunExit {
  const by = ended_by === null || ended_by === 'lost' ? '' : `ended by ${ended_by}: `;
  const wasEnded = ended_by === 'warden' || ended_by === 'halt' || ended_by === 'killed';
  const name = Object.entries(constants.signals).find(([, number]) => number === signal)?.[0];
  return { code, signal: name ?? null, stderrTail: `${by}${stderr_tail}`, wasEnded };
}
