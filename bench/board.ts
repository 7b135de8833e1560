// Measures a board of 10,000 tasks: listing it, and how soon a dependent starts when what it waited
// for is done.
import type { TaskView } from '../src/wire/agentd.ts';
import type { AgentName, TaskId } from '../src/wire/primitives.ts';
import { eventually, type TestRuntime, taskEnded } from '../test/support/runtime.ts';
import { type BenchUpstream, startUpstream } from './children.ts';
import { type Benchmark, type Figure, quantile, seeRounds } from './figure.ts';
import { startBenchRuntime } from './world.ts';

const TASKS = 10_000;
const AT_ONCE = 100;
const AGENTS = ['coder', 'researcher'] as const;
const ROUNDS = 5;
const LISTS_PER_ROUND = 60;
const CHAINS_PER_ROUND = 10;
/** Each agent has a spare runner again after this. */
const REST_MS = 450;

const byHand = (runtime: TestRuntime, id: TaskId) =>
  runtime.agentd.updateTask({ params: { id }, body: { status: 'completed', result: 'x' } });

/** Waits for a person, who never says whose it is: nothing after it starts. */
async function createBlocker({ agentd }: TestRuntime): Promise<TaskId> {
  const { task } = await agentd.createTask({ body: { goal: 'Xyzzy', needs: [] } });
  if (task.status !== 'submitted') throw new Error(`${task.id} is ${task.status}`);
  return task.id;
}

/** Half of the tasks are blocked and half are ready, for agents that are paused. */
async function fillBoard(runtime: TestRuntime): Promise<void> {
  const { agentd } = runtime;
  const [never, soon] = [await createBlocker(runtime), await createBlocker(runtime)];
  for (let made = 0; made < TASKS; made += AT_ONCE)
    await Promise.all(
      Array.from({ length: AT_ONCE }, (_, i) => {
        const n = made + i;
        const goal = `Look at part ${n} of the ledger, and say what does not fit`;
        const after = [n % 2 === 0 ? never : soon];
        const agent = AGENTS[n % AGENTS.length]!;
        return agentd.createTask({ body: { goal, agent, after, priority: n % 7 } });
      }),
    );
  for (const name of AGENTS) await agentd.pauseAgent({ params: { name: name as AgentName } });
  await byHand(runtime, soon);
  await eventually('half of the tasks to be ready', async () => {
    const { board } = await agentd.getBoard({ query: { limit: 1, hours: 1 } });
    const counts = board.columns.map(({ name, count }) => `${name} ${count}`).join();
    return counts.includes(`blocked ${TASKS / 2},ready ${TASKS / 2},`) ? true : undefined;
  });
}

type Look = { name: string; isSeenOnly?: true; look(runtime: TestRuntime): Promise<unknown> };
const LOOKS: readonly Look[] = [
  {
    name: 'the board',
    look: ({ agentd }) => agentd.getBoard({ query: { limit: 20, hours: 24 } }),
  },
  { name: 'task list', look: ({ agentd }) => agentd.listTasks({ query: { limit: 50 } }) },
  {
    name: 'task list --status ready',
    look: ({ agentd }) => agentd.listTasks({ query: { limit: 50, status: 'ready' } }),
  },
  {
    name: 'the digest',
    isSeenOnly: true,
    look: ({ agentd }) => agentd.getDigest({ query: { limit: 20 } }),
  },
];

async function measureLook(runtime: TestRuntime, { name, isSeenOnly, look }: Look) {
  const p95s: number[] = [];
  for (let round = 0; round <= ROUNDS; round++) {
    const times: number[] = [];
    for (let turn = 0; turn < LISTS_PER_ROUND; turn++) {
      const began = performance.now();
      await look(runtime);
      times.push(performance.now() - began);
    }
    const sorted = times.toSorted((a, b) => a - b);
    // The first round warms up.
    if (round > 0) p95s.push(quantile(sorted, 0.95));
  }
  const figure: Figure = {
    name: `${name} with ${TASKS.toLocaleString('en-US')} tasks, p95`,
    unit: 'ms',
    own: seeRounds(p95s),
  };
  return isSeenOnly === true ? figure : { ...figure, bar: { of: 'value' as const, max: 20 } };
}

let goals = 1;

/** From the last response of the blocker's model to the first model call of its dependent. */
async function timeChain(runtime: TestRuntime, upstream: BenchUpstream, agents: [string, string]) {
  const [first, second] = [goals++, goals++];
  const create = async (number: number, agent: string, after: TaskId[]): Promise<TaskView> => {
    const body = { goal: `goal-number-${number}`, agent: agent as AgentName, after };
    return (await runtime.agentd.createTask({ body })).task;
  };
  const gate = await createBlocker(runtime);
  const blocker = await create(first, agents[0], [gate]);
  const dependent = await create(second, agents[1], [blocker.id]);
  await new Promise((resolve) => setTimeout(resolve, REST_MS));
  await byHand(runtime, gate);
  await taskEnded(runtime, dependent.id);
  const [doneMs, startedMs] = [await upstream.arrivalOf(first), await upstream.arrivalOf(second)];
  return startedMs! - doneMs!;
}

const CHAINS: readonly { name: string; agents: [string, string] }[] = [
  {
    name: 'blocker done → first model call of its dependent, p50',
    agents: ['planner', 'researcher'],
  },
  { name: '… of the same agent, p50', agents: ['planner', 'planner'] },
];

async function measureChains(upstream: BenchUpstream): Promise<Figure[]> {
  const runtime = await startBenchRuntime(upstream.port);
  try {
    const figures: Figure[] = [];
    for (const { name, agents } of CHAINS) {
      const p50s: number[] = [];
      for (let round = 0; round <= ROUNDS; round++) {
        const times: number[] = [];
        for (let turn = 0; turn < CHAINS_PER_ROUND; turn++)
          times.push(await timeChain(runtime, upstream, agents));
        const sorted = times.toSorted((a, b) => a - b);
        if (round > 0) p50s.push(quantile(sorted, 0.5));
      }
      figures.push({ name, unit: 'ms', own: seeRounds(p50s), bar: { of: 'value', max: 150 } });
    }
    return figures;
  } finally {
    await runtime.remove();
  }
}

async function measureLists(upstream: BenchUpstream): Promise<Figure[]> {
  const runtime = await startBenchRuntime(upstream.port);
  try {
    await fillBoard(runtime);
    const figures: Figure[] = [];
    for (const look of LOOKS) figures.push(await measureLook(runtime, look));
    return figures;
  } finally {
    await runtime.remove();
  }
}

async function run(): Promise<Figure[]> {
  const upstream = await startUpstream();
  try {
    return [...(await measureLists(upstream)), ...(await measureChains(upstream))];
  } finally {
    await upstream.stop();
  }
}

export const board: Benchmark = {
  name: 'board',
  about: '10,000 tasks on the board; blocker done → its dependent started',
  run,
};
