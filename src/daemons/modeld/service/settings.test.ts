// Tests budgets set by operators: refusals, immediate effect, and persistence.
import assert from 'node:assert/strict';
import { rmSync } from 'node:fs';
import { after, before, beforeEach, describe, test } from 'node:test';
import { manualClock } from '../../../platform/clock.ts';
import {
  admission,
  freshStateDir,
  rejects,
  runCaller,
  runId,
  startModeld,
  taskId,
  userMessage,
} from '../testing/harness.ts';
import { type FakeProvider, sendJson, startProvider } from '../testing/provider.ts';

const ask = (text: string) => ({ body: { model: 'default', messages: [userMessage(text)] } });

describe('budgets', () => {
  let provider: FakeProvider;
  before(async () => {
    provider = await startProvider();
  });
  after(() => provider.close());
  beforeEach(() => {
    provider.requests.length = 0;
  });

  const withProvider = (more: Record<string, unknown> = {}) => ({
    providers: { local: { dialect: 'openai', base_url: provider.url, models: ['gpt-test'] } },
    prices: { 'gpt-test': { input: 1, output: 10 } },
    ...more,
  });

  test('a refusal names the budget, the remaining amount, and how to raise it', async () => {
    const modeld = await startModeld({
      config: withProvider({ budgets: { site: { tokens: 60 } } }),
    });
    const refused = await rejects(modeld.operator.generate(ask('too much')), 'budget');
    assert.match(refused.message, /the site budget has 60 tokens left of 60/);
    assert.match(refused.hint, /operator can raise it: agentctl model budget site --tokens N/);
    assert.equal(refused.details?.left, 60);
    assert.equal(provider.requests.length, 0);
    const { budget } = await modeld.operator.setBudget({
      body: { subject: 'site', tokens_limit: 10_000 },
    });
    assert.equal(budget.tokens_limit, 10_000);
    await modeld.operator.generate(ask('now it goes'));
    assert.ok(modeld.events.some((event) => event.event === 'budget.set'));
    await modeld.stop();
  });

  test('the output limit of the request is clamped to the remaining budget', async () => {
    const modeld = await startModeld({
      config: withProvider({ budgets: { day: { cost_usd: 0.002 } } }),
    });
    await modeld.operator.generate(ask('cut'));
    const { text, body } = provider.requests[0]!;
    const sent = body.max_completion_tokens as number;
    assert.ok(sent < 8_192 && sent >= 16, String(sent));
    assert.ok(Buffer.byteLength(text) + sent * 10 <= 2_000);
    const { budgets } = await modeld.operator.listBudgets({});
    const day = budgets.find((one) => one.subject === 'day')!;
    assert.equal(day.cost_spent_microusd, 81);
    assert.equal(day.tokens_spent, 18);
    assert.equal(day.cost_reserved_microusd, 0);
    await modeld.stop();
  });

  test('agents have a daily budget, which renews at midnight', async () => {
    const clock = manualClock(Date.parse('2026-05-01T23:59:00Z'));
    const modeld = await startModeld({
      clock,
      config: withProvider({ budgets: { agents: { default: { tokens: 500 } } } }),
    });
    await modeld.agentd.admitRun({ params: { id: runId(1) }, body: admission(1) });
    const run = modeld.as(runCaller(1, 1));
    const call = () =>
      run.generate({ body: { model: 'm', messages: [userMessage('x'.repeat(200))] } });
    provider.usual = ({ response }) =>
      sendJson(response, 200, {
        id: '1',
        object: 'chat.completion',
        created: 1,
        model: 'gpt-test',
        choices: [
          { index: 0, message: { role: 'assistant', content: 'x' }, finish_reason: 'stop' },
        ],
        usage: { prompt_tokens: 200, completion_tokens: 100, total_tokens: 300 },
      });
    await call();
    const refused = await rejects(call(), 'budget');
    assert.match(refused.message, /agent coder/);
    assert.match(refused.hint, /renews at 2026-05-02T00:00:00/);
    clock.advance(120_000);
    await call();
    const { budgets } = await modeld.operator.listBudgets({});
    const agent = budgets.find((one) => one.subject === 'agent')!;
    assert.equal(agent.name, 'coder');
    assert.equal(agent.tokens_spent, 300);
    assert.equal(agent.renews_at, '2026-05-03T00:00:00.000Z');
    await modeld.stop();
  });

  test("a task tree shares its root's budget, and an operator's limit takes precedence", async () => {
    const modeld = await startModeld({ config: withProvider() });
    const root = admission(1, { max_tokens: 700 });
    const child = admission(2, { root_task_id: taskId(1) });
    await modeld.agentd.admitRun({ params: { id: runId(1) }, body: root });
    await modeld.agentd.admitRun({ params: { id: runId(2) }, body: child });
    const call = (n: number) =>
      modeld
        .as(runCaller(n, 1))
        .generate({ body: { model: 'm', messages: [userMessage('x'.repeat(200))] } });
    await call(1);
    await call(2);
    const refused = await rejects(call(2), 'budget');
    assert.match(refused.message, new RegExp(`task ${taskId(1)}`));
    await modeld.operator.setBudget({
      body: { subject: 'task', name: taskId(1), tokens_limit: 5_000 },
    });
    await call(2);
    // The next activation brings the manifest's limit again; the operator's stays.
    await modeld.agentd.admitRun({ params: { id: runId(1) }, body: { ...root, fence: 2 } });
    const { budgets } = await modeld.operator.listBudgets({});
    const tree = budgets.find((one) => one.subject === 'task' && one.name === taskId(1))!;
    assert.equal(tree.tokens_limit, 5_000);
    assert.equal(tree.tokens_spent, 900);
    await modeld.stop();
  });

  test('limits and spending survive a restart and a dismissal', async () => {
    const stateDir = freshStateDir();
    const first = await startModeld({ stateDir, config: withProvider() });
    await first.agentd.admitRun({
      params: { id: runId(1) },
      body: admission(1, { max_tokens: 1_000 }),
    });
    await first
      .as(runCaller(1, 1))
      .generate({ body: { model: 'm', messages: [userMessage('x'.repeat(200))] } });
    await first.agentd.setBudget({ body: { subject: 'agent', name: 'coder', tokens_limit: 9 } });
    await first.operator.setBudget({
      body: { subject: 'agent', name: 'coder', cost_limit_microusd: 7 },
    });
    await first.agentd.setBudget({ body: { subject: 'agent', name: 'coder', tokens_limit: 99 } });
    await first.agentd.dismissRun({ params: { id: runId(1) }, query: { fence: 1 } });
    await first.stop();
    const second = await startModeld({ stateDir, config: withProvider() });
    const { budgets } = await second.operator.listBudgets({});
    const of = (subject: string) => budgets.find((one) => one.subject === subject)!;
    assert.equal(of('site').tokens_spent, 300);
    assert.equal(of('agent').tokens_spent, 300);
    assert.equal(of('agent').tokens_limit, 9);
    assert.equal(of('agent').cost_limit_microusd, 7);
    assert.equal(of('task').tokens_spent, 300);
    assert.equal(of('task').tokens_limit, 1_000);
    await second.stop();
    rmSync(stateDir, { recursive: true, force: true });
  });

  test('a budget needs a valid name', async () => {
    const modeld = await startModeld({ config: withProvider() });
    await rejects(
      modeld.operator.setBudget({ body: { subject: 'site', name: 'x', tokens_limit: 1 } }),
      'bad_request',
    );
    await rejects(
      modeld.operator.setBudget({ body: { subject: 'agent', tokens_limit: 1 } }),
      'bad_request',
    );
    await modeld.stop();
  });
});
