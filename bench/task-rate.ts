// Measures how many short tasks a runtime completes per second: each has a runner of its own, in
// its own box, which makes one model call and finishes. A number of tasks is always in progress.
import type { TestRuntime } from '../test/support/runtime.ts';
import { startUpstream } from './children.ts';
import { type Benchmark, type Figure, seeRounds } from './figure.ts';
import { cpuMsWithChildrenOf } from './machine.ts';
import { treeOf } from './memory.ts';
import { startBenchRuntime } from './world.ts';

const IN_PROGRESS = 8;
const ROUNDS = 5;
const ROUND_MS = 6_000;
const WARM_UP_MS = 6_000;
const POLL_INTERVAL_MS = 20;
/** The last runners must have ended, and a spare must have started. */
const REST_MS = 600;

type Round = { perSecond: number; cpuMs: number };

/** Keeps this many tasks in progress for a time. */
async function work({ agentd, process: { pid } }: TestRuntime, ms: number): Promise<Round> {
  const countCompleted = async () => (await agentd.status({})).tasks.completed ?? 0;
  const cpuMs = () => treeOf(pid!).reduce((sum, one) => sum + cpuMsWithChildrenOf(one), 0);
  // While no task is in progress, every runner that worked has ended.
  const before = { completed: await countCompleted(), cpuMs: cpuMs(), atMs: performance.now() };
  let created = 0;
  let completed = 0;
  while (performance.now() - before.atMs < ms) {
    completed = (await countCompleted()) - before.completed;
    const missing = IN_PROGRESS - (created - completed);
    const bodies = Array.from({ length: missing }, () => ({ goal: `goal-number-${created++}` }));
    await Promise.all(bodies.map((body) => agentd.createTask({ body })));
    await new Promise((resolve) => setTimeout(resolve, POLL_INTERVAL_MS));
  }
  const seconds = (performance.now() - before.atMs) / 1_000;
  while ((await countCompleted()) - before.completed < created)
    await new Promise((resolve) => setTimeout(resolve, POLL_INTERVAL_MS));
  await new Promise((resolve) => setTimeout(resolve, REST_MS));
  return { perSecond: completed / seconds, cpuMs: (cpuMs() - before.cpuMs) / created };
}

async function run(): Promise<Figure[]> {
  const upstream = await startUpstream();
  const runtime = await startBenchRuntime(upstream.port);
  try {
    await work(runtime, WARM_UP_MS);
    const seen: Round[] = [];
    for (let round = 0; round < ROUNDS; round++) seen.push(await work(runtime, ROUND_MS));
    return [
      {
        name: `short tasks completed, ${IN_PROGRESS} in progress`,
        unit: 'tasks/s',
        own: seeRounds(seen.map(({ perSecond }) => perSecond)),
        bar: { of: 'value', min: 30 },
      },
      {
        name: 'processor time of a short task, all processes of the runtime',
        unit: 'ms',
        own: seeRounds(seen.map(({ cpuMs }) => cpuMs)),
      },
    ];
  } finally {
    await runtime.remove();
    await upstream.stop();
  }
}

export const taskRate: Benchmark = {
  name: 'task-rate',
  about: 'short tasks per second',
  run,
};
