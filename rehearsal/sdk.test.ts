// Tests this server with the vendors' unmodified SDKs: plain, streamed, with tools, with errors.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import { ANTHROPIC_TOOLS, OPENAI_TOOLS, startServer, type TestServer } from './testing.ts';

const system = 'You are agent:planner';
const goal = 'Goal: Paint the shed';
let server: TestServer;
before(async () => {
  server = await startServer();
});
after(() => server[Symbol.asyncDispose]());

describe('the openai package', () => {
  const connect = (apiKey = 'test-key') =>
    new OpenAI({ apiKey, baseURL: `${server.url}/v1`, maxRetries: 0 });
  const model = 'rehearsal-large';
  const opening: OpenAI.Chat.Completions.ChatCompletionMessageParam[] = [
    { role: 'system', content: system },
    { role: 'user', content: goal },
  ];
  const rehearse = (prompt: string) => [{ role: 'user' as const, content: `rehearse: ${prompt}` }];

  test('a chat without tools', async () => {
    const messages = [{ role: 'user' as const, content: 'Hello there' }];
    const completion = await connect().chat.completions.create({ model, messages });
    const choice = completion.choices[0]!;
    assert.match(choice.message.content ?? '', /^\[rehearsal\].*Hello there/);
    assert.equal(choice.finish_reason, 'stop');
    assert.equal(completion.usage?.prompt_tokens, 3);
    assert.match(completion._request_id ?? '', /^req_/);
  });

  test('a complete tool loop', async () => {
    const client = connect();
    const first = await client.chat.completions.create({
      model,
      messages: opening,
      tools: OPENAI_TOOLS,
    });
    const { message, finish_reason } = first.choices[0]!;
    assert.equal(finish_reason, 'tool_calls');
    const results = (message.tool_calls ?? []).map((call) => {
      assert.equal(call.type, 'function');
      const { agent } = JSON.parse(call.function.arguments);
      return { role: 'tool' as const, tool_call_id: call.id, content: `${agent} is done` };
    });
    assert.equal(results.length, 2);
    const second = await client.chat.completions.create({
      model,
      messages: [...opening, message, ...results],
      tools: OPENAI_TOOLS,
    });
    const finish = second.choices[0]!.message.tool_calls?.[0];
    assert.ok(finish?.type === 'function');
    assert.match(JSON.parse(finish.function.arguments).result, /researcher is done[\s\S]*coder is/);
  });

  test('streamed and plain replies are the same', async () => {
    const client = connect();
    const body = { model, messages: opening, tools: OPENAI_TOOLS };
    const plain = await client.chat.completions.create(body);
    const stream = client.chat.completions.stream({
      ...body,
      stream_options: { include_usage: true },
    });
    const streamed = await stream.finalChatCompletion();
    const view = (completion: OpenAI.Chat.Completions.ChatCompletion) => ({
      text: completion.choices[0]!.message.content,
      calls: completion.choices[0]!.message.tool_calls?.map((call) =>
        call.type === 'function' ? [call.function.name, call.function.arguments] : [],
      ),
      finish: completion.choices[0]!.finish_reason,
      usage: completion.usage,
    });
    assert.deepEqual(view(streamed), view(plain));
  });

  test('without include_usage a stream has no usage', async () => {
    const stream = await connect().chat.completions.create({
      model,
      messages: opening,
      stream: true,
    });
    const chunks = await Array.fromAsync(stream);
    assert.ok(chunks.length > 3);
    assert.ok(chunks.every((chunk) => chunk.usage === undefined));
    assert.equal(chunks.at(-1)!.choices[0]!.finish_reason, 'stop');
  });

  test('forced and forbidden tools', async () => {
    const client = connect();
    const body = { model, messages: opening, tools: OPENAI_TOOLS };
    const forced = await client.chat.completions.create({
      ...body,
      tool_choice: { type: 'function', function: { name: 'person_ask' } },
    });
    const call = forced.choices[0]!.message.tool_calls?.[0];
    assert.ok(call?.type === 'function' && call.function.name === 'person_ask');
    const none = await client.chat.completions.create({ ...body, tool_choice: 'none' });
    assert.equal(none.choices[0]!.message.tool_calls, undefined);
    const single = await client.chat.completions.create({ ...body, parallel_tool_calls: false });
    assert.equal(single.choices[0]!.message.tool_calls?.length, 1);
  });

  test('limits and stop sequences truncate the reply', async () => {
    const client = connect();
    const body = { model, messages: [{ role: 'user' as const, content: 'Hello' }] };
    const short = await client.chat.completions.create({ ...body, max_tokens: 3 });
    assert.equal(short.choices[0]!.message.content, '[rehearsal] ');
    assert.equal(short.choices[0]!.finish_reason, 'length');
    assert.equal(short.usage?.completion_tokens, 3);
    const stopped = await client.chat.completions.create({ ...body, stop: 'no real' });
    assert.equal(stopped.choices[0]!.message.content, '[rehearsal] This is a rehearsal: ');
    assert.equal(stopped.choices[0]!.finish_reason, 'stop');
  });

  test('usage: from the screenplay, and cached when the loop continues', async () => {
    const client = connect();
    const scripted = await client.chat.completions.create({ model, messages: rehearse('usage') });
    assert.equal(scripted.usage?.prompt_tokens, 4400);
    assert.equal(scripted.usage?.completion_tokens, 200);
    assert.equal(scripted.usage?.prompt_tokens_details?.cached_tokens, 3000);
    assert.equal(scripted.usage?.completion_tokens_details?.reasoning_tokens, 50);
    const long = { role: 'user' as const, content: 'x'.repeat(8_000) };
    const first = await client.chat.completions.create({ model, messages: [long] });
    assert.equal(first.usage?.prompt_tokens_details?.cached_tokens, 0);
    const next = await client.chat.completions.create({
      model,
      messages: [long, { role: 'assistant', content: 'y' }, { role: 'user', content: 'z' }],
    });
    assert.equal(next.usage?.prompt_tokens_details?.cached_tokens, 1920);
  });

  test('thinking is counted but not shown', async () => {
    const completion = await connect().chat.completions.create({
      model,
      messages: rehearse('thinking'),
    });
    assert.equal(completion.choices[0]!.message.content, '[rehearsal] I have thought about it.');
    assert.ok((completion.usage?.completion_tokens_details?.reasoning_tokens ?? 0) > 5);
  });

  test('errors arrive as the SDK’s own classes', async () => {
    const send = (prompt: string, key?: string) =>
      connect(key).chat.completions.create({ model, messages: rehearse(prompt) });
    await assert.rejects(send('error 429 after 7 s'), (error) => {
      assert.ok(error instanceof OpenAI.RateLimitError);
      assert.equal(error.headers.get('retry-after'), '7');
      return true;
    });
    await assert.rejects(send('error 500'), OpenAI.InternalServerError);
    await assert.rejects(send('hello', 'bad-key'), OpenAI.AuthenticationError);
    const unknown = connect().chat.completions.create({ model: 'gpt-4o', messages: opening });
    await assert.rejects(unknown, OpenAI.NotFoundError);
  });

  test('the SDK’s own retries reach the recovery', async () => {
    const client = new OpenAI({ apiKey: 'k', baseURL: `${server.url}/v1`, maxRetries: 2 });
    const messages = rehearse('error 503 1 times');
    const completion = await client.chat.completions.create({ model, messages });
    assert.match(completion.choices[0]!.message.content ?? '', /has recovered/);
  });

  test('models and embeddings', async () => {
    const client = connect();
    const models = await Array.fromAsync(client.models.list());
    assert.deepEqual(
      models.map((entry) => entry.id),
      ['rehearsal-large', 'rehearsal-small', 'rehearsal-embed'],
    );
    assert.equal((await client.models.retrieve('rehearsal-small')).owned_by, 'rehearsal');
    const input = ['the deploy failed', 'the deploy failed again', 'penguins'];
    const embedded = await client.embeddings.create({ model: 'rehearsal-embed', input });
    const [a, b, c] = embedded.data.map((entry) => entry.embedding);
    const dot = (x: number[], y: number[]) => x.reduce((sum, value, i) => sum + value * y[i]!, 0);
    assert.equal(a!.length, 256);
    assert.ok(dot(a!, b!) > dot(a!, c!));
    const short = await client.embeddings.create({
      model: 'rehearsal-embed',
      input: 'the deploy failed',
      encoding_format: 'float',
      dimensions: 16,
    });
    assert.equal(short.data[0]!.embedding.length, 16);
  });
});

