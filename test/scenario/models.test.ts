// One gateway to all models: names map to routes, a provider that is down is skipped, a busy one is
// retried later, labeled data goes only to permitted providers, and usage is counted.
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import type { GenerateRequest } from '../../src/wire/modeld.ts';
import { eventually } from '../support/runtime.ts';
import {
  call,
  finishes,
  type ScriptedModel,
  says,
  startScriptedModel,
} from '../support/scripted-model.ts';
import {
  doTask,
  manifestOf,
  refusedWith,
  type ScriptedWorld,
  startScriptedWorld,
} from '../support/scripted-world.ts';

const userText = (text: string, labels?: ('secret' | 'personal' | 'person')[]) => ({
  role: 'user' as const,
  parts: [{ type: 'text' as const, text }],
  ...(labels === undefined ? {} : { labels }),
});

describe('models', () => {
  let world: ScriptedWorld;
  let local: ScriptedModel;
  before(async () => {
    local = await startScriptedModel();
    const cloud = (more: object = {}) => ({ dialect: 'openai', base_url: local.url, ...more });
    const to = (...names: string[]) => ({
      routes: names.map((name) => ({ provider: name, model: `${name}-1` })),
    });
    world = await startScriptedWorld({
      agents: {
        coder: manifestOf('coder', '{ model: coder-large, tools: { allow: [test.tools] } }'),
      },
      modeld: {
        providers: {
          cloud: cloud(),
          home: cloud({ labels_allowed: ['person', 'own', 'agent', 'tool', 'secret'] }),
          narrow: cloud({ concurrency: 2 }),
          slow: cloud({ requests_per_min: 2 }),
          gone: { dialect: 'openai', base_url: 'http://127.0.0.1:9/v1' },
        },
        models: {
          'coder-large': to('gone', 'cloud'),
          'cloud-only': to('cloud'),
          'home-first': to('cloud', 'home'),
          'narrow-one': to('narrow'),
          'slow-one': to('slow'),
          'nobody-home': to('gone'),
          vectors: { ...to('cloud'), kind: 'embedding' },
        },
        prices: { 'cloud-1': { input: 2, output: 10, cache_read: 0.5 } },
      },
    });
  });
  after(async () => {
    await world.stop();
    await local.close();
  });

  const generate = (model: string, text: string, more: Partial<GenerateRequest> = {}) =>
    world.modeld.generate({ body: { model, messages: [userText(text)], ...more } });

  /** Waits while advancing the clock: there is a backoff between tries. */
  const timePasses = async <T>(work: Promise<T>): Promise<T> => {
    const timer = setInterval(() => world.clock.advance(500), 20);
    return work.finally(() => clearInterval(timer));
  };

  it('[R27] [R98] [R99] [R106] [R292] [B6] names map to configured routes, and their availability is visible', async () => {
    const { models, providers } = await world.modeld.listModels({});
    const large = models.find(({ name }) => name === 'coder-large');
    assert.deepEqual(large?.routes, [
      { provider: 'gone', model: 'gone-1' },
      { provider: 'cloud', model: 'cloud-1' },
    ]);
    assert.equal(large?.available, true);
    assert.equal(large?.rehearsal, false);
    assert.deepEqual(providers.map(({ name }) => name).sort(), [
      'cloud',
      'gone',
      'home',
      'narrow',
      'slow',
    ]);
    const response = await generate('cloud-only', 'hello');
    assert.deepEqual([response.provider, response.model], ['cloud', 'cloud-1']);
    assert.equal(local.scenesFor('hello')[0]?.body.model, 'cloud-1');
  });

  it('[R99] [R27] [B6] an agent continues while the first provider of its model is down', async () => {
    local.on('Find a way', says(call('test.echo', { text: 'x' })), finishes('found'));
    const task = await timePasses(doTask(world, 'Find a way', { agent: 'coder' }));
    assert.equal(task.result, 'found');
    const { calls } = await world.modeld.listCalls({ query: { task_id: task.id } });
    assert.deepEqual([...new Set(calls.map(({ provider }) => provider))], ['cloud']);
    assert.deepEqual([...new Set(calls.map(({ model }) => model))], ['coder-large']);
  });

  it('[R98] no provider at all: the fault names it and what to do, and nothing is spent', async () => {
    const before = await world.modeld.usage({ query: {} });
    const fault = await refusedWith('provider_down', timePasses(generate('nobody-home', 'anyone')));
    assert.match(fault.message, /gone/);
    assert.match(fault.hint, /fallback route/);
    assert.deepEqual((await world.modeld.usage({ query: {} })).total.usage, before.total.usage);
  });

  it('[R98] a provider’s retry-after is respected', async () => {
    let isBusy = true;
    local.on('be patient', () =>
      isBusy ? { status: 429, headers: { 'retry-after': '7' } } : { text: 'thanks for waiting' },
    );
    const pending = generate('cloud-only', 'be patient');
    await eventually('the first try', async () => local.scenesFor('be patient')[0]);
    isBusy = false;
    world.clock.advance(6_900);
    await new Promise((resolve) => setTimeout(resolve, 50));
    assert.equal(local.scenesFor('be patient').length, 1);
    // In several steps: modeld may have started its timer only after the first one.
    const response = await timePasses(pending);
    assert.deepEqual(response.message.parts, [{ type: 'text', text: 'thanks for waiting' }]);
    assert.equal(local.scenesFor('be patient').length, 2);
  });

  it('[R98] a provider’s concurrency limit is enforced; other calls are queued', async () => {
    local.on('narrow door', { delayMs: 500, text: 'through' });
    const all = [1, 2, 3, 4, 5].map((n) => generate('narrow-one', `narrow door ${n}`));
    let most = 0;
    const watch = setInterval(async () => {
      const { providers } = await world.modeld.listModels({});
      most = Math.max(most, providers.find(({ name }) => name === 'narrow')?.in_flight ?? 0);
    }, 10);
    await Promise.all(all);
    clearInterval(watch);
    assert.equal(most, 2);
  });

  it('[R98] a provider’s rate limit per minute is enforced; the next call waits', async () => {
    await generate('slow-one', 'slowly 1');
    await generate('slow-one', 'slowly 2');
    const third = generate('slow-one', 'slowly 3');
    await new Promise((resolve) => setTimeout(resolve, 100));
    assert.equal(local.scenesFor('slowly').length, 2);
    world.clock.advance(30_001);
    await third;
    assert.equal(local.scenesFor('slowly').length, 3);
  });

  it('[R104] labeled data goes only to providers that may see it', async () => {
    const secret = { messages: [userText('the launch code', ['secret'])] };
    const error = await refusedWith(
      'data_not_allowed',
      world.modeld.generate({ body: { model: 'cloud-only', ...secret } }),
    );
    assert.match(error.message, /text labelled secret may not go to cloud/);
    assert.equal(local.scenesFor('the launch code').length, 0, 'it never left');
    const response = await world.modeld.generate({ body: { model: 'home-first', ...secret } });
    assert.equal(response.provider, 'home', 'the route that may not see it was skipped');
    const personal = { messages: [userText('my address', ['personal'])] };
    await refusedWith(
      'data_not_allowed',
      world.modeld.generate({ body: { model: 'home-first', ...personal } }),
    );
    const event = await eventually('the refusal in the log', async () =>
      (
        await world.audit.events({ query: { event: 'model.call.refused', limit: 100 } })
      ).events.findLast(({ status }) => status === 'data_not_allowed'),
    );
    assert.equal(event.allowed, false);
  });

  it('[R105] [R293] usage is counted as the provider reports it, with cache and reasoning, and priced', async () => {
    const before = (await world.modeld.usage({ query: {} })).total;
    local.on('count me', {
      text: 'counted',
      usage: {
        prompt_tokens: 1_000,
        completion_tokens: 300,
        total_tokens: 1_300,
        prompt_tokens_details: { cached_tokens: 400 },
        completion_tokens_details: { reasoning_tokens: 120 },
      },
    });
    const response = await generate('cloud-only', 'count me', {
      agent: 'coder',
      purpose: 'a count',
    });
    assert.deepEqual(response.usage, {
      input_tokens: 600,
      output_tokens: 300,
      cache_read_tokens: 400,
      cache_write_tokens: 0,
      reasoning_tokens: 120,
    });
    assert.equal(response.cost_microusd, 600 * 2 + 400 * 0.5 + 300 * 10);
    const now = (await world.modeld.usage({ query: {} })).total;
    assert.equal(now.calls - before.calls, 1);
    assert.equal(now.usage.cache_read_tokens - before.usage.cache_read_tokens, 400);
    assert.equal(now.usage.reasoning_tokens - before.usage.reasoning_tokens, 120);
    assert.equal(now.cost_microusd - before.cost_microusd, response.cost_microusd);
    const { call: record } = await world.modeld.getCall({ params: { id: response.call_id } });
    assert.equal(record.purpose, 'a count');
    assert.equal(record.agent, 'coder');
  });

  it('[R107] [R290] input_ref is an artifact’s text, and the call’s limits are enforced', async () => {
    const { artifact } = await world.agentd.putArtifact({
      body: { name: 'long.txt', text: 'Summarise: the sea is blue.' },
    });
    const response = await world.modeld.generate({
      body: {
        model: 'cloud-only',
        input_ref: artifact.ref,
        purpose: 'summary',
        limits: { max_input_tokens: 1_000, max_output_tokens: 77 },
      },
    });
    assert.equal(response.stop_reason, 'tool_calls');
    const scene = local.scenes.findLast(({ goal }) => goal.startsWith('Summarise'));
    assert.equal(scene?.body.max_completion_tokens, 77);
    await refusedWith(
      'context_too_long',
      generate('cloud-only', 'far too long '.repeat(500), { limits: { max_input_tokens: 100 } }),
    );
    await refusedWith(
      'not_found',
      world.modeld.generate({
        body: { model: 'cloud-only', input_ref: `artifact://artifact_${'0'.repeat(26)}` },
      }),
    );
  });

  it('[R101] [R102] [R291] a text is embedded once, for all callers', async () => {
    const embed = (...input: string[]) => world.modeld.embed({ body: { model: 'vectors', input } });
    const first = await embed('one', 'three', 'one');
    assert.deepEqual(first.embeddings, [
      [3, 1],
      [5, 1],
      [3, 1],
    ]);
    assert.equal(first.recorded, false);
    const sent = () =>
      local.scenes.filter(({ body }) => body.input !== undefined).map(({ body }) => body.input);
    assert.deepEqual(sent(), [['one', 'three']]);
    const again = await embed('three');
    assert.deepEqual(again.embeddings, [[5, 1]]);
    assert.equal(again.recorded, true);
    assert.equal(again.usage.input_tokens, 0);
    const mixed = await embed('one', 'seventh');
    assert.deepEqual(mixed.embeddings, [
      [3, 1],
      [7, 1],
    ]);
    assert.deepEqual(sent(), [['one', 'three'], ['seventh']]);
  });
});
