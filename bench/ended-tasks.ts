// Measures a runtime with a long history against one with a short or none: listing, showing,
// creating and completing tasks, starting, status and doctor must not get slower as history grows.
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT, type TestRuntime, taskEnded } from '../test/support/runtime.ts';
import { timeProcess } from './bare-start.ts';
import { type BenchUpstream, startUpstream } from './children.ts';
import type { Benchmark, Figure } from './figure.ts';
import { fillState } from './fill/fill.ts';
import { compare, type Measure, type RoundOrder } from './rounds.ts';
import { startBenchRuntime } from './world.ts';

const COUNTS = { none: 0, few: 1_000, histories: [10_000, 100_000] };
const LOOKS_ORDER = { rounds: 5, turnsPerRound: 80, share: 0.95 };
const WORK_ORDER = { rounds: 5, turnsPerRound: 6 };
const COMMANDS_ORDER = { rounds: 5, turnsPerRound: 4 };
const LOOKS_WARM_UP = 100;
/** Tasks that are created at once. */
const TASKS_AT_ONCE = 8;

type FilledState = { count: number; base: string; taskIds: string[] };
export type Site = FilledState & { runtime: TestRuntime };
/** Two short histories, and the long ones that are compared with them. */
export type Sites = { none: Site; few: Site; histories: readonly Site[] };
type TaskQuery = (site: Site, id: string) => Promise<unknown>;

/** The requests of the commands with these names. */
const LOOKS: readonly { name: string; look: TaskQuery }[] = [
  {
    name: 'task list',
    look: ({ runtime: { agentd } }) => agentd.listTasks({ query: { limit: 50 } }),
  },
  {
    name: 'task list of an agent with a rare status',
    look: ({ runtime: { agentd } }) =>
      agentd.listTasks({ query: { limit: 50, agent: 'planner', status: 'failed' } }),
  },
  {
    name: 'task show',
    look: ({ runtime: { agentd } }, id) => {
      const query = { task_id: id as never, limit: 100 };
      return Promise.all([
        agentd.getTask({ params: { id: id as never } }),
        agentd.listRuns({ query }),
        agentd.listWaits({ query }),
      ]);
    },
  },
  {
    name: 'audit task',
    look: async ({ runtime: { audit } }, id) => {
      const page = await audit.task({ params: { task_id: id }, query: { limit: 1_000 } });
      if (page.events.length < 10) throw new Error(`${id} has ${page.events.length} events`);
    },
  },
  {
    name: 'model usage',
    look: ({ runtime: { modeld } }) => modeld.usage({ query: {} }),
  },
];

function timedLook(site: Site, look: TaskQuery): Measure {
  let turn = 0;
  return async () => {
    // Steps through the whole history; 7,919 is prime, so every task is used.
    const id = site.taskIds[(turn++ * 7_919) % site.taskIds.length]!;
    const began = performance.now();
    await look(site, id);
    return performance.now() - began;
  };
}

let goals = 1_000_000;

export const nextGoal = (): string => `goal-number-${goals++}`;

/** Creates some tasks at once and waits until all are completed. */
function timedWork({ runtime }: Site): Measure {
  return async () => {
    const began = performance.now();
    const made = await Promise.all(
      Array.from({ length: TASKS_AT_ONCE }, () =>
        runtime.agentd.createTask({ body: { goal: nextGoal() } }),
      ),
    );
    for (const { task } of made) {
      const { status } = await taskEnded(runtime, task.id);
      if (status !== 'completed') throw new Error(`${task.id} is ${status}`);
    }
    return performance.now() - began;
  };
}

export const runAgentctl = (
  { runtime: { env, stateDir } }: Site,
  command: string[],
): Promise<number> =>
  timeProcess(process.execPath, [join(ROOT, 'build', 'agentctl.mjs'), ...command], {
    ...env,
    AGENTD_STATE: stateDir,
  });

