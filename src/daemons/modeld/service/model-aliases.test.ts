// Tests aliases in the daemon: who may use them, what is charged, recorded and decided, and how
// operators set them.
import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, test } from 'node:test';
import { RawReply } from '../../../platform/dispatch.ts';
import type { Caller, KeyCaller } from '../../../wire/caller.ts';
import {
  admission,
  freshStateDir,
  type Modeld,
  type ModeldOptions,
  OPERATOR,
  rejects,
  runCaller,
  runId,
  startModeld,
} from '../testing/harness.ts';
import { type FakeProvider, startProvider } from '../testing/provider.ts';

const MESSAGES = [{ role: 'user', content: 'hi' }];

describe('aliases', () => {
  let provider: FakeProvider;
  before(async () => {
    provider = await startProvider();
  });
  after(() => provider.close());
  beforeEach(() => {
    provider.requests.length = 0;
  });

  const start = (models: string[], more: Partial<ModeldOptions> = {}, config = {}) =>
    startModeld({
      ...more,
      config: {
        providers: { local: { dialect: 'openai', base_url: `${provider.url}/v1`, models } },
        prices: { cheap: { input: 1, output: 10 }, dear: { input: 100, output: 1_000 } },
        ...config,
      },
    });
  const ask = async (modeld: Modeld, model: string, caller: Caller = OPERATOR) => {
    const body = { model, max_tokens: 100, messages: MESSAGES };
    const path = '/anthropic/v1/messages';
    const { dispatch } = modeld;
    const reply = await dispatch.run({ method: 'POST', path, query: {}, body, caller });
    assert.ok(reply instanceof RawReply);
    const answer = JSON.parse(String(reply.body)) as { model: string };
    return { answer, headers: reply.headers, sent: provider.requests.at(-1)!.body.model };
  };
  const lastCall = async ({ operator }: Modeld) =>
    (await operator.listCalls({ query: { limit: 1 } })).calls[0]!;

  test('a person asks for the name of a vendor, and the only model answers under it', async () => {
    const modeld = await start(['cheap', 'text-embed']);
    const { answer, headers, sent } = await ask(modeld, 'claude-sonnet-4-5');
    assert.equal(sent, 'cheap');
    assert.equal(answer.model, 'claude-sonnet-4-5');
    assert.equal(headers['agentd-model'], 'cheap');
    const call = await lastCall(modeld);
    assert.equal(call.model, 'cheap');
    assert.equal(call.cost_microusd, 81, 'at the price of the real model');
    const { id } = (await modeld.operator.openaiModel({
      params: { id: 'gpt-5' },
    })) as { id: string };
    assert.equal(id, 'gpt-5');
    await rejects(modeld.operator.anthropicModel({ params: { id: 'chaep' } }), 'not_found');
    await modeld.stop();
  });

  test('with several models people choose, by command or in the configuration', async () => {
    const stateDir = freshStateDir();
    const configured = { aliases: { 'gpt-*': 'dear' } };
    const modeld = await start(['cheap', 'dear'], { stateDir }, configured);
    const refused = await rejects(ask(modeld, 'claude-x'), 'not_found');
    assert.match(refused.hint, /agentctl model alias/);
    assert.equal((await ask(modeld, 'gpt-5')).sent, 'dear');
    const set = (pattern: string, model: string | null) =>
      modeld.operator.setAlias({ body: { pattern, model } });
    const { aliases } = await set('claude-*', 'cheap');
    assert.deepEqual(aliases.slice(0, 3), [
      { pattern: 'claude-*', model: 'cheap', set_by: 'operator' },
      { pattern: 'gpt-*', model: 'dear', set_by: 'config' },
      { pattern: 'chatgpt-*', model: 'default', set_by: 'built-in' },
    ]);
    assert.equal((await ask(modeld, 'claude-x')).sent, 'cheap');
    await rejects(set('gpt-*', 'cheap'), 'conflict');
    await rejects(set('x-*', 'chaep'), 'not_found');
    await rejects(set('y-*', 'claude-x'), 'not_found');
    await rejects(set('z-*', null), 'not_found');
    await rejects(set('default', 'cheap'), 'bad_request');
    const event = modeld.events.findLast(({ event }) => event === 'alias.set');
    assert.deepEqual(event?.data, { pattern: 'claude-*', model: 'cheap' });
    await modeld.stop();

    const again = await start(['cheap', 'dear'], { stateDir }, configured);
    assert.equal((await ask(again, 'claude-x')).sent, 'cheap', 'it survives a restart');
    await again.operator.setAlias({ body: { pattern: 'claude-*', model: null } });
    await rejects(ask(again, 'claude-x'), 'not_found');
    await again.stop();

    const without = await start(['dear'], { stateDir }, { aliases: { 'o9*': 'cheap' } });
    const gone = await rejects(ask(without, 'o9'), 'not_found');
    assert.match(gone.message, /model o9 stands for cheap, which no provider offers/);
    await without.stop();
  });

  test("a run gets its own model for a vendor's name, and policy decides on any other", async () => {
    const mine = 'permit (principal, action == Action::"model.use", resource == Model::"cheap");';
    const policy = { agents: { coder: {}, other: {} }, site: mine };
    const modeld = await start(['dear', 'cheap'], { policy }, { aliases: { 'gpt-*': 'dear' } });
    const body = admission(1, { model: 'cheap' });
    await modeld.agentd.admitRun({ params: { id: runId(1) }, body });
    const run = runCaller(1, 1);
    const { answer, sent } = await ask(modeld, 'claude-haiku-4-5', run);
    assert.equal(sent, 'cheap');
    assert.equal(answer.model, 'claude-haiku-4-5');
    assert.equal((await lastCall(modeld)).model, 'cheap');
    const refused = await rejects(ask(modeld, 'gpt-5', run), 'denied');
    assert.match(refused.message, /use model dear/);
    await rejects(ask(modeld, 'dear', run), 'denied');
    assert.equal(provider.requests.length, 1);
    const found = await modeld.as(run).anthropicModel({ params: { id: 'claude-haiku-4-5' } });
    assert.equal((found as { id: string }).id, 'claude-haiku-4-5');
    await modeld.stop();

    const open = await start(['dear', 'cheap'], {}, { aliases: { 'gpt-*': 'dear' } });
    await open.agentd.admitRun({ params: { id: runId(1) }, body });
    assert.equal((await ask(open, 'gpt-5', run)).sent, 'dear', 'control: policy allows it');
    await open.stop();
  });

  test('a limited key needs the model that the name stands for', async () => {
    const modeld = await start(['cheap', 'dear'], {}, { aliases: { 'gpt-*': 'dear' } });
    const keyFor = async (name: string, models: string[]): Promise<KeyCaller> => {
      const { key } = await modeld.operator.createKey({ body: { name, models } });
      const secretId = key.secret.slice('agentd_'.length, 19);
      return { kind: 'key', principal: `key:${name}`, name, secretId, owner: null, scopes: [] };
    };
    const scoped = async (name: string, models: string[]): Promise<Caller> => ({
      ...(await keyFor(name, models)),
      scopes: ['models'],
    });
    const byName = await scoped('by-name', ['gpt-*']);
    const refused = await rejects(ask(modeld, 'gpt-5', byName), 'denied');
    assert.match(refused.message, /may not use model gpt-5/);
    assert.equal((await ask(modeld, 'gpt-5', await scoped('by-model', ['dear']))).sent, 'dear');
    await modeld.stop();
  });
});
