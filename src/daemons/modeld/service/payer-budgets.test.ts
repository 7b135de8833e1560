// Tests the budgets, rates and rotations of API keys, and the budgets of the people who own them.
import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, test } from 'node:test';
import { manualClock } from '../../../platform/clock.ts';
import { RawReply } from '../../../platform/dispatch.ts';
import type { Caller } from '../../../wire/caller.ts';
import { type CreateKeyBody, UsageBy } from '../../../wire/modeld.ts';
import {
  freshStateDir,
  type Modeld,
  type ModeldOptions,
  OPERATOR,
  rejects,
  startModeld,
  taskId,
  until,
} from '../testing/harness.ts';
import { type FakeProvider, startProvider } from '../testing/provider.ts';

/** One call: 11 tokens in for 1 USD and 7 out for 10 USD per million. */
const CALL_COST = 81;
const STREAMS = 50;

describe('who pays', () => {
  let provider: FakeProvider;
  before(async () => {
    provider = await startProvider();
  });
  after(() => provider.close());
  beforeEach(() => {
    provider.requests.length = 0;
  });

  const start = (more: Partial<ModeldOptions> = {}) =>
    startModeld({
      ...more,
      config: {
        providers: {
          local: { dialect: 'openai', base_url: `${provider.url}/v1`, models: ['gpt-test'] },
        },
        prices: { 'gpt-test': { input: 1, output: 10 } },
      },
    });
  const makeKey = async (modeld: Modeld, body: CreateKeyBody) =>
    (await modeld.operator.createKey({ body })).key;
  const post = async (modeld: Modeld, caller: Caller, more: object = {}) => {
    const body = {
      model: 'gpt-test',
      max_tokens: 50,
      messages: [{ role: 'user', content: 'hi' }],
      ...more,
    };
    const path = '/openai/v1/chat/completions';
    const reply = await modeld.dispatch.run({ method: 'POST', path, query: {}, body, caller });
    assert.ok(reply instanceof RawReply);
    if (typeof reply.body === 'string' || reply.body instanceof Uint8Array) return;
    for await (const piece of reply.body) assert.ok(piece.length > 0);
  };
  const asKey = (name: string, owner: string | null, secret: string): Caller => ({
    kind: 'key',
    principal: `key:${name}`,
    name,
    secretId: secret.slice(7, 19),
    owner,
    scopes: ['models'],
  });
  const spentOf = async (modeld: Modeld, subject: string, name: string) => {
    const { budgets } = await modeld.operator.listBudgets({});
    return budgets.find((one) => one.subject === subject && one.name === name);
  };

  test('fifty streams at once never spend more than the budget of their key', async () => {
    const modeld = await start();
    const limit = 10 * CALL_COST;
    const budget = { cost_limit_microusd: limit, period: 'day' } as const;
    const { secret } = await makeKey(modeld, { name: 'busy', budget });
    const caller = asKey('busy', null, secret);
    const ends = await Promise.allSettled(
      Array.from({ length: STREAMS }, () => post(modeld, caller, { stream: true, max_tokens: 10 })),
    );
    const view = (await spentOf(modeld, 'key', 'busy'))!;
    await until(async () => {
      const now = await spentOf(modeld, 'key', 'busy');
      return now!.cost_reserved_microusd === 0;
    }, 'every call to be settled');
    const done = ends.filter(({ status }) => status === 'fulfilled').length;
    const { cost_spent_microusd: spent } = (await spentOf(modeld, 'key', 'busy'))!;
    assert.ok(done > 0 && done < STREAMS, `${done} of ${STREAMS}`);
    assert.equal(spent, done * CALL_COST);
    assert.ok(spent <= limit, `${spent} of ${limit}`);
    assert.equal(view.period, 'day');
    for (const end of ends)
      if (end.status === 'rejected') assert.equal((end.reason as { code: string }).code, 'budget');
    const refused = await rejects(post(modeld, caller), 'budget');
    assert.match(refused.message, /the budget of key busy has .* left of \$0\.00081/);
    await post(modeld, OPERATOR);
    const free = asKey('free', null, (await makeKey(modeld, { name: 'free' })).secret);
    await post(modeld, free);
    await modeld.stop();
  });

  test("a person's budget is shared by the person and the keys that the person owns", async () => {
    const modeld = await start();
    const one = asKey(
      'one',
      'alice',
      (await makeKey(modeld, { name: 'one', owner: 'alice' })).secret,
    );
    const two = asKey('two', 'bob', (await makeKey(modeld, { name: 'two', owner: 'bob' })).secret);
    const { budget } = await modeld.operator.setBudget({
      body: { subject: 'person', name: 'alice', cost_limit_microusd: 700, period: 'month' },
    });
    assert.equal(budget.period, 'month');
    assert.match(budget.renews_at!, /-01T00:00:00\.000Z$/);
    await post(modeld, one);
    await post(modeld, OPERATOR);
    await post(modeld, two);
    await until(async () => {
      return (await spentOf(modeld, 'person', 'alice'))!.cost_spent_microusd === 2 * CALL_COST;
    }, 'the spending of alice');
    await modeld.operator.setBudget({
      body: { subject: 'person', name: 'alice', cost_limit_microusd: 100 },
    });
    assert.match((await rejects(post(modeld, one), 'budget')).message, /person alice/);
    await rejects(post(modeld, OPERATOR), 'budget');
    await post(modeld, two);
    await modeld.stop();
  });

  test('usage adds up by key, agent, person, model and task, also after a restart', async () => {
    const stateDir = freshStateDir();
    const first = await start({ stateDir });
    const owned = await makeKey(first, { name: 'owned', owner: 'alice' });
    const loose = await makeKey(first, { name: 'loose' });
    const alice: Caller = { kind: 'operator', principal: 'person:alice' };
    await post(first, asKey('owned', 'alice', owned.secret));
    await post(first, asKey('loose', null, loose.secret));
    await post(first, alice);
    await first.as(alice).generate({
      body: {
        model: 'gpt-test',
        messages: [{ role: 'user', parts: [{ type: 'text', text: 'hi' }] }],
        agent: 'coder',
        task_id: taskId(7),
      },
    });
    const expected: Record<UsageBy, [string | null, number][]> = {
      key: [
        [null, 2],
        ['loose', 1],
        ['owned', 1],
      ],
      agent: [
        [null, 3],
        ['coder', 1],
      ],
      person: [
        ['alice', 3],
        [null, 1],
      ],
      model: [['local/gpt-test', 4]],
      task: [
        [null, 3],
        [taskId(7), 1],
      ],
    };
    const check = async (modeld: Modeld, query: { since?: string }) => {
      for (const by of UsageBy.options) {
        const answer = await modeld.operator.usage({ query: { ...query, by } });
        const groups = answer.groups!.map(({ name, calls }) => [name, calls]);
        assert.deepEqual(groups.sort(), expected[by].sort(), by);
        const cost = answer.groups!.reduce((sum, group) => sum + group.cost_microusd, 0);
        assert.equal(cost, answer.total.cost_microusd, by);
        assert.ok(answer.groups!.every((group) => !group.is_unknown && group.calls > 0));
        assert.equal(answer.groups_after, undefined);
      }
    };
    await check(first, {});
    await first.stop();
    const second = await start({ stateDir });
    await check(second, { since: new Date(Date.now() - 7_200_000).toISOString() });
    const { groups } = await second.operator.usage({ query: { by: 'task', task_id: taskId(7) } });
    assert.deepEqual(
      groups!.map(({ name, calls }) => [name, calls]),
      [[taskId(7), 1]],
    );
    assert.equal((await second.operator.usage({ query: {} })).groups, undefined);
    await second.stop();
  });

  test('a month ends with the calendar month, UTC; spending outlives a restart', async () => {
    const clock = manualClock(Date.parse('2026-01-30T12:00:00Z'));
    const stateDir = freshStateDir();
    const first = await start({ clock, stateDir });
    const budget = { cost_limit_microusd: 700, period: 'month' } as const;
    const { secret, budget: made } = await makeKey(first, { name: 'ci', budget });
    assert.equal(made?.renews_at, '2026-02-01T00:00:00.000Z');
    const caller = asKey('ci', null, secret);
    const spent = async (modeld: Modeld) =>
      (await spentOf(modeld, 'key', 'ci'))!.cost_spent_microusd;
    await post(first, caller);
    await until(async () => (await spent(first)) === CALL_COST, 'the first call');
    clock.advance(24 * 3_600_000);
    await post(first, caller);
    await until(async () => (await spent(first)) === 2 * CALL_COST, 'a new day in the same month');
    await first.stop();

    const second = await start({ clock, stateDir });
    assert.equal(await spent(second), 2 * CALL_COST);
    clock.advance(24 * 3_600_000);
    await post(second, caller);
    await until(async () => (await spent(second)) === CALL_COST, 'a new month');
    await second.operator.setBudget({
      body: { subject: 'key', name: 'ci', cost_limit_microusd: 700, period: 'total' },
    });
    assert.equal(await spent(second), 0, 'another period counts from now');
    await post(second, caller);
    await until(async () => (await spent(second)) === CALL_COST, 'the first call in total');
    await second.operator.setBudget({ body: { subject: 'key', name: 'ci', period: 'month' } });
    assert.equal(await spent(second), CALL_COST, 'and the month still knows what it had');
    await second.operator.setBudget({ body: { subject: 'key', name: 'ci', period: 'total' } });
    await second.stop();
    const third = await start({ clock, stateDir });
    assert.equal(await spent(third), CALL_COST);
    await third.stop();
  });

  test('what a crash left open is charged to the key and its owner', async () => {
    const stateDir = freshStateDir();
    const first = await start({ stateDir });
    const { secret } = await makeKey(first, {
      name: 'ci',
      owner: 'alice',
      budget: { cost_limit_microusd: 5_000, period: 'total' },
    });
    await first.operator.setBudget({
      body: { subject: 'person', name: 'alice', cost_limit_microusd: 5_000, period: 'day' },
    });
    provider.plays.push(() => new Promise<never>(() => {}));
    void post(first, asKey('ci', 'alice', secret)).catch(() => undefined);
    await until(() => provider.requests.length === 1, 'the call at the provider');
    // Left as a crash would leave it.
    const second = await start({ stateDir });
    const ofKey = (await spentOf(second, 'key', 'ci'))!;
    const ofOwner = (await spentOf(second, 'person', 'alice'))!;
    assert.ok(ofKey.cost_spent_microusd > CALL_COST, 'its bound');
    assert.equal(ofOwner.cost_spent_microusd, ofKey.cost_spent_microusd);
    await second.stop();
  });
});
