// An agent's events are shown as sentences; a start and its end are one sentence.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { AuditEvent } from '../../../wire/events.ts';
import { paintNothing } from '../out.ts';
import { dropAttempts, renderAgentEvent } from './agent-event.ts';

const now = Date.parse('2026-06-29T18:00:00.000Z');
const event = (name: string, more: Record<string, unknown> = {}) =>
  ({ event: name, agent: 'coder', ts: new Date(now).toISOString(), ...more }) as AuditEvent;
const line = (given: AuditEvent, columns = Number.POSITIVE_INFINITY) =>
  renderAgentEvent(given, { nowMs: now, columns, paint: paintNothing })
    .replace(/^\S+ {2}/, '')
    .replace(/^\S+ +/, '');

test('events become sentences', () => {
  const used = { provider: 'local', input_tokens: 1_000, cache_read_tokens: 200, output_tokens: 3 };
  const model = { model: 'default', status: 'completed', data: { ...used, cost_microusd: 1_200 } };
  for (const [given, sentence] of [
    [event('task.started', { task_id: 'task_1' }), 'started task_1'],
    [event('run.broken', {}), 'stopped: no progress (breaker)'],
    [event('model.call.ended', model), 'called the model default (local): 1,200+3 tokens, $0.0012'],
    [
      event('tool.call.denied', { tool: 'shell.exec', policy: 'base:etc' }),
      'was denied shell.exec by base:etc',
    ],
    [
      event('tool.call.ended', { tool: 'a.b', status: 'failed', data: { error: 'deadline' } }),
      'called a.b: failed (deadline)',
    ],
    [
      event('task.ended', { task_id: 'task_1', status: 'failed', data: { error: 'limit' } }),
      'failed task_1 (limit)',
    ],
    [event('budget.set', { status: 'x' }), 'x'],
  ] as const)
    assert.equal(line(given), sentence);
  assert.equal(line(event('task.started', { task_id: 'task_1' }), 40), 'started…');
  const steering = line(event('task.waiting', { status: 'a\u001b[31m\nb' }));
  assert.ok(!steering.includes('\u001b') && !steering.includes('\n'));
});

test('an attempt whose end is known is left out, one without stays', () => {
  const events = [
    event('tool.call.attempted', { call_id: 'call_1' }),
    event('tool.call.ended', { call_id: 'call_1' }),
    event('model.call.attempted', { call_id: 'call_2' }),
  ];
  const left = dropAttempts(events).map(({ event: name }) => name);
  assert.deepEqual(left, ['tool.call.ended', 'model.call.attempted']);
});
