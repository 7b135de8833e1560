// An idle process frees the memory that its work needed.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { test } from 'node:test';
import { collectWhenIdle } from './idle-gc.ts';

/** Grows the heap with objects that live for a while, then waits until it has shrunk. */
const CODE = `
import { collectWhenIdle } from ${JSON.stringify(join(import.meta.dirname, 'idle-gc.ts'))};
const kept = [];
for (let i = 0; i < 3_000_000; i++) kept[i % 200_000] = { i, text: String(i) };
kept.length = 0;
const grown = process.memoryUsage().heapTotal;
collectWhenIdle();
setInterval(() => {
  const now = process.memoryUsage().heapTotal;
  if (now > grown / 2) return;
  console.log(JSON.stringify({ grown, now }));
  process.exit(0);
}, 50);
`;

test('an idle process shrinks its heap', () => {
  const { stdout, status } = spawnSync(
    process.execPath,
    ['--input-type=module-typescript', '-e', CODE],
    { timeout: 60_000, encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] },
  );
  assert.equal(status, 0);
  const { grown, now } = JSON.parse(stdout) as { grown: number; now: number };
  assert.ok(grown > 20_000_000, `it took ${grown} bytes`);
  assert.ok(now < grown / 2);
});

test('a process that worked long collects only after a long idle time', async () => {
  let endedMs = 0;
  const collectedMs = await new Promise<number>((resolve) => {
    const late = setTimeout(() => resolve(Number.NaN), 30_000);
    const collect = (): void => {
      clearTimeout(late);
      resolve(performance.now());
    };
    collectWhenIdle({ collect, pollMsMin: 20, warmMs: 50, warmIdleMs: 300 });
    setTimeout(() => {
      for (const until = performance.now() + 100; performance.now() < until; );
      endedMs = performance.now();
    }, 0);
  });
  assert.ok(collectedMs - endedMs >= 300, `after ${collectedMs - endedMs} ms`);
});
