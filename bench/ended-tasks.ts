// Measures lists and single tasks with a short and a long history: they must not get slower as
// history grows. Requests use the operator sockets, as agentctl's do.
import { rmSync } from 'node:fs';
import { startRuntime, type TestRuntime } from '../test/support/runtime.ts';
import type { Benchmark, Figure } from './figure.ts';
import { type Filled, fillState } from './fill.ts';
import { compare } from './rounds.ts';

const FEW = 1_000;
const MANY = 100_000;
const TURNS = { rounds: 5, turnsPerRound: 80, share: 0.95 };
const WARM_UP = 100;

type Site = { runtime: TestRuntime; taskIds: string[] };
type TaskQuery = (site: Site, id: string) => Promise<unknown>;

/** The requests of the commands with these names. */
const LOOKS: readonly { name: string; look: TaskQuery }[] = [
  {
    name: 'task list',
    look: ({ runtime: { agentd } }) => agentd.listTasks({ query: { limit: 50 } }),
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
      if (page.events.length !== 7) throw new Error(`${id} has ${page.events.length} events`);
    },
  },
];

function timed(site: Site, look: TaskQuery): () => Promise<number> {
  let turn = 0;
  return async () => {
    // Steps through the whole history; 7,919 is prime, so every task is used.
    const id = site.taskIds[(turn++ * 7_919) % site.taskIds.length]!;
    const began = performance.now();
    await look(site, id);
    return performance.now() - began;
  };
}

async function measure(few: Site, many: Site): Promise<Figure[]> {
  const figures: Figure[] = [];
  for (const { name, look } of LOOKS) {
    const [own, peer] = [timed(many, look), timed(few, look)];
    for (let i = 0; i < WARM_UP; i++) {
      await own();
      await peer();
    }
    const seen = await compare(TURNS, own, peer);
    figures.push({
      name: `${name} at 100,000 ended tasks, p95`,
      unit: 'ms',
      ...seen,
      peer: { name: 'at 1,000', ...seen.peer },
      bar: { of: 'ratio', max: 2 },
    });
  }
  return figures;
}

async function run(): Promise<Figure[]> {
  const filled: Filled[] = [];
  const sites: Site[] = [];
  try {
    for (const count of [FEW, MANY]) {
      const began = performance.now();
      const { base, taskIds } = await fillState(count);
      filled.push({ base, taskIds });
      const filledMs = performance.now();
      sites.push({ runtime: await startRuntime({ base }), taskIds });
      if (process.env.BENCH_VERBOSE === '1')
        console.log(
          `filled ${count} in ${filledMs - began} ms, up in ${performance.now() - filledMs} ms`,
        );
    }
    return await measure(sites[0]!, sites[1]!);
  } finally {
    for (const { runtime } of sites) await runtime.stop();
    for (const { base } of filled) rmSync(base, { recursive: true, force: true });
  }
}

export const endedTasks: Benchmark = {
  name: 'ended-tasks',
  about: 'listing and showing tasks with 100,000 ended, compared with 1,000',
  run,
};
