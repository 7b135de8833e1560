// Tests that the vendors' SDKs read our responses, streams and errors.
import assert from 'node:assert/strict';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, test } from 'node:test';
import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import { type Fault, fault } from '../../../wire/errors.ts';
import { anthropic } from './anthropic.ts';
import type { Dialect, ModelResponse, ResponseEvent, ResponseMeta } from './dialect.ts';
import { openai } from './openai.ts';

const META: ResponseMeta = { id: 'id_1', model: 'coder', createdMs: 5_000, streamUsage: true };
const ANSWER: ModelResponse = {
  id: 'x',
  model: 'up',
  message: {
    role: 'assistant',
    parts: [
      { type: 'text', text: 'I will look.' },
      { type: 'tool_call', id: 'c1', name: 'f', arguments: { a: 1 } },
      { type: 'tool_call', id: 'c2', name: 'g', arguments: {} },
    ],
  },
  stopReason: 'tool_calls',
  usage: {
    input_tokens: 10,
    output_tokens: 20,
    cache_read_tokens: 3,
    cache_write_tokens: 4,
    reasoning_tokens: 5,
  },
  usageReported: true,
  cacheWriteLongTokens: 0,
};
const EVENTS: ResponseEvent[] = [
  { type: 'text', text: 'I will ' },
  { type: 'text', text: 'look.' },
  { type: 'tool_call', id: 'c1', name: 'f' },
  { type: 'tool_arguments', id: 'c1', text: '{"a"' },
  { type: 'tool_call', id: 'c2', name: 'g' },
  { type: 'tool_arguments', id: 'c1', text: ':1}' },
  { type: 'tool_arguments', id: 'c2', text: '{}' },
  { type: 'done', response: ANSWER },
];

/** The server's next response, or failure before or during it. */
let next: { fault?: Fault; midway?: Fault } = {};
let requests = 0;
let server: http.Server;
let base = '';

function serve(dialect: Dialect, streams: boolean, response: http.ServerResponse): void {
  if (next.fault !== undefined) {
    const { status, headers, body } = dialect.writeError(next.fault);
    response.writeHead(status, headers).end(body);
  } else if (streams) {
    const writer = dialect.writeStream(META);
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    const { midway } = next;
    const events = midway === undefined ? EVENTS : EVENTS.slice(0, 2);
    for (const event of events) response.write(writer.write(event));
    response.end(midway === undefined ? '' : dialect.writeStreamError(midway));
  } else {
    const body = JSON.stringify(dialect.writeResponse(ANSWER, META));
    response.writeHead(200, { 'content-type': 'application/json' }).end(body);
  }
}

