// A model that does not answer is told once, and again only after it had answered.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { AuditEvent } from '../../../wire/events.ts';
import { makeTrouble } from './trouble.ts';

const ended = (status: string) =>
  ({
    ...{ event: 'model.call.ended', agent: 'planner', model: 'default', status },
    data: { provider: 'local', error: 'provider_down' },
  }) as unknown as AuditEvent;

test('told once, and again after an answer', () => {
  const trouble = makeTrouble();
  const words =
    /planner: no answer from the model default \(local\): provider_down; .* asked again/;
  assert.match(trouble(ended('failed'))!, words);
  assert.equal(trouble(ended('failed')), undefined);
  assert.equal(trouble(ended('completed')), undefined);
  assert.match(trouble(ended('failed'))!, words);
  assert.equal(trouble({ event: 'tool.call.ended', status: 'failed' } as AuditEvent), undefined);
});
