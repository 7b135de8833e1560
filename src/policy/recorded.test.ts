// The requests of a recorded decision can be restored from its event.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type AuditEvent, NewEvent } from '../wire/events.ts';
import { readDecision, recordDecision } from './recorded.ts';
import { callRequests, type PolicyDecision, type Touch } from './request.ts';

const tool = {
  name: 'http.fetch',
  risk: 'low',
  reversibility: 'read-only',
  idempotent: true,
  level: 'L4',
};
const answer = (rules: string[]): PolicyDecision => ({
  answer: 'ask',
  rules,
  reason: '',
  version: 7,
});

function eventOf(recorded: { policy: string; data: object }): AuditEvent {
  const event = {
    id: 'call_1.attempted.1',
    ts: '2026-01-01T00:00:00.000Z',
    event: 'tool.call.attempted',
    source: 'toold',
    source_store: 's',
    source_seq: 1,
    agent: 'coder',
    tool: tool.name,
    task_id: 'task_1',
    root_task_id: 'task_0',
    call_id: 'call_1',
    ...recorded,
  };
  const checked = NewEvent.safeParse(event);
  assert.ok(checked.success, JSON.stringify(checked.error?.issues));
  return { ...checked.data, seq: 1 };
}

test('requests are restored, except for what events omit', () => {
  const touches: Touch[] = [
    { action: 'net.connect', host: 'GitHub.com', port: 443, method: 'get', urlPath: '/a/secret' },
    { action: 'net.connect', host: 'docs.org', port: 443, granted: true },
    { action: 'file.write', path: '/workspace/ü "x"' },
    { action: 'file.delete', path: '/workspace/build', recursive: true },
    { action: 'file.read', path: '/srv/app', declared: true },
  ];
  const facts = {
    agent: 'coder',
    taskId: 'task_1',
    rootTaskId: 'task_0',
    tool,
    touches,
    labels: ['outside', 'tool'],
  };
  const event = eventOf(recordDecision(facts, answer(['base:outside-sends'])));
  assert.ok(!JSON.stringify(event).includes('secret'));
  const whole = readDecision(event, { call: { url: 'https://github.com/a/secret?q=1' } });
  assert.deepEqual(whole?.requests, callRequests(facts));
  assert.deepEqual(
    [whole?.answer, whole?.version, whole?.rules],
    ['ask', 7, ['base:outside-sends']],
  );
  assert.ok(whole?.isWhole);
  const other = readDecision(event, { call: { url: 'https://other.org/a/secret' } });
  assert.equal(other?.requests[1]?.context.url_path, undefined);
});

test('touches that do not fit are reported as missing', () => {
  const long: Touch = { action: 'file.read', path: `/${'a/'.repeat(1_000)}a` };
  const short: Touch = { action: 'file.read', path: '/a' };
  const rules = Array.from({ length: 40 }, (_, i) => `site:20-a-long-name-of-a-file.cedar:${i}`);
  for (const touches of [[short, long], Array.from({ length: 9 }, () => short)]) {
    const event = eventOf(recordDecision({ tool, touches, labels: [] }, answer(rules)));
    assert.equal(readDecision(event)?.isWhole, false);
    assert.match(event.policy!, / \+\d+$/);
    assert.ok(readDecision(event)!.rules.every((id) => rules.includes(id)));
  }
});

test('an event without a policy decision is ignored', () => {
  assert.equal(
    readDecision(eventOf({ policy: 'toold:known', data: { code: 'unknown_tool' } })),
    undefined,
  );
});
