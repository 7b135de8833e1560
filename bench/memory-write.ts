// Measures remembering: durable in the journal and the database, with its event, over the socket of
// a person, one after the other and in batches.
import { rmSync } from 'node:fs';
import type { NewMemory } from '../src/wire/memoryd/records.ts';
import { freshDir, startRuntime, type TestRuntime } from '../test/support/runtime.ts';
import { type Benchmark, type Figure, seeRounds } from './figure.ts';
import { makeMemories } from './fill/memories.ts';

const ROUNDS = 5;
const SINGLES = 300;
const BATCHES = 12;
const BATCH = 250;
const SCOPE = 'project:bench';

async function measureRate(
  runtime: TestRuntime,
  next: () => NewMemory,
  { requests, batch }: { requests: number; batch: number },
): Promise<number> {
  const bodies = Array.from({ length: requests }, () => Array.from({ length: batch }, next));
  const began = performance.now();
  for (const memories of bodies) {
    const [only] = memories as [NewMemory];
    await (batch === 1
      ? runtime.memoryd.remember({ body: only })
      : runtime.memoryd.remember({ body: { memories } }));
  }
  return (requests * batch * 1_000) / (performance.now() - began);
}

async function run(): Promise<Figure[]> {
  const base = freshDir();
  const runtime = await startRuntime({ base });
  try {
    const memories = makeMemories();
    const next = (): NewMemory => {
      const { text } = memories.take(SCOPE, 1)[0]!;
      return { class: 'semantic', scope: SCOPE, text };
    };
    const [singly, inBatches]: [number[], number[]] = [[], []];
    for (let round = 0; round <= ROUNDS; round++) {
      const one = await measureRate(runtime, next, { requests: SINGLES, batch: 1 });
      const many = await measureRate(runtime, next, { requests: BATCHES, batch: BATCH });
      // The first warms up.
      if (round > 0) [singly[round - 1], inBatches[round - 1]] = [one, many];
    }
    return [
      {
        name: 'remember, one after the other',
        unit: '/s',
        own: seeRounds(singly),
        bar: { of: 'value', min: 300 },
      },
      {
        name: `remember, ${BATCH} at once`,
        unit: '/s',
        own: seeRounds(inBatches),
        bar: { of: 'value', min: 1_500 },
      },
    ];
  } finally {
    await runtime.remove();
    rmSync(base, { recursive: true, force: true });
  }
}

export const memoryWrite: Benchmark = {
  name: 'memory-write',
  about: 'remembering, durable and in the log, singly and in batches',
  run,
};