const timedCommand =
  (site: Site, command: string): Measure =>
  () =>
    runAgentctl(site, [command]);

/** The time of `up` alone; the runtime is running before and after. */
function timedUp(site: Site): Measure {
  return async () => {
    await runAgentctl(site, ['down']);
    return runAgentctl(site, ['up']);
  };
}

type Title = { name: string; max: number; warmUp: number; order: RoundOrder };

export async function measure(
  { name, max, warmUp, order }: Title,
  own: [Site, Measure],
  peer: [Site, Measure],
): Promise<Figure> {
  for (let i = 0; i < warmUp; i++) for (const [, one] of [own, peer]) await one();
  const seen = await compare(order, own[1], peer[1]);
  const [many, few] = [own[0], peer[0]].map(({ count }) => count.toLocaleString('en-US'));
  return {
    name: `${name} at ${many} ended tasks`,
    unit: 'ms',
    ...seen,
    peer: { name: `at ${few}`, ...seen.peer },
    bar: { of: 'ratio', max },
  };
}

export async function measureHistories({ none, few, histories }: Sites): Promise<Figure[]> {
  const figures: Figure[] = [];
  const longest = histories.at(-1)!;
  const order = { warmUp: LOOKS_WARM_UP, order: LOOKS_ORDER, max: 2 };
  for (const { name, look } of LOOKS) {
    const title = { ...order, name: `${name}, p95,` };
    const [own, peer] = [timedLook(longest, look), timedLook(few, look)];
    figures.push(await measure(title, [longest, own], [few, peer]));
  }
  const work = {
    name: `${TASKS_AT_ONCE} tasks created and completed, p50,`,
    warmUp: 3,
    order: WORK_ORDER,
    max: 1.2,
  };
  for (const site of histories)
    figures.push(await measure(work, [site, timedWork(site)], [none, timedWork(none)]));
  // From here on agentctl starts and stops the runtimes. It also records what was verified, which
  // doctor continues from.
  for (const site of [none, ...histories]) {
    await site.runtime.stop();
    await runAgentctl(site, ['up']);
    await runAgentctl(site, ['audit', 'verify']);
  }
  const commands = { warmUp: 1, order: COMMANDS_ORDER, max: 1.5 };
  const timers: [string, (site: Site) => Measure][] = [
    ['agentctl status', (site) => timedCommand(site, 'status')],
    ['agentctl doctor', (site) => timedCommand(site, 'doctor')],
    ['agentctl up', timedUp],
  ];
  for (const [name, timer] of timers)
    for (const site of histories) {
      const title = { ...commands, name: `${name}, p50,` };
      figures.push(await measure(title, [site, timer(site)], [none, timer(none)]));
    }
  return figures;
}

async function openSite(count: number, upstream: BenchUpstream): Promise<Site> {
  const filled = await fillState(count);
  const { base } = filled;
  return { ...filled, count, runtime: await startBenchRuntime(upstream.port, { base }) };
}

/** Opens runtimes with histories of these lengths, and removes them afterwards. */
export async function withSites(
  counts: { none: number; few: number; histories: readonly number[] },
  measureSites: (sites: Sites) => Promise<Figure[]>,
): Promise<Figure[]> {
  const upstream = await startUpstream();
  const opened: Site[] = [];
  try {
    for (const count of [counts.none, counts.few, ...counts.histories])
      opened.push(await openSite(count, upstream));
    const [none, few, ...histories] = opened;
    return await measureSites({ none: none!, few: few!, histories });
  } finally {
    for (const site of opened) {
      await site.runtime.stop();
      await runAgentctl(site, ['down']).catch(() => undefined);
      rmSync(site.base, { recursive: true, force: true });
    }
    await upstream.stop();
  }
}

export const endedTasks: Benchmark = {
  name: 'ended-tasks',
  about: 'working with 10,000 and 100,000 ended tasks, compared with none or 1,000',
  run: () => withSites(COUNTS, measureHistories),
};
