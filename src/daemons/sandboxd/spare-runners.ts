// Keeps some runners started before a run needs them: in their box, as their agent, waiting for the
// paths of their sockets. A spare serves one run, so it has never seen another one's briefing.
import type { Log } from '../../platform/log.ts';
import type { BoxId } from '../../wire/primitives.ts';
import type { SandboxCommand } from './adapters/warden.ts';
import type { Identity } from './identities.ts';

/** `dirName` names its socket directories, which are empty. */
export type StartedRunner = {
  id: BoxId;
  dirName: string;
  identity: Identity;
  command: SandboxCommand;
};

export type SpareRunners = {
  /** Hands over the agent's spare, if it has one. */
  take(agent: string): StartedRunner | undefined;
  /** Call it for each run that starts: the agent is likely to need a runner again. */
  noteUse(agent: string): void;
  /** Resolves when all are gone. */
  endAll(): Promise<void>;
  count(): number;
};

type Spare = { runner: StartedRunner; idleTimer: NodeJS.Timeout };

/** Starting a spare must not slow down the runs that just started. */
const QUIET_MS = 200;

export function makeSpareRunners(options: {
  countMax: number;
  /** A spare that no run of its agent took for this long is ended. */
  idleMs: number;
  start: (agent: string) => Promise<StartedRunner>;
  /** Called when a spare that no run took is gone. */
  onGone: (runner: StartedRunner) => void;
  log: Log;
}): SpareRunners {
  const { countMax, idleMs, log } = options;
  const spares = new Map<string, Spare>();
  /** Agents without a spare that used a runner lately; the last one used it last. */
  const wanted = new Set<string>();
  const ending = new Set<Promise<unknown>>();
  let quietTimer: NodeJS.Timeout | undefined;
  let filling: Promise<void> | undefined;

  const take = (agent: string): StartedRunner | undefined => {
    const spare = spares.get(agent);
    if (spare === undefined) return undefined;
    clearTimeout(spare.idleTimer);
    spares.delete(agent);
    return spare.runner;
  };

  const end = (agent: string): void => {
    const runner = take(agent);
    if (runner === undefined) return;
    runner.command.kill();
    const gone = runner.command.ended.then(() => options.onGone(runner));
    ending.add(gone);
    void gone.finally(() => ending.delete(gone));
  };

  const add = (agent: string, runner: StartedRunner): void => {
    const idleTimer = setTimeout(() => end(agent), idleMs);
    idleTimer.unref();
    spares.set(agent, { runner, idleTimer });
    void runner.command.ended.then(() => {
      // Killed by a halt, or for lack of memory.
      if (spares.get(agent)?.runner !== runner) return;
      take(agent);
      options.onGone(runner);
    });
  };

  const fill = async (): Promise<void> => {
    const agents = [...wanted].reverse().slice(0, countMax);
    wanted.clear();
    for (const agent of agents) {
      if (spares.has(agent)) continue;
      // The oldest spare makes way.
      while (spares.size >= countMax) end(spares.keys().next().value!);
      try {
        add(agent, await options.start(agent));
      } catch (error) {
        // A run that needs the runner reports the cause.
        log.debug('starting a spare runner failed', { agent, error });
      }
    }
  };

  const fillWhenQuiet = (): void => {
    clearTimeout(quietTimer);
    quietTimer = setTimeout(() => {
      if (filling !== undefined) return fillWhenQuiet();
      filling = fill().finally(() => {
        filling = undefined;
      });
    }, QUIET_MS);
    quietTimer.unref();
  };

  return {
    take,
    noteUse(agent) {
      if (countMax === 0) return;
      wanted.delete(agent);
      wanted.add(agent);
      fillWhenQuiet();
    },
    async endAll() {
      clearTimeout(quietTimer);
      wanted.clear();
      await filling;
      for (const agent of [...spares.keys()]) end(agent);
      await Promise.all(ending);
    },
    count: () => spares.size,
  };
}
