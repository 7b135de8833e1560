// The openai package, unchanged, against a real runtime: text, streams, tools, lists and errors,
// with a provider of the same dialect and one of the other.
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import OpenAI from 'openai';
import { EXTRA } from '../support/recording-upstream.ts';
import { startForClients, UPSTREAM_KEY, type VendorClients } from './setup.ts';

const TOOL: OpenAI.ChatCompletionTool = {
  type: 'function',
  function: {
    name: 'get_weather',
    description: 'The weather of a city',
    parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
  },
};
const question: OpenAI.ChatCompletionMessageParam = {
  role: 'user',
  content: 'How is the weather?',
};

describe('the openai package', () => {
  let clients: VendorClients;
  let openai: OpenAI;
  const withKey = (apiKey: string) =>
    new OpenAI({ baseURL: `${clients.url}/openai/v1`, apiKey, maxRetries: 0 });
  before(async () => {
    clients = await startForClients();
    openai = withKey(clients.runtime.operatorKey);
  });
  after(() => clients.close());

  for (const [model, provider] of [
    ['gpt-up', 'its own wire'],
    ['claude-up', 'the other wire'],
    ['coder-large', 'a name from the configuration'],
    ['o3-mini', 'the other wire, under an alias'],
  ] as const) {
    describe(`to a provider of ${provider}`, () => {
      it('gets text and token counts', async () => {
        const response = await openai.chat.completions.create({ model, messages: [question] });
        assert.equal(response.choices[0]!.message.content, 'Hello there.');
        assert.equal(response.choices[0]!.finish_reason, 'stop');
        if (model === 'o3-mini') assert.equal(response.model, model);
        assert.equal(response.usage?.prompt_tokens, 12);
        assert.equal(response.usage?.completion_tokens, 5);
      });

      it('gets a stream with token counts at the end', async () => {
        const stream = await openai.chat.completions.create({
          model,
          messages: [question],
          stream: true,
          stream_options: { include_usage: true },
        });
        const pieces: string[] = [];
        let usage: OpenAI.CompletionUsage | null | undefined;
        for await (const chunk of stream) {
          if (chunk.choices[0]?.delta.content) pieces.push(chunk.choices[0].delta.content);
          usage = chunk.usage ?? usage;
        }
        assert.equal(pieces.join(''), 'Hello there.');
        assert.ok(pieces.length >= 2, 'it came in several chunks');
        assert.equal(usage?.completion_tokens, 5);
      });

      it('completes a tool call round trip', async () => {
        const first = await openai.chat.completions.create({
          model,
          messages: [question],
          tools: [TOOL],
        });
        const { message, finish_reason } = first.choices[0]!;
        assert.equal(finish_reason, 'tool_calls');
        const [call] = message.tool_calls!;
        assert.ok(call?.type === 'function');
        assert.equal(call.function.name, 'get_weather');
        assert.deepEqual(JSON.parse(call.function.arguments), { city: 'Oslo' });
        const second = await openai.chat.completions.create({
          model,
          tools: [TOOL],
          messages: [question, message, { role: 'tool', tool_call_id: call.id, content: 'Rain.' }],
        });
        assert.equal(second.choices[0]!.message.content, 'It rains in Oslo.');
        assert.match(clients.upstream.last().text, /Rain\./);
        assert.ok(clients.upstream.last().text.includes(call.id));
      });

      it('streams a tool call that the package assembles', async () => {
        const body = { model, messages: [question], tools: [TOOL] };
        const whole = await openai.chat.completions.stream(body).finalChatCompletion();
        const [call] = whole.choices[0]!.message.tool_calls!;
        assert.ok(call?.type === 'function');
        assert.deepEqual(JSON.parse(call.function.arguments), { city: 'Oslo' });
      });
    });
  }

  it('gets embeddings, each text from the provider once', async () => {
    const create = (input: string[]) =>
      openai.embeddings.create({ model: 'open/text-embedding-3-small', input });
    const { data, usage } = await create(['one', 'seven']);
    assert.deepEqual(
      data.map(({ embedding }) => [...embedding]),
      [
        [3, 0.25],
        [5, 0.25],
      ],
    );
    assert.equal(usage.prompt_tokens, 2);
    const more = await create(['seven', 'two']);
    assert.deepEqual([...more.data[0]!.embedding], [5, 0.25]);
    assert.deepEqual(clients.upstream.last().body.input, ['two']);
    await assert.rejects(
      openai.embeddings.create({ model: 'anth/text-embed', input: 'x' }),
      /has no embeddings/,
    );
  });

  it('retrieves a model, and rejects an unknown one as a NotFoundError', async () => {
    assert.equal((await openai.models.retrieve('gpt-up')).id, 'gpt-up');
    await assert.rejects(openai.models.retrieve('nothing'), OpenAI.NotFoundError);
  });

  it('lists the models', async () => {
    const names: string[] = [];
    for await (const { id } of openai.models.list()) names.push(id);
    for (const name of ['gpt-up', 'claude-up', 'coder-large'])
      assert.ok(names.includes(name), name);
  });

  it('unknown fields are passed through if client and provider use the same dialect', async () => {
    const body = {
      model: 'gpt-up',
      messages: [{ ...question, x_cache: { ttl: 5 } }],
      seed: 7,
      x_new_field: { deep: [1, { a: null }] },
      metadata: { team: 'a' },
    };
    const response = await openai.chat.completions.create(body as never);
    const sent = clients.upstream.last().body;
    for (const [key, value] of Object.entries(body)) assert.deepEqual(sent[key], value, key);
    assert.deepEqual((response as unknown as typeof EXTRA).x_vendor, EXTRA.x_vendor);
  });

  it('the provider gets its own key, and never the operator’s', async () => {
    await openai.chat.completions.create({ model: 'gpt-up', messages: [question] });
    const { headers, text } = clients.upstream.last();
    assert.equal(headers.authorization, `Bearer ${UPSTREAM_KEY}`);
    assert.ok(!JSON.stringify([headers, text]).includes(clients.runtime.operatorKey));
  });

  it('a wrong key is an AuthenticationError', async () => {
    const wrong = withKey('wrong').chat.completions.create({
      model: 'gpt-up',
      messages: [question],
    });
    await assert.rejects(wrong, (error) => error instanceof OpenAI.AuthenticationError);
    await assert.rejects(withKey('wrong').models.list(), OpenAI.AuthenticationError);
  });

  it('a provider’s rejection is a BadRequestError with its message', async () => {
    clients.upstream.refuseNext(400, 'this model has no such parameter');
    const refused = openai.chat.completions.create({ model: 'gpt-up', messages: [question] });
    await assert.rejects(refused, (error: Error) => {
      assert.ok(error instanceof OpenAI.BadRequestError);
      assert.match(error.message, /this model has no such parameter/);
      return true;
    });
  });

  it('a malformed request is a BadRequestError', async () => {
    const broken = openai.chat.completions.create({ model: 'gpt-up' } as never);
    await assert.rejects(broken, (error) => error instanceof OpenAI.BadRequestError);
  });

  it('an exhausted budget is a RateLimitError that names it', async () => {
    const site = { subject: 'site' as const };
    await clients.runtime.modeld.setBudget({ body: { ...site, tokens_limit: 1 } });
    try {
      const refused = openai.chat.completions.create({ model: 'gpt-up', messages: [question] });
      await assert.rejects(refused, (error: Error) => {
        assert.ok(error instanceof OpenAI.RateLimitError);
        assert.equal((error as { code?: string }).code, 'insufficient_quota');
        assert.match(error.message, /site/);
        return true;
      });
    } finally {
      await clients.runtime.modeld.setBudget({ body: { ...site, tokens_limit: null } });
    }
    await openai.chat.completions.create({ model: 'gpt-up', messages: [question] });
  });
});
