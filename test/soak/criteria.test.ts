// The criteria of a soak, on made-up measurements: each passes and fails where it should.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { seeded } from '../support/seeded.ts';
import { checkMemory, checkRate, fitGrowth, type MemoryPoint } from './criteria.ts';
import { checkEffects, checkTasks } from './verify.ts';
import type { SoakTask } from './workload.ts';

const MB = 1_000_000;

const rates = (...tasks: number[]) => tasks.map((count) => ({ tasks: count, upMs: 60_000 }));
const flat = (count: number, minutes: number) => Array<number>(minutes).fill(count);

test('the rate of the last five minutes is compared with that of the first five', () => {
  const run = (last: number) => checkRate(rates(...flat(600, 5), ...flat(1, 10), ...flat(last, 5)));
  assert.equal(run(600).status, 'ok');
  assert.equal(run(481).status, 'ok');
  assert.equal(run(479).status, 'failed');
  assert.match(run(300).detail, /10\.0 tasks\/s .* 5\.0 in the last five: a fall of 50 %/);
  assert.match(run(660).detail, /a rise of 10 %/);
});

test('an outage does not lower the rate, and a short soak has none', () => {
  const minutes = [...rates(...flat(600, 9)), { tasks: 300, upMs: 30_000 }];
  assert.match(checkRate(minutes).detail, /a (fall|rise) of 0 %/);
  assert.equal(checkRate(minutes.slice(1)).status, 'not applicable');
});

/** Memory of a runtime that restarts every four minutes, every 20 s for 30 minutes. */
function memory(growthMbPerHour: number, noiseMb = 4): MemoryPoint[] {
  const random = seeded('memory', growthMbPerHour);
  return Array.from({ length: 90 }, (_, i) => {
    const atMs = i * 20_000;
    const ageMs = atMs % 240_000;
    const noise = (random.int(2_001) / 1_000 - 1) * noiseMb;
    const megabytes =
      120 + growthMbPerHour * (atMs / 3_600_000) + 30 * Math.log(1 + ageMs / 60_000);
    return { atMs, ageMs, totalBytes: (megabytes + noise) * MB };
  });
}

test('growth over time is separated from growth after a restart', () => {
  const exact = fitGrowth(memory(42, 0))!;
  assert.ok(Math.abs(exact.growth - 42) < 0.01 && exact.error < 0.01, JSON.stringify(exact));
  for (const growth of [0, 10]) assert.equal(checkMemory(memory(growth), 30).status, 'ok');
  const leak = checkMemory(memory(60), 30);
  assert.equal(leak.status, 'failed', leak.detail);
  assert.equal(checkMemory(memory(60), 19).status, 'not applicable');
});

test('memory before the tenth minute does not count', () => {
  const early = memory(0).map((point) =>
    point.atMs < 600_000 ? { ...point, totalBytes: point.totalBytes / 2 } : point,
  );
  assert.equal(checkMemory(early, 30).status, 'ok');
});

const ended = (status: 'completed' | 'canceled' | 'failed') => ({
  id: `task_${'0'.repeat(26)}` as never,
  status,
  created_at: '2026-01-01T00:00:00.000Z' as never,
  ended_at: '2026-01-01T00:00:01.000Z' as never,
  error: null,
});
const task = (key: string, kind: SoakTask['kind'], ...all: SoakTask['ended']): SoakTask => ({
  key,
  kind,
  ended: all,
});

test('a task that has not ended, or ended otherwise, is a finding', () => {
  const good = [
    task('k1', 'count', ended('completed')),
    task('k2', 'cancel', ended('canceled')),
    task('k3', 'retry', ended('failed'), ended('failed')),
  ];
  assert.equal(checkTasks(good, []).status, 'ok');
  assert.match(checkTasks(good, ['k9']).detail, /1 findings: k9 has not ended/);
  const wrong = checkTasks([...good, task('k4', 'count', ended('failed'))], []);
  assert.match(wrong.detail, /k4 \(count, task_\w+\) is failed/);
});

test('an effect that is missing, doubled or unknown is a finding', () => {
  const tasks = [
    task('k1', 'count', ended('completed')),
    task('k2', 'cancel', ended('canceled')),
    task('k3', 'retry', ended('failed'), ended('failed')),
    task('k7', 'approval', ended('completed')),
  ];
  const effects = new Map(Object.entries({ 'k1-1': 1, 'k1-2': 1, 'k3-1': 2 }));
  const check = (more: Record<string, number>) =>
    checkEffects(tasks, new Map([...effects, ...Object.entries(more)]));
  assert.equal(check({}).status, 'ok');
  assert.equal(check({ 'k2-1': 1 }).status, 'ok', 'before it was canceled');
  assert.match(check({ 'k1-2': 2 }).detail, /k1-2 happened 2 times instead of 1/);
  assert.match(check({ 'k1-1': 0 }).detail, /k1-1 happened 0 times/);
  assert.match(check({ 'k3-1': 1 }).detail, /k3-1 happened 1 times instead of 2/);
  assert.match(check({ 'k7-1': 1 }).detail, /k7-1 happened 1 times instead of 0/, 'rejected');
  assert.match(check({ 'k8-1': 1 }).detail, /k8-1 belongs to no task/);
});
