// Site rules about delegations and messages, through a whole runtime: forbidden, asked and
// approved, asked and rejected; and the same calls where no rule applies.
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { makeReviewer } from '../../src/daemons/approvald/testing/reviewer.ts';
import { eventually, taskEnded } from '../support/runtime.ts';
import { call, finishes, says } from '../support/scripted-model.ts';
import {
  create,
  doTask,
  manifestOf,
  type ScriptedWorld,
  startScriptedWorld,
} from '../support/scripted-world.ts';

const RULES = `@why("the accounts are closed")
forbid (principal is Agent, action == Action::"task.delegate", resource == Agent::"accountant");
@ask("the lawyer is expensive")
forbid (principal is Agent, action == Action::"task.delegate", resource == Agent::"lawyer");
@why("the accounts are closed")
forbid (principal is Agent, action == Action::"message.send", resource == Agent::"accountant");
@ask("the lawyer is expensive")
forbid (principal is Agent, action == Action::"message.send", resource == Agent::"lawyer");
`;
const TEAM = ['boss', 'accountant', 'lawyer', 'clerk'];
const SPEC = `{ replicas: 4, tools: { allow: [task.delegate, message.send] },
  team: { talkTo: [${TEAM.join(', ')}] } }`;

const calls = {
  'task.delegate': (to: string) =>
    call('task.delegate', { agent: to, goal: `Help as ${to}`, wait: false }),
  'message.send': (to: string) => call('message.send', { to, text: `hello ${to}` }),
} as const;

for (const tool of Object.keys(calls) as (keyof typeof calls)[])
  describe(`site rules about ${tool}`, () => {
    let world: ScriptedWorld;
    before(async () => {
      world = await startScriptedWorld({
        agents: Object.fromEntries(TEAM.map((name) => [name, manifestOf(name, SPEC)])),
        policies: { '10-team': RULES },
      });
      for (const name of TEAM) world.model.on(`Help as ${name}`, finishes('helped'));
    });
    after(() => world.stop());

    const plan = (goal: string, to: string): void =>
      world.model.on(goal, says(calls[tool](to)), ({ results }) => finishes(results.join('\n')));
    /** Returns the agents that got a task or a message in the task's thread. */
    const receivers = async (contextId: string): Promise<string[]> => {
      const { messages } = await world.agentd.listMessages({ query: { context_id: contextId } });
      const from = messages.filter((message) => message.from === 'agent:boss');
      return [...new Set(from.map(({ to }) => to))].filter((to) => to?.startsWith('agent:'));
    };
    const eventOf = (taskId: string, kind: string) =>
      eventually(`${kind} in the log`, async () => {
        const query = { limit: 1_000 };
        const { events } = await world.audit.task({ params: { task_id: taskId }, query });
        return events.find(({ event }) => event === kind);
      });
    const decide = async (goal: string, decision: 'approve' | 'reject') => {
      plan(goal, 'lawyer');
      const task = await create(world, goal, { agent: 'boss' });
      const params = await eventually('the approval', async () => {
        const query = { status: 'pending' as const };
        const { approvals } = await world.approvald.listApprovals({ query });
        const found = approvals.find(({ task_id }) => task_id === task.id);
        return found === undefined ? undefined : { id: found.id };
      });
      assert.deepEqual(await receivers(task.context_id), [], 'nothing is sent before');
      const body = decision === 'approve' ? { for: 'once' as const } : { reason: 'too dear' };
      await makeReviewer(world.approvald)[decision]({ params, body } as never);
      return taskEnded(world, task.id);
    };

    it('control: where no rule applies, it is done', async () => {
      plan('Use the clerk', 'clerk');
      const task = await doTask(world, 'Use the clerk', { agent: 'boss' });
      assert.deepEqual(await receivers(task.context_id), ['agent:clerk']);
    });

    it('forbidden: it is denied, and the event names the rule', async () => {
      plan('Use the accountant', 'accountant');
      const task = await doTask(world, 'Use the accountant', { agent: 'boss' });
      assert.match(task.result ?? '', /the accounts are closed/);
      assert.deepEqual(await receivers(task.context_id), []);
      const denied = await eventOf(task.id, 'tool.call.denied');
      assert.match(denied.policy ?? '', /^site:10-team\.cedar:/);
    });

    it('asked: it is done once, after a person approved', async () => {
      const task = await decide('Use the lawyer', 'approve');
      assert.equal(task.status, 'completed', JSON.stringify(task.error));
      assert.deepEqual(await receivers(task.context_id), ['agent:lawyer']);
    });

    it('asked: it is not done when a person rejects it', async () => {
      const task = await decide('Use the lawyer again', 'reject');
      assert.deepEqual(await receivers(task.context_id), []);
    });
  });
