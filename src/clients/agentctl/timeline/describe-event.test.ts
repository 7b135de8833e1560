// The timeline names who approved what, who rejected it, and what a permit covered.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { AuditEvent } from '../../../wire/events.ts';
import { buildEventStep } from './describe-event.ts';

const event = (more: Partial<AuditEvent>): AuditEvent => ({
  id: 'x',
  ts: '2026-06-29T18:00:00Z',
  event: 'approval.decided',
  source: 'approvald',
  source_store: 's',
  source_seq: 1,
  seq: 1,
  principal: 'person:alice',
  tool: 'deploy.run',
  ...more,
  data: { approval_id: 'approval_1', final: true, for: 'once', ...more.data },
});
const textOf = (more: Partial<AuditEvent>) => buildEventStep(event(more), 'deployer')[0]?.text;

test('decisions name their person', () => {
  assert.equal(textOf({ status: 'approved' }), 'person:alice approved deploy.run (approval_1)');
  assert.equal(
    textOf({ status: 'approved', data: { for: 'repo', edited_hash: null } }),
    'person:alice approved deploy.run for this repo (approval_1)',
  );
  assert.equal(
    textOf({ status: 'approved', data: { final: false, edited_hash: 'h' } }),
    'person:alice approved deploy.run, with changes; a second approval is needed (approval_1)',
  );
  assert.equal(textOf({ status: 'rejected' }), 'person:alice rejected deploy.run (approval_1)');
  assert.match(
    textOf({ status: 'info' })!,
    /asked deployer for more information about deploy\.run/,
  );
  assert.match(
    textOf({ status: 'escalated', data: { to: 'person:bob' } })!,
    /escalated deploy\.run to person:bob/,
  );
});

test('outcomes of approvals', () => {
  assert.match(textOf({ event: 'approval.expired', status: 'expired' })!, /expired/);
  assert.match(
    textOf({ event: 'approval.redeemed', status: 'approved', data: { by: 'person:a person:b' } })!,
    /deploy\.run was approved by person:a and person:b/,
  );
  assert.match(textOf({ event: 'approval.redeemed', status: 'refused' })!, /for a different call/);
  assert.equal(textOf({ event: 'approval.redeemed', status: 'rejected' }), undefined);
  assert.match(
    textOf({ event: 'permit.used', status: 'task', data: { permit_id: 'permit_1' } })!,
    /covered by permit_1, a permit for this task/,
  );
  assert.deepEqual(buildEventStep(event({ event: 'task.created' }), 'x'), []);
});

test('a person whom policy denied a decision is named', () => {
  assert.equal(
    textOf({ event: 'policy.denied', status: 'approval.decide', principal: 'person:eve' }),
    'policy did not let person:eve decide about deploy.run (approval_1)',
  );
  assert.equal(textOf({ event: 'policy.denied', status: 'data.delete' }), undefined);
});

test('a memory that an agent proposed is named', () => {
  const data = { memory_id: 'memory_1' };
  assert.match(textOf({ event: 'memory.proposed', data })!, /remember memory_1, which waits/);
  assert.equal(textOf({ event: 'memory.recalled' }), undefined);
});

test('what people did with the changes', () => {
  const by = { principal: 'person:ada' };
  const data = { apply_id: 'apply_1', files: 3, discarded: 2, error: 'conflict' };
  for (const [kind, text] of [
    ['task.applied', 'person:ada applied 3 changes to the directory (apply_1)'],
    ['task.discarded', 'person:ada discarded 2 changes'],
    ['task.undone', 'person:ada took apply_1 back: 3 paths restored'],
  ] as const)
    assert.equal(textOf({ event: kind, ...by, data }), text);
  const refused = { event: 'task.changes.refused' as const, status: 'apply', ...by, data };
  assert.equal(textOf(refused), 'the apply of person:ada was refused (conflict)');
});

test('what marked the task, and what its box was denied', () => {
  const why = 'the output of logs.read';
  assert.equal(
    textOf({ event: 'run.marked', status: 'outside', data: { why } }),
    'deployer is now marked "outside": the output of logs.read',
  );
  assert.equal(
    textOf({ event: 'network.denied', data: { host: 'a.example', port: 80, reason: 'host' } }),
    'egressd denied deployer the connection to a.example:80 (host)',
  );
});
