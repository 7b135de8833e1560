// The memory of a process, and the delay of its event loop, which is measured only under load.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { makeMetrics } from './metrics.ts';
import { addProcessGauges, makeLoopDelaySampler } from './process-metrics.ts';

test('[R356] memory and process id are gauges', async () => {
  const metrics = makeMetrics('toold');
  addProcessGauges(metrics);
  const text = await metrics.text();
  const read = (name: string) =>
    Number(new RegExp(`^agentd_process_${name}{daemon="toold"} (\\d+)$`, 'm').exec(text)?.[1]);
  assert.equal(read('id'), process.pid);
  assert.ok(read('heap_used_bytes') > 1_000_000);
  assert.ok(read('heap_total_bytes') >= read('heap_used_bytes'));
  assert.ok(read('rss_bytes') > read('heap_used_bytes'));
  assert.ok(read('external_bytes') > 0);
});

test('one sample at a time, with the time that the event loop was blocked, and none when idle', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const delays: number[] = [];
  const sample = makeLoopDelaySampler((ms) => delays.push(ms));
  t.mock.timers.tick(60_000);
  assert.deepEqual(delays, []);
  for (let i = 0; i < 5; i++) sample();
  const untilMs = performance.now() + 50;
  while (performance.now() < untilMs);
  t.mock.timers.tick(60_000);
  assert.equal(delays.length, 1);
  assert.ok(delays[0]! >= 30, 'blocked for 50 ms, due after 20');
  sample();
  t.mock.timers.tick(60_000);
  assert.equal(delays.length, 2);
  assert.ok(delays[1]! >= 0);
});
