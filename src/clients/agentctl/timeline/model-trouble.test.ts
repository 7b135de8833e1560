// A model that does not respond is reported once, and again only after it had responded; a task
// that retries it is not reported as working.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { AuditEvent } from '../../../wire/events.ts';
import { makeModelTrouble } from './model-trouble.ts';
import type { TaskChange } from './progress.ts';

const ended = (status: string) =>
  ({
    event: 'model.call.ended',
    agent: 'planner',
    task_id: 'task_1',
    model: 'default',
    status,
    data: { provider: 'local', error: 'provider_down' },
  }) as unknown as AuditEvent;

test('reported once, and again after a response', () => {
  const { onEvent } = makeModelTrouble();
  const words = /planner: no response from model default \(local\): provider_down; retrying/;
  assert.match(onEvent(ended('failed'))!, words);
  assert.equal(onEvent(ended('failed')), undefined);
  assert.equal(onEvent(ended('completed')), undefined);
  assert.match(onEvent(ended('failed'))!, words);
  assert.equal(onEvent({ event: 'tool.call.ended', status: 'failed' } as AuditEvent), undefined);
});

test('a task that resumes to retry is reported as retrying until the model responds', () => {
  const { onEvent, relabel } = makeModelTrouble();
  const change = (kind: TaskChange['kind'], task_id = 'task_1'): TaskChange => ({
    task_id,
    agent: 'planner',
    kind,
    text: 'planner: as it was',
    at: '',
  });
  const isKept = (one: TaskChange) => assert.equal(relabel(one), one);
  isKept(change('working'));
  onEvent(ended('failed'));
  const { kind, text } = relabel(change('working'));
  assert.equal(kind, 'trouble');
  assert.match(text, /^planner: retries model default \(local\); see .*agentctl model list$/);
  isKept(change('ended'));
  isKept(change('status'));
  isKept(change('working', 'task_2'));
  onEvent(ended('completed'));
  isKept(change('working'));
});
