// Measures whether pruning disturbs work: the start of a task while a pass is pruning a long
// history, compared with the same while the pass waits.
import { rmSync } from 'node:fs';
import type { TestRuntime } from '../test/support/runtime.ts';
import { type BenchUpstream, startUpstream } from './children.ts';
import type { Benchmark, Figure } from './figure.ts';
import { fillState } from './fill/fill.ts';
import { compare, type Measure } from './rounds.ts';
import { REST_MS, timeTaskStart } from './task-start.ts';
import { startBenchRuntime } from './world.ts';

/** More than a pass prunes while this measures. */
const ENDED_TASKS = 20_000;
const ORDER = { rounds: 5, turnsPerRound: 40, share: 0.95 };
const WARM_UP = 5;
const FIRST_GOAL = 2_000_000;
const RATIO_MAX = 1.2;
const FAILED = { status: 'failed', manifest_sha256: null, events: null, size_bytes: null } as const;

/** Measures while the pass waits, as it does for a backup. */
function whilePaused({ agentd }: TestRuntime, measure: Measure): Measure {
  return async () => {
    const { id } = (await agentd.startBackup({})).backup;
    try {
      return await measure();
    } finally {
      await agentd.endBackup({ params: { id }, body: FAILED });
    }
  };
}

async function measurePruning(runtime: TestRuntime, upstream: BenchUpstream): Promise<Figure> {
  const start = timeTaskStart(runtime, upstream, { firstGoal: FIRST_GOAL, restMs: REST_MS });
  for (let i = 0; i < WARM_UP; i++) await start();
  await runtime.agentd.startPrune({ body: { kinds: ['tasks'], older_than_s: 3_600 } });
  const seen = await compare(ORDER, start, whilePaused(runtime, start));
  const { prune } = await runtime.agentd.getPrune({ query: {} });
  const pruned = prune?.kinds[0]?.pruned ?? 0;
  if (prune?.status !== 'running' || pruned === 0)
    throw new Error(`the pass is ${prune?.status} after ${pruned} trees; it must last longer`);
  return {
    name: `task asked for → first model call while pruning (${pruned} trees), p95`,
    unit: 'ms',
    ...seen,
    peer: { name: 'the same without', ...seen.peer },
    bar: { of: 'ratio', max: RATIO_MAX },
  };
}

async function run(): Promise<Figure[]> {
  const upstream = await startUpstream();
  const { base } = await fillState(ENDED_TASKS);
  let runtime: TestRuntime | undefined;
  try {
    runtime = await startBenchRuntime(upstream.port, { base });
    return [await measurePruning(runtime, upstream)];
  } finally {
    await runtime?.stop();
    rmSync(base, { recursive: true, force: true });
    await upstream.stop();
  }
}

export const prune: Benchmark = {
  name: 'prune',
  about: 'starting a task while ended ones are pruned, compared with the same without',
  run,
};
