// Message rules: who may write what to whom, and no label is ever lost.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { MESSAGE_TYPES, type MessageType } from '../../wire/agentd.ts';
import { FAULTS } from '../../wire/errors.ts';
import { Label } from '../../wire/primitives.ts';
import { checkMessage, computeMessageLabels, type MessageInput } from './message-rules.ts';

const usual: MessageInput = {
  type: 'TaskProgress',
  from: 'agent:coder',
  to: 'agent:planner',
  inThread: true,
  talkTo: null,
};

/** Returns `allow` or the fault code. */
function decide(change: Partial<MessageInput>): string {
  const decision = checkMessage({ ...usual, ...change });
  if (decision.allow) return 'allow';
  assert.ok(decision.code in FAULTS);
  assert.notEqual(decision.message, '');
  return decision.code;
}

const CALLED: Partial<Record<MessageType, { agent: RegExp; person: RegExp }>> = {
  MemoryRecallRequest: { agent: /memory\.recall/, person: /agentctl memory search/ },
  MemoryWriteProposal: { agent: /memory\.propose/, person: /agentctl memory propose/ },
  ToolRequest: { agent: /Call the tool/, person: /agentctl task create/ },
  ApprovalRequest: { agent: /Call the tool/, person: /agentctl approvals/ },
};
const COMMON_TYPES = MESSAGE_TYPES.filter((type) => !(type in CALLED) && type !== 'TaskRequest');

test('within its thread an agent may write every common type', () => {
  assert.equal(COMMON_TYPES.length, 7);
  for (const type of COMMON_TYPES) assert.equal(decide({ type }), 'allow', type);
});

test('outside its thread an agent writes only to those its manifest names', () => {
  assert.equal(decide({ inThread: false }), 'denied');
  assert.equal(decide({ inThread: false, talkTo: [] }), 'denied');
  assert.equal(decide({ inThread: false, talkTo: ['researcher'] }), 'denied');
  assert.equal(decide({ inThread: false, talkTo: ['planner'] }), 'allow');
  assert.equal(decide({ inThread: true, talkTo: [] }), 'allow');
});

test('no principal writes to itself', () => {
  assert.equal(decide({ to: 'agent:coder', talkTo: ['coder'] }), 'bad_request');
  assert.equal(decide({ from: 'person:alice', to: 'person:alice' }), 'bad_request');
});

test('a TaskRequest is written by persons to agents; agents use task.delegate', () => {
  const type = 'TaskRequest';
  assert.equal(decide({ type, from: 'person:alice' }), 'allow');
  assert.equal(decide({ type, from: 'person:alice', to: 'person:bob' }), 'bad_request');
  for (const from of ['agent:coder', 'external:a2a:partner', 'service:toold']) {
    assert.equal(decide({ type, from, talkTo: ['planner'] }), 'denied', from);
  }
});

test('what a service does is called: such a message is refused with the call, to whomever', () => {
  for (const [name, hints] of Object.entries(CALLED)) {
    const type = name as MessageType;
    for (const to of ['service:memoryd', 'service:toold', 'agent:planner', 'person:bob'] as const)
      for (const [from, hint] of [
        ['agent:coder', hints.agent],
        ['person:alice', hints.person],
      ] as const) {
        const decision = checkMessage({ ...usual, type, from, to });
        assert.ok(!decision.allow && decision.code === 'bad_request', `${type} to ${to}`);
        assert.match(decision.message, new RegExp(type));
        assert.match(decision.hint ?? '', hint);
      }
  }
});

test('no message is for a service', () => {
  for (const type of COMMON_TYPES)
    for (const from of ['agent:coder', 'person:alice'])
      assert.equal(decide({ from, type, to: 'service:memoryd' }), 'bad_request', type);
});

test('a person may write to any agent, agents and services to persons', () => {
  assert.equal(decide({ from: 'person:bob', inThread: false }), 'allow');
  assert.equal(decide({ to: 'person:alice', inThread: false }), 'allow');
  assert.equal(decide({ from: 'service:agentd', to: 'person:alice', inThread: false }), 'allow');
});

test('external senders write only in their threads, and cannot be written to', () => {
  const from = 'external:a2a:partner';
  assert.equal(decide({ from, inThread: false }), 'denied');
  assert.equal(decide({ from }), 'allow');
  assert.equal(decide({ to: from }), 'unavailable');
});

test('the label names the kind of sender', () => {
  assert.deepEqual(computeMessageLabels('person:alice'), ['person']);
  assert.deepEqual(computeMessageLabels('agent:coder'), ['agent']);
  assert.deepEqual(computeMessageLabels('service:toold'), ['tool']);
  assert.deepEqual(computeMessageLabels('external:mail:x@example.org'), ['outside']);
  assert.deepEqual(computeMessageLabels('agent:coder', ['secret', 'own', 'outside', 'person']), [
    'person',
    'agent',
    'outside',
    'secret',
  ]);
});

test('no label of the sending run is lost, however often the text is passed on', () => {
  const labels = fc.uniqueArray(fc.constantFrom(...Label.options));
  const agents = fc.array(fc.constantFrom('agent:a', 'agent:b', 'agent:c'), { minLength: 1 });
  fc.assert(
    fc.property(labels, agents, (marked, path) => {
      const last = path.reduce((labels, from) => computeMessageLabels(from, labels), marked);
      for (const label of marked) assert.ok(last.includes(label === 'own' ? 'agent' : label));
      assert.ok(last.includes('agent'));
      assert.equal(new Set(last).size, last.length);
    }),
  );
});
