// Who may write what to whom: each rule from both sides, and that no label is ever washed off.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { MESSAGE_TYPES, type MessageType } from '../../wire/agentd.ts';
import { FAULTS } from '../../wire/errors.ts';
import { Label } from '../../wire/primitives.ts';
import { checkMessage, labelsOfMessage, type MessageInput } from './message-rules.ts';

const usual: MessageInput = {
  type: 'TaskProgress',
  from: 'agent:coder',
  to: 'agent:planner',
  inThread: true,
  talkTo: null,
  serviceRunning: () => false,
};

/** `allow`, or the code of the refusal. */
function verdict(change: Partial<MessageInput>): string {
  const decision = checkMessage({ ...usual, ...change });
  if (decision.allow) return 'allow';
  assert.ok(decision.code in FAULTS);
  assert.notEqual(decision.message, '');
  return decision.code;
}

const SERVICES: Partial<Record<MessageType, string>> = {
  MemoryRecallRequest: 'memoryd',
  MemoryWriteProposal: 'memoryd',
  ToolRequest: 'toold',
  ApprovalRequest: 'approvald',
};
const spoken = MESSAGE_TYPES.filter((type) => !(type in SERVICES) && type !== 'TaskRequest');

test('within its thread an agent may write every type that is spoken', () => {
  assert.equal(spoken.length, 7);
  for (const type of spoken) assert.equal(verdict({ type }), 'allow', type);
});

test('outside its thread an agent writes only to those its manifest names', () => {
  assert.equal(verdict({ inThread: false }), 'denied');
  assert.equal(verdict({ inThread: false, talkTo: [] }), 'denied');
  assert.equal(verdict({ inThread: false, talkTo: ['researcher'] }), 'denied');
  assert.equal(verdict({ inThread: false, talkTo: ['planner'] }), 'allow');
  assert.equal(verdict({ inThread: true, talkTo: [] }), 'allow');
});

test('nobody writes to itself', () => {
  assert.equal(verdict({ to: 'agent:coder', talkTo: ['coder'] }), 'bad_request');
  assert.equal(verdict({ from: 'person:alice', to: 'person:alice' }), 'bad_request');
});

test('a TaskRequest is written by persons to agents; agents use task.delegate', () => {
  const type = 'TaskRequest';
  assert.equal(verdict({ type, from: 'person:alice' }), 'allow');
  assert.equal(verdict({ type, from: 'person:alice', to: 'person:bob' }), 'bad_request');
  for (const from of ['agent:coder', 'external:a2a:partner', 'service:toold']) {
    assert.equal(verdict({ type, from, talkTo: ['planner'] }), 'denied', from);
  }
});

test('a type that is for a service goes there, and says so when the service is absent', () => {
  for (const [type, name] of Object.entries(SERVICES) as [MessageType, string][]) {
    const to = `service:${name}`;
    const serviceRunning = (asked: string) => asked === name;
    for (const from of ['agent:coder', 'person:alice']) {
      assert.equal(verdict({ type, from }), 'bad_request');
      assert.equal(verdict({ type, from, to: 'service:modeld', serviceRunning }), 'bad_request');
      assert.equal(verdict({ type, from, to }), 'unavailable');
      assert.equal(verdict({ type, from, to, serviceRunning }), 'allow');
    }
    const decision = checkMessage({ ...usual, type, to });
    assert.ok(
      !decision.allow && decision.message.includes(name) && decision.message.includes(type),
    );
  }
});

test('a service takes its own types and signs of life, nothing else', () => {
  const memoryd = { to: 'service:memoryd', serviceRunning: () => true };
  for (const type of spoken) {
    const expected = type === 'Error' || type === 'Heartbeat' ? 'allow' : 'bad_request';
    assert.equal(verdict({ ...memoryd, type }), expected, type);
  }
});

test('a person may write to any agent, agents and services to persons', () => {
  assert.equal(verdict({ from: 'person:bob', inThread: false }), 'allow');
  assert.equal(verdict({ to: 'person:alice', inThread: false }), 'allow');
  assert.equal(verdict({ from: 'service:agentd', to: 'person:alice', inThread: false }), 'allow');
});

test('outsiders write only in threads they are part of, and cannot be written to', () => {
  const from = 'external:a2a:partner';
  assert.equal(verdict({ from, inThread: false }), 'denied');
  assert.equal(verdict({ from }), 'allow');
  assert.equal(verdict({ to: from }), 'unavailable');
});

test('the label says who wrote', () => {
  assert.deepEqual(labelsOfMessage('person:alice'), ['person']);
  assert.deepEqual(labelsOfMessage('agent:coder'), ['agent']);
  assert.deepEqual(labelsOfMessage('service:toold'), ['tool']);
  assert.deepEqual(labelsOfMessage('external:mail:x@example.org'), ['outside']);
  assert.deepEqual(labelsOfMessage('agent:coder', ['secret', 'own', 'outside', 'person']), [
    'person',
    'agent',
    'outside',
    'secret',
  ]);
});

test('no label of the sending run is washed off, however often the text is passed on', () => {
  const labels = fc.uniqueArray(fc.constantFrom(...Label.options));
  const agents = fc.array(fc.constantFrom('agent:a', 'agent:b', 'agent:c'), { minLength: 1 });
  fc.assert(
    fc.property(labels, agents, (marked, path) => {
      const last = path.reduce((held, from) => labelsOfMessage(from, held), marked);
      for (const label of marked) assert.ok(last.includes(label === 'own' ? 'agent' : label));
      assert.ok(last.includes('agent'));
      assert.equal(new Set(last).size, last.length);
    }),
  );
});
