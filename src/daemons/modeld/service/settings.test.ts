// Tests budgets and providers set by operators: refusals, immediate effect, persistence, and that a
// key is only in its file and in one header.
import assert from 'node:assert/strict';
import { chmodSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
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

describe('providers', () => {
  const KEY = 'sk-test-0123456789abcdef';
  let provider: FakeProvider;
  let stateDir: string;
  before(async () => {
    provider = await startProvider();
    stateDir = freshStateDir();
  });
  after(async () => {
    await provider.close();
    rmSync(stateDir, { recursive: true, force: true });
  });

  test('without any model, the fault explains how to add one', async () => {
    const modeld = await startModeld();
    const missing = await rejects(modeld.operator.generate(ask('hi')), 'not_found');
    assert.match(missing.hint, /agentctl model add/);
    await modeld.stop();
  });

  test('an added provider takes effect immediately, persists, and its key is never shown', async () => {
    const modeld = await startModeld({ stateDir });
    const add = (name: string, more: Record<string, unknown>) =>
      modeld.operator.addProvider({
        params: { name },
        body: { dialect: 'openai', base_url: `${provider.url}/v1`, ...more } as never,
      });
    const { provider: view } = await add('mine', { key: KEY, models: ['gpt-test'] });
    assert.equal(view.has_key, true);
    assert.deepEqual(view.labels_allowed, ['person', 'own', 'agent', 'tool', 'outside']);
    const response = await modeld.operator.generate(ask('hi'));
    assert.equal(response.provider, 'mine');
    assert.equal(provider.requests[0]!.headers.authorization, `Bearer ${KEY}`);
    // A provider that quotes the key in its error.
    provider.plays.push(({ response }) =>
      sendJson(response, 401, { error: { message: `bad key ${KEY}`, type: 'invalid_api_key' } }),
    );
    const refused = await rejects(modeld.operator.generate(ask('hi')), 'provider_auth');
    const { calls } = await modeld.operator.listCalls({ query: {} });
    const models = await modeld.operator.listModels({});
    const seen = [
      modeld.allOutput(),
      JSON.stringify([view, response, calls, models, refused.toBody()]),
      refused.message,
      JSON.stringify(process.env),
    ].join('\n');
    assert.ok(!seen.includes(KEY) && !seen.includes('0123456789abcdef'));
    const file = join(stateDir, 'keys', 'mine.key');
    assert.equal(statSync(file).mode & 0o777, 0o600);
    assert.ok(!readFileSync(join(stateDir, 'modeld.sqlite')).includes(KEY));
    await rejects(add('mine', { key: 'two\nlines' }), 'bad_request');
    await rejects(add('rehearsal', {}), 'bad_request');
    await rejects(add('other', { base_url: 'ftp://x' }), 'bad_request');
    await rejects(add('other', { base_url: 'http://u:secret@x/' }), 'bad_request');
    await modeld.stop();
    const again = await startModeld({ stateDir });
    provider.requests.length = 0;
    await again.operator.generate(ask('hi'));
    assert.equal(provider.requests[0]!.headers.authorization, `Bearer ${KEY}`);
    await again.stop();
  });

  test('a key file that others can read is rejected, with a hint', async () => {
    const file = join(stateDir, 'own.key');
    writeFileSync(file, `${KEY}\n`, { mode: 0o644 });
    chmodSync(file, 0o644);
    const config = {
      providers: { local: { dialect: 'openai', base_url: provider.url, key_file: file } },
    };
    const refused = await rejects(startModeld({ config }), 'bad_config');
    assert.match(refused.hint, /chmod 600/);
    chmodSync(file, 0o600);
    writeFileSync(file, '\n');
    assert.match((await rejects(startModeld({ config }), 'bad_config')).hint, /only the key/);
    rmSync(file);
    const missing = await rejects(startModeld({ config }), 'bad_config');
    assert.match(missing.message, /cannot be read \(ENOENT\)/);
    assert.match(missing.hint, /Write the key there/);
    writeFileSync(file, `${KEY}\n`, { mode: 0o600 });
    const modeld = await startModeld({ config });
    const { providers } = await modeld.operator.listModels({});
    assert.equal(providers[0]?.has_key, true);
    assert.match(providers[0]?.reason ?? '', /agentctl model add local --model/);
    await rejects(
      modeld.operator.addProvider({
        params: { name: 'local' },
        body: { dialect: 'openai', base_url: provider.url },
      }),
      'conflict',
    );
    await modeld.stop();
    rmSync(file);
    await rejects(startModeld({ config }), 'bad_config');
  });

  test('a credential is read from the directory that was passed', async () => {
    writeFileSync(join(stateDir, 'anthropic-key'), 'from-credential', { mode: 0o400 });
    const providers = {
      local: {
        dialect: 'anthropic',
        base_url: provider.url,
        key_credential: 'anthropic-key',
        models: ['claude-test'],
      },
    };
    await rejects(startModeld({ config: { providers } }), 'bad_config');
    const modeld = await startModeld({ config: { providers, credentials_dir: stateDir } });
    provider.requests.length = 0;
    await modeld.operator.generate(ask('hi'));
    assert.equal(provider.requests[0]!.headers['x-api-key'], 'from-credential');
    await modeld.stop();
  });

  test('a route to an unknown provider fails the start', async () => {
    const config = { models: { big: { routes: [{ provider: 'nobody', model: 'x' }] } } };
    const refused = await rejects(startModeld({ config }), 'bad_config');
    assert.match(refused.message, /nobody/);
  });

  test('testing a model tests every route, or a provider, with small calls', async () => {
    const modeld = await startModeld({
      config: {
        providers: {
          good: { dialect: 'openai', base_url: provider.url, models: ['gpt-test', 'embed-test'] },
          bad: { dialect: 'openai', base_url: 'http://127.0.0.1:1' },
        },
        models: {
          chain: {
            routes: [
              { provider: 'good', model: 'gpt-test' },
              { provider: 'bad', model: 'other' },
            ],
          },
        },
      },
    });
    const good = await modeld.operator.testModel({ body: { name: 'good' } });
    assert.equal(good.ok, true, good.message);
    assert.match(good.message, /vector of 3 numbers/);
    const chain = await modeld.operator.testModel({ body: { name: 'chain' } });
    assert.equal(chain.ok, false);
    assert.equal(chain.provider, 'good');
    assert.match(chain.message, /good\/gpt-test: ok/);
    assert.match(chain.message, /bad\/other: failed/);
    await modeld.stop();
  });

  test('an unknown price is a guess, until the operator sets one', async () => {
    const stateDir = freshStateDir();
    const modeld = await startModeld({ stateDir });
    const put = (more: Record<string, unknown> = {}) =>
      modeld.operator.addProvider({
        params: { name: 'own' },
        body: { dialect: 'openai', base_url: provider.url, models: ['tiny'], ...more },
      });
    const priceNow = async (at = modeld) =>
      (await at.operator.listModels({})).models.find(({ name }) => name === 'tiny')!.price;
    await put();
    assert.deepEqual(await priceNow(), { input: 15, output: 75, is_guess: true });
    const call = { body: { model: 'tiny', messages: [userMessage('hi')] } };
    assert.ok((await modeld.operator.generate(call)).cost_microusd > 0);
    assert.equal((await modeld.operator.usage({ query: {} })).rows[0]!.cost_is_guess, true);
    await put({ price: { input: 0, output: 0 } });
    assert.equal((await modeld.operator.generate(call)).cost_microusd, 0);
    await put({ models: ['tiny', 'other'] });
    assert.deepEqual(await priceNow(), { input: 0, output: 0, is_guess: false });
    await modeld.stop();
    const again = await startModeld({ stateDir });
    assert.deepEqual(await priceNow(again), { input: 0, output: 0, is_guess: false });
    assert.equal((await again.operator.generate(call)).cost_microusd, 0);
    await again.stop();
    rmSync(stateDir, { recursive: true, force: true });
  });
});
