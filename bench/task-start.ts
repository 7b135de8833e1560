// From asking for a task to its runner's first model call: how long until an agent thinks.
import { eventually, type TestRuntime, taskEnded } from '../test/support/runtime.ts';
import { bareStart } from './bare-start.ts';
import { type BenchUpstream, startUpstream } from './children.ts';
import type { Benchmark, Figure } from './figure.ts';
import { compare } from './rounds.ts';
import { startBenchRuntime } from './world.ts';

const TURNS = { rounds: 5, turnsPerRound: 10 };
const WARM_UP = 3;
/** The process of the task before, and what it leaves to be cleaned up, must be gone. */
const REST_MS = 40;

const monotonicMs = (): number => Number(process.hrtime.bigint()) / 1e6;

function makeMeasure(runtime: TestRuntime, upstream: BenchUpstream): () => Promise<number> {
  let goal = 0;
  return async () => {
    const number = ++goal;
    const beganMs = monotonicMs();
    const { task } = await runtime.agentd.createTask({ body: { goal: `goal-number-${number}` } });
    await taskEnded(runtime, task.id);
    const atMs = await eventually('the first model call', async () => {
      return (await upstream.arrivalOf(number)) ?? undefined;
    });
    await new Promise((resolve) => setTimeout(resolve, REST_MS));
    return atMs - beganMs;
  };
}

async function run(): Promise<Figure[]> {
  const upstream = await startUpstream();
  const runtime = await startBenchRuntime(upstream.port);
  try {
    const bare = bareStart();
    const measure = makeMeasure(runtime, upstream);
    for (let i = 0; i < WARM_UP; i++) await Promise.all([measure(), bare()]);
    const { own, peer, ratio } = await compare(TURNS, measure, bare);
    return [
      {
        name: 'task asked for → first model call at the provider, p50',
        unit: 'ms',
        own,
        peer: { name: 'bare Node start', ...peer },
        ratio,
        bar: { of: 'ratio', most: 2 },
      },
    ];
  } finally {
    await runtime.remove();
    await upstream.stop();
  }
}

export const taskStart: Benchmark = {
  name: 'task-start',
  about: "task created → runner's first model call, beside a bare start of Node",
  run,
};