before(async () => {
  server = http.createServer((request, response) => {
    requests++;
    let text = '';
    request.on('data', (chunk) => {
      text += chunk;
    });
    request.on('end', () => {
      const dialect = request.url?.includes('/messages') ? anthropic : openai;
      serve(dialect, (JSON.parse(text) as { stream?: boolean }).stream === true, response);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
after(() => {
  server.closeAllConnections();
  server.close();
});

const openaiClient = () => new OpenAI({ apiKey: 'k', baseURL: `${base}/v1`, maxRetries: 1 });
const anthropicClient = () => new Anthropic({ apiKey: 'k', baseURL: base, maxRetries: 1 });
const chat = { model: 'coder', messages: [{ role: 'user' as const, content: 'hi' }] };
const message = { ...chat, max_tokens: 10 };

test('the OpenAI SDK reads a whole response', async () => {
  next = {};
  const response = await openaiClient().chat.completions.create(chat);
  const [choice] = response.choices;
  assert.equal(choice?.message.content, 'I will look.');
  assert.equal(choice?.finish_reason, 'tool_calls');
  assert.deepEqual(
    choice?.message.tool_calls?.map((call) => call.type === 'function' && call.function),
    [
      { name: 'f', arguments: '{"a":1}' },
      { name: 'g', arguments: '{}' },
    ],
  );
  assert.equal(response.usage?.prompt_tokens, 17);
  assert.equal(response.usage?.prompt_tokens_details?.cached_tokens, 3);
});

test('the OpenAI SDK reassembles a stream', async () => {
  next = {};
  const stream = openaiClient().chat.completions.stream({
    ...chat,
    stream_options: { include_usage: true },
  });
  const response = await stream.finalChatCompletion();
  const [choice] = response.choices;
  assert.equal(choice?.message.content, 'I will look.');
  assert.deepEqual(
    choice?.message.tool_calls?.map((call) => call.type === 'function' && call.function.arguments),
    ['{"a":1}', '{}'],
  );
  assert.equal(response.usage?.completion_tokens, 20);
});

test('the Anthropic SDK reads a whole response', async () => {
  next = {};
  const response = await anthropicClient().messages.create(message);
  assert.deepEqual(
    response.content.map((block) => block.type),
    ['text', 'tool_use', 'tool_use'],
  );
  assert.equal(response.stop_reason, 'tool_use');
  assert.equal(response.usage.cache_read_input_tokens, 3);
});

test('the Anthropic SDK reassembles a stream, also with alternating calls', async () => {
  next = {};
  const response = await anthropicClient().messages.stream(message).finalMessage();
  assert.deepEqual(
    response.content.map((block) => (block.type === 'tool_use' ? block.input : block.type)),
    ['text', { a: 1 }, {}],
  );
  assert.equal(response.usage.output_tokens, 20);
  assert.equal(response.usage.input_tokens, 10);
});

type Row = [Fault, new (...args: never[]) => Error, new (...args: never[]) => Error];
const rows: Row[] = [
  [fault('bad_request', 'm'), OpenAI.BadRequestError, Anthropic.BadRequestError],
  [fault('context_too_long', 'm'), OpenAI.BadRequestError, Anthropic.BadRequestError],
  [fault('unauthenticated', 'm'), OpenAI.AuthenticationError, Anthropic.AuthenticationError],
  [fault('denied', 'm'), OpenAI.PermissionDeniedError, Anthropic.PermissionDeniedError],
  [fault('not_found', 'm'), OpenAI.NotFoundError, Anthropic.NotFoundError],
  [fault('budget', 'm'), OpenAI.RateLimitError, Anthropic.APIError],
  [
    fault('rate_limited', 'm', { retryAfterMs: 1 }),
    OpenAI.RateLimitError,
    Anthropic.RateLimitError,
  ],
  [fault('provider_down', 'm'), OpenAI.InternalServerError, Anthropic.InternalServerError],
  [
    fault('provider_refused', 'm', { details: { upstream_status: 422 } }),
    OpenAI.UnprocessableEntityError,
    Anthropic.UnprocessableEntityError,
  ],
];
for (const [reason, openaiClass, anthropicClass] of rows) {
  test(`both SDKs raise the right class for ${reason.code} and retry only what can help`, async () => {
    next = { fault: reason };
    requests = 0;
    await assert.rejects(openaiClient().chat.completions.create(chat), openaiClass);
    await assert.rejects(anthropicClient().messages.create(message), (error) => {
      assert.ok(error instanceof anthropicClass);
      assert.equal((error as { errorCode?: string }).errorCode, reason.code);
      return true;
    });
    assert.equal(requests, reason.retry ? 4 : 2);
  });
}

test('both SDKs raise an error in the middle of a stream', async () => {
  next = { midway: fault('provider_down', 'the provider went away') };
  const stream = await openaiClient().chat.completions.create({ ...chat, stream: true });
  await assert.rejects(async () => {
    for await (const _ of stream);
  }, /went away/);
  const events = await anthropicClient().messages.create({ ...message, stream: true });
  await assert.rejects(async () => {
    for await (const _ of events);
  }, /went away/);
});
