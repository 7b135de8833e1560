// Money and tokens: every budget of a call must cover its maximum cost before it is sent. The error
// names the budget, what is left and who can raise it; after a raise the work continues.
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import type { BudgetView } from '../../src/wire/modeld.ts';
import { eventually, taskEnded } from '../support/runtime.ts';
import { call, finishes, says } from '../support/scripted-model.ts';
import {
  create,
  doTask,
  openWait,
  refusedWith,
  type ScriptedWorld,
  startScriptedWorld,
} from '../support/scripted-world.ts';

describe('budgets', () => {
  let world: ScriptedWorld;
  before(async () => {
    world = await startScriptedWorld();
  });
  after(() => world.stop());

  const budget = async (subject: BudgetView['subject'], name = '') =>
    (await world.modeld.listBudgets({})).budgets.find(
      (row) => row.subject === subject && row.name === name,
    );
  const limit = (
    subject: BudgetView['subject'],
    limits: { tokens_limit?: number | null; cost_limit_microusd?: number | null },
    name?: string,
  ) =>
    world.modeld.setBudget({
      body: { subject, ...(name === undefined ? {} : { name }), ...limits },
    });
  const spentOf = (view: BudgetView | undefined) => view?.tokens_spent ?? 0;

  for (const [subject, name] of [
    ['site', 'site'],
    ['day', 'daily'],
  ] as const) {
    it(`[R100] the ${subject}: no call is sent beyond it, and work continues after a raise`, async () => {
      const spent = spentOf(await budget(subject));
      await limit(subject, { tokens_limit: spent + 50 });
      const before = world.model.scenes.length;
      const task = await doTask(world, `Spend for the ${subject}`, { agent: 'coder' });
      assert.equal(task.error?.code, 'budget');
      assert.match(task.error?.hint ?? '', new RegExp(`agentctl task retry ${task.id}$`));
      assert.match(
        task.error?.message ?? '',
        new RegExp(`the ${name} budget has 50 tokens left of ${spent + 50} tokens`),
      );
      assert.match(
        task.error?.message ?? '',
        new RegExp(`An operator can raise it: agentctl model budget ${subject} --tokens N`),
      );
      assert.equal(world.model.scenes.length, before, 'no provider was called');
      await limit(subject, { tokens_limit: null });
      const { task: again } = await world.agentd.retryTask({ params: { id: task.id } });
      assert.equal((await taskEnded(world, again.id)).status, 'completed');
    });
  }

  it('[C82] [R100] an agent’s daily budget: in money too, and renewed the next day', async () => {
    await limit('agent', { cost_limit_microusd: 1_000 }, 'researcher');
    const refused = await doTask(world, 'Spend a day', { agent: 'researcher' });
    assert.match(
      refused.error?.message ?? '',
      /the budget of agent researcher has \$0\.00\d* left of \$0\.001/,
    );
    assert.match(refused.error?.message ?? '', /renews at 2026-03-02T00:00:00/);
    await limit('agent', { cost_limit_microusd: 200_000, tokens_limit: 13_000 }, 'researcher');
    assert.equal((await doTask(world, 'Spend a day', { agent: 'researcher' })).status, 'completed');
    const before = await budget('agent', 'researcher');
    assert.equal(before?.tokens_spent, 120, 'the actual use, not the reservation');
    assert.equal(before?.cost_spent_microusd, 100 * 1 + 20 * 10);
    world.clock.advance(86_400_000);
    assert.equal((await budget('agent', 'researcher'))?.tokens_spent, 0);
    await limit('agent', { cost_limit_microusd: null, tokens_limit: null }, 'researcher');
  });

  it('[R100] [R407] a tree of tasks: subtasks spend from the root’s budget', async () => {
    world.model.on(
      'Spend together',
      says(
        call('task.delegate', { agent: 'coder', goal: 'Spend a share' }),
        call('task.delegate', { agent: 'researcher', goal: 'Spend a share' }),
      ),
      ({ results }) => finishes(results.join('\n')),
    );
    let turns = 0;
    world.model.on('Spend a share', ({ step }) =>
      step < 40 ? says(call('test.echo', { text: `${turns++}` })) : finishes('never so far'),
    );
    const limits = { max_tokens: 20_000 };
    const task = await doTask(world, 'Spend together', { agent: 'planner', limits });
    const { tasks } = await world.agentd.listTasks({ query: { root_task_id: task.id } });
    assert.equal(tasks.length, 3);
    const reasons = tasks.map(({ error }) => error?.message ?? '').join('\n');
    assert.match(reasons, new RegExp(`budget of task ${task.id} has \\d+ tokens left of 20000`));
    let spent = 0;
    for (const { id } of tasks) {
      const { total } = await world.modeld.usage({ query: { task_id: id } });
      spent += total.usage.input_tokens + total.usage.output_tokens;
    }
    assert.ok(spent > 1_000 && spent <= 20_000, `${spent} tokens`);
  });

  it('[R100] a raise of a waiting task’s budget is in effect when it continues', async () => {
    world.model.on('Stop for money', says(call('timer.wait', { after_s: 60 })), finishes('rich'));
    const limits = { max_cost_microusd: 90_000 };
    const task = await create(world, 'Stop for money', { agent: 'coder', limits });
    await openWait(world, task.id, 'timer');
    await eventually('it to park', async () =>
      (await world.agentd.status({})).runs.parked === 1 ? true : undefined,
    );
    await limit('task', { cost_limit_microusd: 310 }, task.id);
    await limit('task', { cost_limit_microusd: 500_000 }, task.id);
    world.clock.advance(61_000);
    assert.equal((await taskEnded(world, task.id)).result, 'rich');
    const view = await budget('task', task.id);
    assert.equal(view?.cost_limit_microusd, 500_000, 'the operator’s limit stays');
    assert.equal(view?.tokens_spent, 240);
  });

  it('[R100] a call’s output is limited to the remaining budget', async () => {
    const spent = spentOf(await budget('day'));
    await limit('day', { tokens_limit: spent + 3_000 });
    const body = {
      model: 'default',
      messages: [{ role: 'user' as const, parts: [{ type: 'text' as const, text: 'briefly' }] }],
    };
    await world.modeld.generate({ body });
    const tokensMax = Number(world.model.scenesFor('briefly')[0]?.body.max_completion_tokens);
    assert.ok(tokensMax >= 16 && tokensMax < 3_000, `${tokensMax} of 8192`);
    await limit('day', { tokens_limit: spent + 120 + 20 });
    const error = await refusedWith('budget', world.modeld.generate({ body }));
    assert.equal(error.details?.subject, 'day');
    assert.equal(error.details?.left, 20);
    assert.equal(error.details?.raised_by, 'operator');
    await limit('day', { tokens_limit: null });
  });

  it('[R105] nothing stays reserved, and the refusals are logged', async () => {
    const { budgets } = await world.modeld.listBudgets({});
    assert.ok(budgets.length > 3);
    for (const row of budgets)
      assert.deepEqual([row.tokens_reserved, row.cost_reserved_microusd], [0, 0], row.subject);
    const subjects = ['agent', 'day', 'site', 'task'];
    const events = await eventually('the refusals in the log', async () => {
      const { events: all } = await world.audit.events({ query: { limit: 1_000, order: 'desc' } });
      const refused = all.filter(({ event }) => event === 'model.call.refused');
      const found = [...new Set(refused.map(({ data }) => data?.subject))].sort();
      return found.join() === subjects.join() ? all : undefined;
    });
    assert.ok(
      events.some(
        ({ event, principal }) => event === 'budget.set' && principal === 'person:tester',
      ),
    );
  });
});
