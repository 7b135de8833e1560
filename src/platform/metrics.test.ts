// Counters, gauges and histograms as text, and log lines of one JSON object each.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { fault } from '../wire/errors.ts';
import { makeLog } from './log.ts';
import { makeMetrics } from './metrics.ts';

describe('metrics', () => {
  it('[R356] [R357] counts, with labels that cannot break the line', async () => {
    const metrics = makeMetrics('toold');
    metrics.count('requests', { outcome: 'ok' });
    metrics.count('requests', { outcome: 'ok' }, 2);
    metrics.count('requests', { outcome: 'a"b\\c\nd' });
    metrics.gauge('in_flight', () => 7);
    metrics.gauge('queued', async () => 8);
    const lines = (await metrics.text()).trimEnd().split('\n');
    assert.deepEqual(lines, [
      '# TYPE agentd_requests_total counter',
      'agentd_requests_total{daemon="toold",outcome="ok"} 3',
      'agentd_requests_total{daemon="toold",outcome="a\\"b\\\\c\\nd"} 1',
      '# TYPE agentd_in_flight gauge',
      'agentd_in_flight{daemon="toold"} 7',
      '# TYPE agentd_queued gauge',
      'agentd_queued{daemon="toold"} 8',
    ]);
  });

  it('[R356] histograms are cumulative and their count is the number of values', async () => {
    const metrics = makeMetrics('toold');
    const values = [0.1, 0.5, 3, 40, 999, 100_000];
    for (const ms of values) metrics.observeMs('request', ms);
    const lines = (await metrics.text()).split('\n');
    const at = (le: string) =>
      Number(lines.find((line) => line.includes(`le="${le}"`))!.split(' ')[1]);
    assert.deepEqual(
      ['0.5', '2.5', '5', '50', '1000', '60000', '+Inf'].map(at),
      [2, 2, 3, 4, 5, 5, 6],
    );
    assert.ok(lines.includes('agentd_request_ms_count{daemon="toold"} 6'));
    metrics.observe('task_steps', 4);
    metrics.observe('task_steps', 11);
    const text = await metrics.text();
    for (const line of ['_bucket{daemon="toold",le="2"} 0', '_bucket{daemon="toold",le="5"} 1'])
      assert.ok(text.includes(`agentd_task_steps${line}\n`), line);
    assert.match(text, /agentd_task_steps_sum\{daemon="toold"\} 15\n/);
    const sum = values.reduce((a, b) => a + b);
    assert.ok(lines.includes(`agentd_request_ms_sum{daemon="toold"} ${sum}`));
  });
});

describe('log', () => {
  it('writes one JSON object a line, from its level up, with its fields and causes', () => {
    const lines: string[] = [];
    const log = makeLog((line) => lines.push(line), 'warn').with({ daemon: 'toold' });
    log.debug('no');
    log.info('no');
    log.warn('a\nb', { n: 1 });
    const error = fault('conflict', 'twice', { cause: new Error('below') });
    log.with({ route: 'x' }).error('c', { error });
    const parsed = lines.map((line) => JSON.parse(line) as Record<string, unknown>);
    assert.equal(lines.length, 2);
    assert.ok(lines.every((line) => !line.includes('\n')));
    assert.deepEqual(
      { ...parsed[0], ts: 0 },
      { ts: 0, level: 'warn', daemon: 'toold', message: 'a\nb', n: 1 },
    );
    const shown = parsed[1]!.error as { code: string; cause: { message: string } };
    assert.equal(shown.code, 'conflict');
    assert.equal(shown.cause.message, 'below');
    assert.equal(parsed[1]!.route, 'x');
  });
});