describe('the @anthropic-ai/sdk package', () => {
  const connect = (apiKey = 'test-key') =>
    new Anthropic({ apiKey, baseURL: server.url, maxRetries: 0 });
  const model = 'rehearsal-large';
  const max_tokens = 4096;
  const opening = [{ role: 'user' as const, content: goal }];
  const rehearse = (prompt: string) => [{ role: 'user' as const, content: `rehearse: ${prompt}` }];

  test('a message without tools', async () => {
    const messages = [{ role: 'user' as const, content: 'Hello there' }];
    const message = await connect().messages.create({ model, max_tokens, messages });
    const block = message.content[0]!;
    assert.ok(block.type === 'text');
    assert.match(block.text, /^\[rehearsal\].*Hello there/);
    assert.equal(message.stop_reason, 'end_turn');
    assert.equal(message.usage.input_tokens, 3);
    assert.match(message._request_id ?? '', /^req_/);
  });

  test('a complete tool loop', async () => {
    const client = connect();
    const body = { model, max_tokens, system, tools: ANTHROPIC_TOOLS };
    const first = await client.messages.create({ ...body, messages: opening });
    assert.equal(first.stop_reason, 'tool_use');
    const results = first.content.flatMap((block) =>
      block.type === 'tool_use'
        ? [{ type: 'tool_result' as const, tool_use_id: block.id, content: `${block.name} ok` }]
        : [],
    );
    assert.equal(results.length, 2);
    const messages: Anthropic.MessageParam[] = [
      ...opening,
      { role: 'assistant', content: first.content },
      { role: 'user', content: results },
    ];
    const second = await client.messages.create({ ...body, messages });
    const finish = second.content.find((block) => block.type === 'tool_use');
    assert.equal(finish?.name, 'task_finish');
    assert.match(JSON.stringify(finish?.input), /task_delegate ok/);
  });

  test('streamed and plain messages are the same', async () => {
    const client = connect();
    const body = { model, max_tokens, system, messages: opening, tools: ANTHROPIC_TOOLS };
    const plain = await client.messages.create(body);
    const streamed = await client.messages.stream(body).finalMessage();
    assert.deepEqual(
      streamed.content.map((block) => (block.type === 'tool_use' ? block.input : block)),
      plain.content.map((block) => (block.type === 'tool_use' ? block.input : block)),
    );
    assert.equal(streamed.stop_reason, plain.stop_reason);
    assert.equal(streamed.usage.output_tokens, plain.usage.output_tokens);
  });

  test('sends every kind of event in the vendor’s order', async () => {
    const messages = rehearse('thinking');
    const stream = await connect().messages.create({ model, max_tokens, messages, stream: true });
    const types = (await Array.fromAsync(stream)).map((event) =>
      event.type === 'content_block_delta' ? event.delta.type : event.type,
    );
    assert.deepEqual(
      types.filter((type, index) => type !== types[index - 1]),
      [
        'message_start',
        'content_block_start',
        'thinking_delta',
        'signature_delta',
        'content_block_stop',
        'content_block_start',
        'text_delta',
        'content_block_stop',
        'message_delta',
        'message_stop',
      ],
    );
  });

  test('thinking must be sent back unchanged', async () => {
    const client = connect();
    const messages = rehearse('thinking');
    const first = await client.messages.create({ model, max_tokens, messages });
    const [thinking] = first.content;
    assert.ok(thinking?.type === 'thinking');
    assert.ok((first.usage.output_tokens_details?.thinking_tokens ?? 0) > 5);
    const continueWith = (thought: string) =>
      client.messages.create({
        model,
        max_tokens,
        messages: [
          ...messages,
          { role: 'assistant', content: [{ ...thinking, thinking: thought }, first.content[1]!] },
          { role: 'user', content: 'Go on' },
        ],
      });
    assert.equal((await continueWith(thinking.thinking)).stop_reason, 'end_turn');
    await assert.rejects(continueWith('I thought otherwise'), Anthropic.BadRequestError);
    const off = { type: 'disabled' as const };
    const without = await client.messages.create({ model, max_tokens, messages, thinking: off });
    assert.ok(without.content.every((block) => block.type === 'text'));
  });

  test('forced, forbidden and single tools', async () => {
    const client = connect();
    const body = { model, max_tokens, system, messages: opening, tools: ANTHROPIC_TOOLS };
    const names = (message: Anthropic.Message) =>
      message.content.flatMap((block) => (block.type === 'tool_use' ? [block.name] : []));
    const forced = { type: 'tool' as const, name: 'person_ask' };
    assert.deepEqual(names(await client.messages.create({ ...body, tool_choice: forced })), [
      'person_ask',
    ]);
    const none = { type: 'none' as const };
    assert.deepEqual(names(await client.messages.create({ ...body, tool_choice: none })), []);
    const single = { type: 'auto' as const, disable_parallel_tool_use: true };
    assert.deepEqual(names(await client.messages.create({ ...body, tool_choice: single })), [
      'task_delegate',
    ]);
  });

  test('limits and stop sequences truncate the reply', async () => {
    const client = connect();
    const messages = [{ role: 'user' as const, content: 'Hello' }];
    const short = await client.messages.create({ model, max_tokens: 3, messages });
    assert.equal(short.stop_reason, 'max_tokens');
    assert.equal(short.usage.output_tokens, 3);
    const body = { model, max_tokens, messages, stop_sequences: ['no real'] };
    const stopped = await client.messages.create(body);
    assert.equal(stopped.stop_reason, 'stop_sequence');
    assert.equal(stopped.stop_sequence, 'no real');
  });

  test('usage: from the screenplay, and cached up to a breakpoint', async () => {
    const client = connect();
    const scripted = await client.messages.create({
      model,
      max_tokens,
      messages: rehearse('usage'),
    });
    assert.equal(scripted.usage.input_tokens, 1000);
    assert.equal(scripted.usage.output_tokens, 200);
    assert.equal(scripted.usage.cache_read_input_tokens, 3000);
    assert.equal(scripted.usage.cache_creation_input_tokens, 400);
    const cache_control = { type: 'ephemeral' as const };
    const long = { type: 'text' as const, text: 'x'.repeat(8_000), cache_control };
    const first = await client.messages.create({
      model,
      max_tokens,
      messages: [{ role: 'user', content: [long] }],
    });
    assert.equal(first.usage.cache_creation_input_tokens, 2000);
    assert.equal(first.usage.cache_read_input_tokens, 0);
    const next = await client.messages.create({
      model,
      max_tokens,
      messages: [
        { role: 'user', content: [long] },
        { role: 'assistant', content: 'y' },
        { role: 'user', content: [{ type: 'text', text: 'z'.repeat(400), cache_control }] },
      ],
    });
    assert.equal(next.usage.cache_read_input_tokens, 2000);
    assert.equal(next.usage.cache_creation_input_tokens, 101);
    assert.equal(next.usage.input_tokens, 0);
  });

  test('errors arrive as the SDK’s own classes, also in a stream', async () => {
    const send = (prompt: string, key?: string) =>
      connect(key).messages.create({ model, max_tokens, messages: rehearse(prompt) });
    await assert.rejects(send('error 529'), Anthropic.OverloadedError);
    await assert.rejects(send('error 429 after 7 s'), (error) => {
      assert.ok(error instanceof Anthropic.RateLimitError);
      assert.equal(error.headers.get('retry-after'), '7');
      assert.equal(error.type, 'rate_limit_error');
      return true;
    });
    await assert.rejects(send('hello', 'bad-key'), Anthropic.AuthenticationError);
    const stream = connect().messages.stream({
      model,
      max_tokens,
      messages: rehearse('error 529 in stream'),
    });
    await assert.rejects(stream.finalMessage(), /overloaded_error/);
  });

  test('refusal, models, counting', async () => {
    const client = connect();
    const body = { model, max_tokens, messages: rehearse('refusal') };
    assert.equal((await client.messages.create(body)).stop_reason, 'refusal');
    const models = await Array.fromAsync(client.models.list());
    assert.deepEqual(
      models.map((entry) => [entry.id, entry.max_input_tokens]),
      [
        ['rehearsal-large', 200_000],
        ['rehearsal-small', 32_000],
      ],
    );
    assert.equal((await client.models.retrieve(model)).max_tokens, 64_000);
    const counted = await client.messages.countTokens({ model, messages: opening, system });
    assert.equal(counted.input_tokens, Math.ceil((goal.length + system.length) / 4));
  });
});
