// Tests vendors' SDK clients: passthrough, translation, errors and lists in the client's dialect,
// and failover between routes.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { RawReply } from '../../../platform/dispatch.ts';
import { writeDialectError } from '../adapters/dialects.ts';
import { admission, OPERATOR, rejects, runCaller, runId, until } from '../testing/harness.ts';
import { openaiChunks, sendJson } from '../testing/provider.ts';
import { modeld, provider, startWithProvider } from '../testing/with-provider.ts';

describe('vendor clients', () => {
  startWithProvider(({ url }) => ({
    providers: {
      oai: { dialect: 'openai', base_url: `${url}/v1`, models: ['gpt-test'] },
      ant: { dialect: 'anthropic', base_url: url, models: ['claude-test'] },
      down: { dialect: 'openai', base_url: 'http://127.0.0.1:1' },
    },
    models: {
      chain: {
        routes: [
          { provider: 'down', model: 'gone' },
          { provider: 'ant', model: 'claude-test' },
        ],
      },
    },
    prices: { 'gpt-test': { input: 1, output: 10 } },
  }));

  const post = async (path: string, text: string, caller = OPERATOR): Promise<RawReply> => {
    const response = await modeld.dispatch.run({
      method: 'POST',
      path,
      query: {},
      body: JSON.parse(text),
      rawBody: text,
      caller,
    });
    assert.ok(response instanceof RawReply);
    // A call is settled after its response is sent.
    await new Promise((resolve) => setImmediate(resolve));
    return response;
  };
  const textOf = async ({ body }: RawReply): Promise<string> => {
    if (typeof body === 'string') return body;
    if (body instanceof Uint8Array) return Buffer.from(body).toString('utf8');
    let text = '';
    for await (const chunk of body) text += chunk;
    return text;
  };
  const CHAT = '/openai/v1/chat/completions';

  test('the same dialect is passed unchanged except for the model', async () => {
    const text =
      '{ "model":"oai/gpt-test", "messages":[{"role":"user","content":"hi"}], "seed": 1.50, ' +
      '"max_tokens": 9, "x_unknown": {"kept": true} }';
    const sent =
      '{"id":"a","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,' +
      '"message":{"role":"assistant","content":"ok"},"finish_reason":"stop"}],"extra":[1.0,2],' +
      '"usage":{"prompt_tokens":3,"completion_tokens":1,"total_tokens":4}}';
    provider.plays.push(({ response }) => {
      response.writeHead(200, { 'content-type': 'application/json' });
      response.end(sent);
    });
    const response = await post(CHAT, text);
    assert.equal(provider.requests[0]!.text, text.replace('"oai/gpt-test"', '"gpt-test"'));
    assert.equal(await textOf(response), sent);
    assert.equal(response.headers['agentd-provider'], 'oai');
    const { calls } = await modeld.operator.listCalls({ query: { limit: 1 } });
    assert.equal(calls[0]!.call_id, response.headers['agentd-call-id']);
    assert.equal(calls[0]!.agent, '');
    assert.equal(calls[0]!.task_id, null);
    assert.equal(calls[0]!.cost_microusd, 13);
  });

  test('a stream of the same dialect keeps its bytes, except for unrequested usage', async () => {
    const text =
      '{"model":"oai/gpt-test","messages":[{"role":"user","content":"hi"}],"stream":true}';
    const response = await post(CHAT, text);
    const chunks = openaiChunks(['hel', 'lo']);
    assert.equal(await textOf(response), [...chunks.slice(0, 4), chunks[5]].join(''));
    await until(async () => {
      const { calls } = await modeld.operator.listCalls({ query: { limit: 1 } });
      return calls[0]!.status === 'completed' && calls[0]!.usage?.output_tokens === 7;
    }, 'the outcome of the stream');
  });

  test('the other dialect is translated, both ways', async () => {
    const response = await post(
      '/anthropic/v1/messages',
      '{"model":"oai/gpt-test","max_tokens":50,"messages":[{"role":"user","content":"hi"}]}',
    );
    const body = JSON.parse(await textOf(response)) as Record<string, unknown>;
    assert.equal(body.type, 'message');
    assert.equal((body.content as { text: string }[])[0]!.text, 'hello');
    assert.equal(provider.requests[0]!.path, '/v1/chat/completions');
    const other = await post(
      CHAT,
      '{"model":"ant/claude-test","messages":[{"role":"user","content":"hi"}]}',
    );
    const chat = JSON.parse(await textOf(other)) as { choices: { message: object }[] };
    assert.equal((chat.choices[0]!.message as { content: string }).content, 'hello');
    assert.equal(provider.requests[1]!.path, '/v1/messages');
  });

  test('when a route fails before it responds, the next is used; the log has the chain', async () => {
    const response = await post(
      CHAT,
      '{"model":"chain","messages":[{"role":"user","content":"hi"}]}',
    );
    assert.equal(response.headers['agentd-provider'], 'ant');
    const callId = response.headers['agentd-call-id']!;
    const find = () =>
      modeld.events.find((event) => event.event === 'model.call.ended' && event.call_id === callId);
    await until(() => find() !== undefined, 'the end in the audit log');
    const { data } = find()!;
    assert.equal(data?.chain?.toString().endsWith('down > ant'), true, JSON.stringify(data));
    assert.equal(data?.tries_lost, 0, 'nothing was sent to the first, so nothing was billed');
    assert.equal(data?.provider, 'ant');
  });

  test('invalid bodies are rejected before anything is written', async () => {
    const { total } = await modeld.operator.usage({ query: {} });
    await rejects(post(CHAT, '{"messages":[]}'), 'bad_request');
    await rejects(post(CHAT, '{"model":"gpt-test"}'), 'bad_request');
    await rejects(post(CHAT, '{"model":"gpt-test","messages":"hi"}'), 'bad_request');
    assert.equal((await modeld.operator.usage({ query: {} })).total.calls, total.calls);
  });

  test("errors are in the client's dialect", async () => {
    provider.plays.push(({ response }) =>
      sendJson(response, 400, {
        error: { message: 'bad temperature', type: 'invalid_request_error' },
      }),
    );
    const refused = await rejects(
      post(CHAT, '{"model":"oai/gpt-test","messages":[{"role":"user","content":"hi"}]}'),
      'provider_refused',
    );
    const { status, body } = writeDialectError('openai', refused);
    assert.equal(status, 400);
    assert.match(body, /bad temperature/);
    assert.match(writeDialectError('anthropic', refused).body, /"type":"error"/);
  });

  test('model lists in both formats', async () => {
    const openai = (await modeld.operator.openaiModels({})) as { data: { id: string }[] };
    const anthropic = (await modeld.operator.anthropicModels({ query: {} })) as {
      data: { id: string; type: string }[];
      has_more: boolean;
    };
    assert.deepEqual(
      openai.data.map((model) => model.id),
      ['chain', 'gpt-test', 'claude-test'],
    );
    assert.equal(anthropic.data[0]!.type, 'model');
    assert.equal(anthropic.has_more, false);
  });

  test('a run pays for its SDK calls, and they count as its steps', async () => {
    await modeld.agentd.admitRun({
      params: { id: runId(1) },
      body: admission(1, { max_steps: 1 }),
    });
    const text = '{"model":"oai/gpt-test","messages":[{"role":"user","content":"hi"}]}';
    await post(CHAT, text, runCaller(1, 1));
    await rejects(post(CHAT, text, runCaller(1, 1)), 'limit');
    const { budgets } = await modeld.operator.listBudgets({});
    assert.equal(budgets.find((one) => one.subject === 'agent')?.tokens_spent, 18);
  });

  test('an unknown name is an error for people; an agent gets the default', async () => {
    const ask = (model: string, caller = OPERATOR) =>
      post(CHAT, JSON.stringify({ model, messages: [{ role: 'user', content: 'hi' }] }), caller);
    const message = 'model gpt-tset not found; did you mean gpt-test?';
    await assert.rejects(ask('gpt-tset'), { code: 'not_found', message });
    const neutral = modeld.operator.generate({
      body: {
        model: 'gpt-tset',
        messages: [{ role: 'user', parts: [{ type: 'text', text: 'hi' }] }],
      },
    });
    await assert.rejects(neutral, { code: 'not_found', message });
    const embedded = modeld.operator.embed({ body: { model: 'gpt-tset', input: ['x'] } });
    await assert.rejects(embedded, { code: 'not_found', message });
    assert.deepEqual(provider.requests, [], 'nothing was sent');
    for (const known of ['default', 'oai/anything', 'gpt-test']) await ask(known);
    await modeld.agentd.admitRun({ params: { id: runId(70) }, body: admission(70) });
    await ask('gpt-tset', runCaller(70, 1));
    assert.equal(provider.requests.length, 4);
  });
});
