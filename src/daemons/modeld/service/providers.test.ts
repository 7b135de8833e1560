// Tests providers set by operators: refusals, immediate effect, persistence, and that a key is only
// in its file and in one header.
import assert from 'node:assert/strict';
import { chmodSync, existsSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { freshStateDir, rejects, startModeld, userMessage } from '../testing/harness.ts';
import { type FakeProvider, sendJson, startProvider } from '../testing/provider.ts';

const ask = (text: string) => ({ body: { model: 'default', messages: [userMessage(text)] } });

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

  test('a provider is removed with its key, and one of its models without', async () => {
    const stateDir = freshStateDir();
    const config = {
      providers: { fixed: { dialect: 'openai', base_url: provider.url, models: ['c'] } },
    };
    const first = await startModeld({ stateDir, config });
    const params = { name: 'own' };
    const body = { dialect: 'openai', base_url: provider.url, key: 'sk-1' } as const;
    await first.operator.addProvider({ params, body: { ...body, models: ['a', 'b'] } });
    const call = (modeld: typeof first, model: string) =>
      modeld.operator.generate({ body: { model, messages: [userMessage('hi')] } });
    await call(first, 'a');
    const { provider: left } = await first.operator.removeProvider({
      params,
      query: { model: 'a' },
    });
    assert.equal(left?.has_key, true);
    await rejects(call(first, 'a'), 'not_found');
    await call(first, 'b');
    const refused = first.operator.removeProvider({ params: { name: 'fixed' }, query: {} });
    assert.match((await rejects(refused, 'conflict')).hint, /agentd\.yaml/);
    await rejects(
      first.operator.removeProvider({ params: { name: 'nobody' }, query: {} }),
      'not_found',
    );
    assert.deepEqual(await first.operator.removeProvider({ params, query: {} }), {
      provider: null,
    });
    await rejects(call(first, 'own/b'), 'not_found');
    assert.ok(!existsSync(join(stateDir, 'keys', 'own.key')));
    assert.ok(first.events.some(({ event }) => event === 'provider.removed'));
    const { rows } = await first.operator.usage({ query: {} });
    assert.equal(rows.filter((row) => row.provider === 'own').length, 2, 'its usage stays');
    // The same name starts anew, without the old key.
    const added = await first.operator.addProvider({ params, body: { ...body, key: undefined } });
    assert.equal(added.provider.has_key, false);
    await first.operator.removeProvider({ params, query: {} });
    await first.stop();
    const again = await startModeld({ stateDir, config });
    const { providers } = await again.operator.listModels({});
    assert.deepEqual(
      providers.map(({ name }) => name),
      ['fixed'],
    );
    await again.stop();
  });

  test('a provider that models of the configuration need cannot be removed', async () => {
    const stateDir = freshStateDir();
    const params = { name: 'own' };
    const first = await startModeld({ stateDir });
    const body = { dialect: 'openai', base_url: provider.url } as const;
    await first.operator.addProvider({ params, body });
    await first.stop();
    const config = { models: { big: { routes: [{ provider: 'own', model: 'x' }] } } };
    const routed = await startModeld({ stateDir, config });
    await rejects(routed.operator.removeProvider({ params, query: {} }), 'conflict');
    await routed.stop();
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
    const resultsOf = (route: (typeof chain.routes)[number]) =>
      Object.fromEntries(route.abilities.map(({ ability, result }) => [ability, result]));
    assert.deepEqual(resultsOf(chain.routes[0]!), {
      chat: 'yes',
      streaming: 'yes',
      tools: 'no',
      images: 'yes',
      responses: 'translated',
      count_tokens: 'estimated',
      embeddings: 'yes',
    });
    assert.equal(resultsOf(good.routes[1]!).embeddings, 'yes');
    assert.equal(resultsOf(good.routes[1]!).chat, 'untried');
    assert.ok(chain.routes[1]!.abilities.slice(1).every(({ result }) => result === 'untried'));
    const sent = provider.requests.map(({ text }) => text);
    assert.ok(sent.some((text) => text.includes('"image_url"')));
    assert.ok(sent.some((text) => text.includes('"report_colour"')));
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
