// Site rules about task.delegate and message.send decide each call, and the event names the rule.
import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, it } from 'node:test';
import {
  allSent,
  decideAsPerson,
  hostToold,
  makeWorld,
  publishPolicy,
  type TooldTestHost,
  type TooldTestRun,
  type TooldWorld,
} from '../testing/host.ts';

const RULE =
  'forbid (principal is Agent, action == Action::"task.delegate", resource == Agent::"ops");';
const WORK = { agent: 'ops', goal: 'g', wait: false };

let world: TooldWorld;
let host: TooldTestHost;
let run: TooldTestRun;
beforeEach(async () => {
  world = makeWorld();
  host = await hostToold(world);
  run = await host.admit('one');
});
afterEach(async () => {
  await host.stop();
  world.remove();
});

const setRules = (site: string): void => {
  publishPolicy(world.dir, { version: 2, site });
  world.clock.advance(1_000);
};
const delegations = () => world.agentd.done.filter((line) => line.startsWith('delegate '));
const eventOf = async (n: number, suffix: string) => {
  await allSent(world);
  return world.audit.events.find(({ id }) => id === `${run.callId(n)}${suffix}`);
};

describe('a site rule about task.delegate', () => {
  it('control: without one, the delegation is done', async () => {
    assert.equal((await run.ask(1, 'task.delegate', WORK)).status, 'completed');
    assert.equal(delegations().length, 1);
  });

  it('forbids the delegation to the agent it names, and the event names the rule', async () => {
    setRules(RULE);
    const denied = await run.ask(1, 'task.delegate', WORK);
    assert.deepEqual([denied.status, denied.error?.code], ['denied', 'denied']);
    assert.deepEqual(delegations(), []);
    assert.match((await eventOf(1, '.denied'))?.policy ?? '', /^site:[^ ]+:1$/);
    const other = await run.ask(2, 'task.delegate', { ...WORK, agent: 'tester' });
    assert.equal(other.status, 'completed', 'control: another agent');
  });

  it('with @ask, the delegation waits for a person and is done once approved', async () => {
    setRules(`@ask("ops is busy") ${RULE}`);
    assert.equal((await run.ask(1, 'task.delegate', WORK)).status, 'waiting');
    assert.deepEqual(delegations(), []);
    assert.match((await eventOf(1, '.waiting.0'))?.policy ?? '', /^site:[^ ]+:1$/);
    decideAsPerson(world, run.callId(1), { decision: 'approved' });
    assert.equal((await run.ask(1, 'task.delegate', WORK)).status, 'completed');
    assert.equal(delegations().length, 1);
  });
});

describe('a site rule about message.send', () => {
  const SITE =
    'forbid (principal is Agent, action == Action::"message.send", resource == Person::"eve");';
  const send = (n: number, to: string) => run.ask(n, 'message.send', { to, text: 't' });

  it('forbids messages to the person it names, and the event names the rule', async () => {
    assert.equal((await send(1, 'person:eve')).status, 'completed', 'control: without the rule');
    setRules(SITE);
    assert.equal((await send(2, 'person:eve')).status, 'denied');
    assert.match((await eventOf(2, '.denied'))?.policy ?? '', /^site:[^ ]+:1$/);
    assert.equal((await send(3, 'person:alice')).status, 'completed', 'control: another person');
  });

  it('with @ask, the message waits for a person', async () => {
    setRules(`@ask("eve is busy") ${SITE}`);
    assert.equal((await send(1, 'person:eve')).status, 'waiting');
    assert.match((await eventOf(1, '.waiting.0'))?.policy ?? '', /^site:[^ ]+:1$/);
  });
});
