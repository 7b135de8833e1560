// The event schema accepts what daemons record and rejects everything else.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { NewEvent } from './events.ts';

const event = {
  id: 'call_1.ended',
  ts: '2026-06-29T18:00:00.123Z',
  event: 'tool.call.ended',
  source: 'toold',
  source_store: 'b',
  source_seq: 1,
};

test('an event with its optional members is accepted unchanged', () => {
  const data = { text: 'x'.repeat(1_024), number: 1.5, none: null, yes: true };
  const full = { ...event, tool: 'x'.repeat(256), policy: 'x'.repeat(512), allowed: false, data };
  for (const accepted of [event, full]) assert.deepEqual(NewEvent.parse(accepted), accepted);
});

test('an event without a required member is rejected', () => {
  for (const name of Object.keys(event))
    assert.equal(NewEvent.safeParse({ ...event, [name]: undefined }).success, false, name);
});

test('members that are unknown, too long or of another type are rejected', () => {
  const refused: Record<string, unknown>[] = [
    { id: '' },
    { id: 'x'.repeat(129) },
    { event: 'no.such' },
    { ts: '2026-02-30T00:00:00Z' },
    { source_seq: 0 },
    { source_seq: 1.5 },
    { source_seq: 2 ** 60 },
    { tool: 'x'.repeat(257) },
    { policy: 'x'.repeat(513) },
    { allowed: 'yes' },
    { data: { text: 'x'.repeat(1_025) } },
    { data: { nested: {} } },
    { data: { number: Number.NaN } },
    { data: [] },
    { extra: 1 },
  ];
  for (const change of refused)
    assert.equal(
      NewEvent.safeParse({ ...event, ...change }).success,
      false,
      JSON.stringify(change),
    );
  const polluted = JSON.parse(`${JSON.stringify(event).slice(0, -1)},"__proto__":1}`);
  assert.equal(NewEvent.safeParse(polluted).success, false);
});
