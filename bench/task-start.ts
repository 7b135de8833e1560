// Measures the time from a task's creation to its runner's first model call.
import { eventually, type TestRuntime, taskEnded } from '../test/support/runtime.ts';
import { bareStart } from './bare-start.ts';
import { type BenchUpstream, startUpstream } from './children.ts';
import type { Benchmark, Figure } from './figure.ts';
import { compare, type Measure } from './rounds.ts';
import { startBenchRuntime } from './world.ts';

const TURNS = { rounds: 5, turnsPerRound: 10 };
const WARM_UP = 3;
/** The process of the previous task and its cleanup must have ended. */
export const REST_MS = 40;
/** A spare runner is started when no run has started for 200 ms, and then needs its own time. */
const SPARE_REST_MS = 450;

const monotonicMs = (): number => Number(process.hrtime.bigint()) / 1e6;

/** Measures the time from a task's creation to the arrival of its runner's first model call. */
export function timeTaskStart(
  runtime: TestRuntime,
  upstream: BenchUpstream,
  options: { firstGoal: number; restMs: number },
): Measure {
  let goal = options.firstGoal;
  return async () => {
    const number = goal++;
    const beganMs = monotonicMs();
    const { task } = await runtime.agentd.createTask({ body: { goal: `goal-number-${number}` } });
    await taskEnded(runtime, task.id);
    const atMs = await eventually('the first model call', async () => {
      return (await upstream.arrivalOf(number)) ?? undefined;
    });
    await new Promise((resolve) => setTimeout(resolve, options.restMs));
    return atMs - beganMs;
  };
}

type Kind = { name: string; config: string; restMs: number; firstGoal: number; max: number };
const KINDS: readonly Kind[] = [
  {
    name: 'task asked for → first model call at the provider, p50',
    config: 'sandboxd: { runner_spares: 0 }\n',
    restMs: REST_MS,
    firstGoal: 1,
    max: 2,
  },
  {
    name: '… of an agent with a spare runner, p50',
    config: '',
    restMs: SPARE_REST_MS,
    firstGoal: 1_001,
    max: 1,
  },
];

async function measureKind(kind: Kind, upstream: BenchUpstream): Promise<Figure> {
  const runtime = await startBenchRuntime(upstream.port, { moreConfig: kind.config });
  try {
    const bare = bareStart();
    const measure = timeTaskStart(runtime, upstream, kind);
    for (let i = 0; i < WARM_UP; i++) await Promise.all([measure(), bare()]);
    const { own, peer, ratio } = await compare(TURNS, measure, bare);
    return {
      name: kind.name,
      unit: 'ms',
      own,
      peer: { name: 'bare Node start', ...peer },
      ratio,
      bar: { of: 'ratio', max: kind.max },
    };
  } finally {
    await runtime.remove();
  }
}

async function run(): Promise<Figure[]> {
  const upstream = await startUpstream();
  try {
    const figures: Figure[] = [];
    for (const kind of KINDS) figures.push(await measureKind(kind, upstream));
    return figures;
  } finally {
    await upstream.stop();
  }
}

export const taskStart: Benchmark = {
  name: 'task-start',
  about: "task created → runner's first model call, compared with a bare start of Node",
  run,
};
