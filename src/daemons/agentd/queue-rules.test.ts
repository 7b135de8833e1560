// Queued runs wait for a busy agent, for the machine, or for nothing.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type AgentLoad, explainQueue } from './queue-rules.ts';

const load = (agent: string, queued: number, live: number, replicas = 4): AgentLoad => ({
  agent,
  replicas,
  queued,
  live,
});
const explain = (loads: AgentLoad[], runsLiveMax = 16) => {
  const { for_agents, for_machine } = explainQueue(loads, runsLiveMax);
  return [for_agents.map(({ agent, runs }) => `${agent} ${runs}`).join(), for_machine];
};

test('runs beyond the replicas of their agent wait for it, most first', () => {
  assert.deepEqual(explain([load('a', 1, 4), load('b', 5, 2), load('c', 9, 0, 2)]), [
    'c 7,b 3,a 1',
    0,
  ]);
});

test('runs whose agent is free wait for the machine when it is full', () => {
  assert.deepEqual(explain([load('a', 3, 2), load('b', 2, 0)], 2), ['a 1', 4]);
  assert.deepEqual(explain([load('a', 3, 2), load('b', 2, 0)], 4), ['a 1', 2]);
  assert.deepEqual(explain([load('a', 3, 6)], 4), ['a 3', 0], 'more live than either allows now');
});

test('runs that are about to start wait for nothing', () => {
  assert.deepEqual(explain([load('a', 4, 0), load('b', 0, 0)]), ['', 0]);
  assert.deepEqual(explain([]), ['', 0]);
});
