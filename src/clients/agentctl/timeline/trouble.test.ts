// A model that does not answer is told once, and again only after it had answered; who asks it
// again is not said to work.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { AuditEvent } from '../../../wire/events.ts';
import type { TaskChange } from './progress.ts';
import { makeTrouble } from './trouble.ts';

const ended = (status: string) =>
  ({
    event: 'model.call.ended',
    agent: 'planner',
    task_id: 'task_1',
    model: 'default',
    status,
    data: { provider: 'local', error: 'provider_down' },
  }) as unknown as AuditEvent;

test('told once, and again after an answer', () => {
  const { hear } = makeTrouble();
  const words =
    /planner: no answer from the model default \(local\): provider_down; .* asked again/;
  assert.match(hear(ended('failed'))!, words);
  assert.equal(hear(ended('failed')), undefined);
  assert.equal(hear(ended('completed')), undefined);
  assert.match(hear(ended('failed'))!, words);
  assert.equal(hear({ event: 'tool.call.ended', status: 'failed' } as AuditEvent), undefined);
});

test('a task that is taken up to ask again is told so, until the model has answered', () => {
  const { hear, retell } = makeTrouble();
  const change = (kind: TaskChange['kind'], task_id = 'task_1'): TaskChange => ({
    task_id,
    agent: 'planner',
    kind,
    text: 'planner: as it was',
    at: '',
  });
  const isKept = (one: TaskChange) => assert.equal(retell(one), one);
  isKept(change('working'));
  hear(ended('failed'));
  const { kind, text } = retell(change('working'));
  assert.equal(kind, 'trouble');
  assert.match(
    text,
    /^planner: asks the model default \(local\) again; see .*agentctl model list$/,
  );
  isKept(change('ended'));
  isKept(change('status'));
  isKept(change('working', 'task_2'));
  hear(ended('completed'));
  isKept(change('working'));
});
