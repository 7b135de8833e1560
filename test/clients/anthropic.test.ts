// The @anthropic-ai/sdk package, unchanged, against a real runtime: text, streams, tools, lists and
// errors, with a provider of the same dialect and one of the other.
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import Anthropic from '@anthropic-ai/sdk';
import { COUNTED_TOKENS, EXTRA } from '../support/recording-upstream.ts';
import { startForClients, UPSTREAM_KEY, type VendorClients } from './setup.ts';

const TOOL: Anthropic.Tool = {
  name: 'get_weather',
  description: 'The weather of a city',
  input_schema: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
};
const question: Anthropic.MessageParam = { role: 'user', content: 'How is the weather?' };

describe('the @anthropic-ai/sdk package', () => {
  let clients: VendorClients;
  let anthropic: Anthropic;
  const withKey = (apiKey: string) =>
    new Anthropic({ baseURL: `${clients.url}/anthropic`, apiKey, maxRetries: 0 });
  before(async () => {
    clients = await startForClients();
    anthropic = withKey(clients.runtime.operatorKey);
  });
  after(() => clients.close());

  for (const [model, provider] of [
    ['claude-up', 'its own wire'],
    ['gpt-up', 'the other wire'],
    ['coder-large', 'a name from the configuration'],
    ['claude-sonnet-4-5', 'the other wire, under a vendor’s own name'],
  ] as const) {
    const body = { model, max_tokens: 100, messages: [question] };
    describe(`to a provider of ${provider}`, () => {
      it('gets text and token counts', async () => {
        const response = await anthropic.messages.create(body);
        assert.deepEqual(
          response.content.map((block) => block.type === 'text' && block.text),
          ['Hello there.'],
        );
        assert.equal(response.stop_reason, 'end_turn');
        if (model === 'claude-sonnet-4-5') assert.equal(response.model, model);
        assert.equal(response.usage.input_tokens, 12);
        assert.equal(response.usage.output_tokens, 5);
      });

      it('gets a stream that the package assembles', async () => {
        const stream = anthropic.messages.stream(body);
        const pieces: string[] = [];
        stream.on('text', (piece) => pieces.push(piece));
        const whole = await stream.finalMessage();
        assert.equal(pieces.join(''), 'Hello there.');
        assert.ok(pieces.length >= 2, 'it came in several chunks');
        assert.equal(whole.usage.output_tokens, 5);
        assert.equal(whole.stop_reason, 'end_turn');
      });

      it('completes a tool call round trip', async () => {
        const first = await anthropic.messages.create({ ...body, tools: [TOOL] });
        assert.equal(first.stop_reason, 'tool_use');
        const call = first.content.find((block) => block.type === 'tool_use')!;
        assert.ok(call.type === 'tool_use');
        assert.deepEqual(call.input, { city: 'Oslo' });
        const result = { type: 'tool_result' as const, tool_use_id: call.id, content: 'Rain.' };
        const second = await anthropic.messages.create({
          ...body,
          tools: [TOOL],
          messages: [
            question,
            { role: 'assistant', content: first.content },
            { role: 'user', content: [result] },
          ],
        });
        const [text] = second.content;
        assert.equal(text?.type === 'text' && text.text, 'It rains in Oslo.');
        assert.match(clients.upstream.last().text, /Rain\./);
      });

      it('streams a tool call', async () => {
        const whole = await anthropic.messages.stream({ ...body, tools: [TOOL] }).finalMessage();
        const call = whole.content.find((block) => block.type === 'tool_use')!;
        assert.ok(call.type === 'tool_use');
        assert.deepEqual(call.input, { city: 'Oslo' });
        assert.equal(whole.stop_reason, 'tool_use');
      });
    });
  }

  const plain = { model: 'claude-up', max_tokens: 100, messages: [question] };

  it('lists the models', async () => {
    const names: string[] = [];
    for await (const { id } of anthropic.models.list()) names.push(id);
    for (const name of ['gpt-up', 'claude-up', 'coder-large'])
      assert.ok(names.includes(name), name);
  });

  it('unknown fields are passed through if client and provider use the same dialect', async () => {
    const body = {
      ...plain,
      system: [{ type: 'text', text: 'Be brief.', cache_control: { type: 'ephemeral' } }],
      x_new_field: { deep: [1, { a: null }] },
      metadata: { user_id: 'a' },
    };
    const response = await anthropic.messages.create(body as never);
    const sent = clients.upstream.last().body;
    for (const [key, value] of Object.entries(body)) assert.deepEqual(sent[key], value, key);
    assert.deepEqual((response as unknown as typeof EXTRA).x_vendor, EXTRA.x_vendor);
  });

  it('the provider gets its own key, and never the operator’s', async () => {
    await anthropic.messages.create(plain);
    const { headers, text } = clients.upstream.last();
    assert.equal(headers['x-api-key'], UPSTREAM_KEY);
    assert.ok(typeof headers['anthropic-version'] === 'string');
    assert.ok(!JSON.stringify([headers, text]).includes(clients.runtime.operatorKey));
  });

  it('beta calls reach the provider with their version, betas and unknown query', async () => {
    const body = {
      ...plain,
      thinking: { type: 'enabled', budget_tokens: 50 },
      context_management: { edits: [{ type: 'clear_thinking_20251015', keep: 'all' }] },
      betas: ['context-management-2025-06-27', 'a-2027-01-01'],
    };
    const { betas, ...rest } = body;
    const older = { headers: { 'anthropic-version': '2023-06-01' } };
    await anthropic.beta.messages.create(body as never, older);
    const { headers, body: sent } = clients.upstream.last();
    assert.equal(headers['anthropic-beta'], betas.join(','));
    assert.equal(headers['anthropic-version'], '2023-06-01');
    assert.deepEqual(sent, rest);
  });

  it('counts tokens at the provider; elsewhere it estimates', async () => {
    const { messages, model } = plain;
    const system = [{ type: 'text' as const, text: 'Be brief. '.repeat(400) }];
    const counted = await anthropic.messages.countTokens({ model, messages, system });
    assert.equal(counted.input_tokens, COUNTED_TOKENS);
    assert.equal(clients.upstream.last().path, '/v1/messages/count_tokens');
    assert.deepEqual(clients.upstream.last().body, { model, messages, system });
    const beta = { model, messages, betas: ['token-counting-2024-11-01'] };
    assert.equal((await anthropic.beta.messages.countTokens(beta)).input_tokens, COUNTED_TOKENS);
    const before = clients.upstream.requests.length;
    const guessed = await anthropic.messages.countTokens({ model: 'gpt-up', messages, system });
    assert.ok(guessed.input_tokens > 900 && guessed.input_tokens < 1_200, 'near the truth');
    assert.equal(clients.upstream.requests.length, before, 'nothing was sent');
  });

  it('retrieves a model, and rejects an unknown one as a NotFoundError', async () => {
    const found = await anthropic.models.retrieve('coder-large');
    assert.equal(found.id, 'coder-large');
    assert.equal(found.max_tokens, 4096);
    const unknown = anthropic.models.retrieve('cofer-large');
    await assert.rejects(unknown, (error) => error instanceof Anthropic.NotFoundError);
  });

  it('every error below its path has the vendor’s form, and HEAD has no body', async () => {
    const type = { 'content-type': 'application/json' };
    const key = { ...type, 'x-api-key': clients.runtime.operatorKey };
    const ask = (path: string, init: RequestInit = {}) =>
      fetch(`${clients.url}${path}`, { headers: key, ...init });
    for (const [path, init, status] of [
      ['/anthropic', {}, 404],
      ['/anthropic/v1/nothing?a=b', { method: 'POST', body: '{}' }, 404],
      ['/anthropic/v1/messages', {}, 405],
      ['/anthropic/v1/messages', { headers: type }, 401],
      ['/anthropic/v1/messages?a=1&a=2', { method: 'POST', body: '{}' }, 400],
      ['/anthropic/v1/messages', { method: 'POST', body: '{' }, 400],
    ] as const) {
      const response = await ask(path, init);
      assert.equal(response.status, status, path);
      const body = (await response.json()) as { type: string; error: { type: string } };
      assert.equal(body.type, 'error', path);
      assert.match(body.error.type, /_error$/, path);
    }
    const head = await ask('/anthropic/v1/models', { method: 'HEAD' });
    assert.deepEqual([head.status, await head.text()], [200, '']);
  });

  it('a wrong key is an AuthenticationError', async () => {
    const wrong = withKey('wrong').messages.create(plain);
    await assert.rejects(wrong, (error) => error instanceof Anthropic.AuthenticationError);
  });

  it('a provider’s rejection is a BadRequestError with its message', async () => {
    clients.upstream.refuseNext(400, 'max_tokens is too large for this model');
    await assert.rejects(anthropic.messages.create(plain), (error: Error) => {
      assert.ok(error instanceof Anthropic.BadRequestError);
      assert.match(error.message, /max_tokens is too large for this model/);
      return true;
    });
  });

  it('an exhausted budget is a billing APIError that names it', async () => {
    const site = { subject: 'site' as const };
    await clients.runtime.modeld.setBudget({ body: { ...site, tokens_limit: 1 } });
    try {
      await assert.rejects(anthropic.messages.create(plain), (error: Error) => {
        assert.ok(error instanceof Anthropic.APIError);
        assert.equal(error.status, 402);
        assert.match(error.message, /billing_error/);
        assert.match(error.message, /site/);
        return true;
      });
    } finally {
      await clients.runtime.modeld.setBudget({ body: { ...site, tokens_limit: null } });
    }
    await anthropic.messages.create(plain);
  });
});
