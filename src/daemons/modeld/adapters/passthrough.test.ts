// Tests passthrough: requests keep all members, and responses every byte.
import assert from 'node:assert/strict';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, test } from 'node:test';
import fc from 'fast-check';
import { systemClock } from '../../../platform/clock.ts';
import { LIMITS } from '../testing/provider-calls.ts';
import { anthropic } from './anthropic.ts';
import type { Dialect } from './dialect.ts';
import { openai } from './openai.ts';
import { passRequest, passStream, tapResponse } from './passthrough.ts';
import { makeProviderClient, type Provider } from './provider-client.ts';
import type { JsonObject } from './reading.ts';

const client = makeProviderClient({ clock: systemClock() });
const servers: http.Server[] = [];
afterEach(() => {
  for (const server of servers.splice(0)) {
    server.closeAllConnections();
    server.close();
  }
});

const pass = (dialect: Dialect, text: string, more: object = {}) =>
  passRequest({ dialect, text, body: JSON.parse(text) as JsonObject, model: 'up', ...more });

test('only the model and the limit of a body change', () => {
  const text =
    '{ "model":"coder", "unknown":{"deep":[1.50,1e3]}, "max_tokens" : 999,"seed":9007199254740993 }';
  const passed = pass(anthropic, text, { maxOutputTokens: 10 });
  assert.equal(
    passed.text,
    '{ "model":"up", "unknown":{"deep":[1.50,1e3]}, "max_tokens" : 10,"seed":9007199254740993 }',
  );
  assert.deepEqual([passed.stream, passed.hidesUsage], [false, false]);
});

test('every occurrence of the model is set, however it is spelled', () => {
  const untouched = '{ "model" : "up","messages":[{"content":"a \\"model\\" is"}] }';
  assert.equal(pass(openai, untouched).text, untouched);
  const places = [
    '{"model":"other","model":"up"}',
    '{"m\\u006fdel":"other","model":"up"}',
    '{"model":"other","m\\u006fdel":"up"}',
  ];
  for (const text of places)
    assert.equal(pass(openai, text).text, text.replace('"other"', '"up"'), text);
});

test('usage is requested in streams whose client did not, and only there', () => {
  const read = (text: string) => {
    const passed = pass(openai, text);
    return [passed.hidesUsage, (JSON.parse(passed.text) as JsonObject).stream_options];
  };
  assert.deepEqual(read('{"model":"a","stream":true}'), [true, { include_usage: true }]);
  assert.deepEqual(
    read('{"model":"a","stream":true,"stream_options":{"include_obfuscation":false}}'),
    [true, { include_obfuscation: false, include_usage: true }],
  );
  assert.deepEqual(read('{"model":"a","stream":true,"stream_options":{"include_usage":true}}'), [
    false,
    { include_usage: true },
  ]);
  assert.deepEqual(read('{"model":"a","stream":true,"stream_options":null}'), [
    true,
    { include_usage: true },
  ]);
  assert.deepEqual(read('{"model":"a"}'), [false, undefined]);
});

test('any body: other members keep their meaning', () => {
  fc.assert(
    fc.property(
      fc.dictionary(fc.string(), fc.jsonValue(), { noNullPrototype: true }),
      (members) => {
        const body = { ...members, model: 'a', max_tokens: 5, stream: false };
        const text = JSON.stringify(body);
        const sent = JSON.parse(pass(anthropic, text, { maxOutputTokens: 3 }).text) as JsonObject;
        assert.deepEqual(sent, { ...(JSON.parse(text) as JsonObject), model: 'up', max_tokens: 3 });
      },
    ),
  );
});

test('the usage of a whole response is read', () => {
  const json = {
    id: 'm',
    content: [
      { type: 'server_tool_use', id: 's', name: 'web_search', input: {} },
      { type: 'tool_use', id: 't', name: 'git_diff', input: {} },
    ],
    stop_reason: 'tool_use',
    usage: { input_tokens: 3, output_tokens: 4 },
  };
  const bytes = Buffer.from(JSON.stringify(json));
  const response = tapResponse({
    dialect: anthropic,
    response: { headers: {}, bytes, json },
    model: 'up',
    provider: 'p',
  });
  assert.deepEqual(response.message.parts, [
    { type: 'tool_call', id: 't', name: 'git_diff', arguments: {} },
  ]);
  assert.equal(response.usage.output_tokens, 4);
});

/** Serves the bytes split at these offsets. Resolves to what a client would get. */
async function through(options: {
  dialect: Dialect;
  bytes: Buffer;
  cuts: number[];
  hidesUsage: boolean;
}) {
  const { dialect, bytes, cuts, hidesUsage } = options;
  const server = http.createServer((request, response) => {
    request.resume();
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    const ends = [...cuts.map((c) => c % (bytes.length + 1)), bytes.length].sort((a, b) => a - b);
    let from = 0;
    const next = (): void => {
      const end = ends.shift();
      if (end === undefined) return void response.end();
      response.write(bytes.subarray(from, end), () => setImmediate(next));
      from = end;
    };
    next();
  });
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const provider: Provider = {
    name: 'p',
    dialect: dialect.name,
    baseUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    readKey: () => undefined,
  };
  const call = { provider, body: '{}', stream: true as const, deadlineMs: 5_000, limits: LIMITS };
  const upstream = await client.callProvider(call);
  const { items, ended } = await passStream({
    dialect,
    upstream,
    model: 'up',
    provider: 'p',
    hidesUsage,
  });
  const got: Buffer[] = [];
  for await (const item of items) got.push(item);
  return { got: Buffer.concat(got), end: await ended };
}

const line = (value: unknown) => `data: ${JSON.stringify(value)}\n\n`;
const delta = (content: string, more: object = {}) =>
  line({
    id: 'c',
    choices: [{ index: 0, delta: { content }, finish_reason: null }],
    usage: null,
    new_field: [1],
    ...more,
  });
const USAGE = line({ id: 'c', choices: [], usage: { prompt_tokens: 9, completion_tokens: 2 } });
const OPENAI = [
  ': hello\n\n',
  delta('Hé'),
  delta('llo €', { obfuscation: 'xy' }),
  line({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] }),
  USAGE,
  'data: [DONE]\n\n',
];
const named = (value: { type: string }) => `event: ${value.type}\n${line(value)}`;
const ANTHROPIC = [
  named({
    type: 'message_start',
    message: { id: 'm', usage: { input_tokens: 9, output_tokens: 1 } },
  } as never),
  named({ type: 'ping' }),
  named({
    type: 'content_block_start',
    index: 0,
    content_block: { type: 'text', text: '' },
  } as never),
  named({
    type: 'content_block_delta',
    index: 0,
    delta: { type: 'text_delta', text: 'Hello €' },
  } as never),
  named({ type: 'content_block_stop', index: 0 } as never),
  named({ type: 'brand_new_event', data: 1 } as never),
  named({
    type: 'message_delta',
    delta: { stop_reason: 'end_turn' },
    usage: { output_tokens: 2 },
  } as never),
  named({ type: 'message_stop' }),
];

test('a stream is passed byte for byte, however it is split, and its usage is read', async () => {
  const draws = fc.sample(fc.array(fc.nat(), { maxLength: 8 }), 12);
  for (const cuts of draws) {
    for (const [dialect, parts] of [
      [openai, OPENAI],
      [anthropic, ANTHROPIC],
    ] as const) {
      const bytes = Buffer.from(parts.join(''));
      const { got, end } = await through({ dialect, bytes, cuts, hidesUsage: false });
      assert.deepEqual(got, bytes);
      assert.equal(end.fault, undefined);
      assert.equal(end.response.usage.input_tokens, 9);
      assert.equal(end.response.usage.output_tokens, 2);
      assert.equal(end.response.stopReason, 'end');
    }
  }
});

test('a usage chunk that only modeld requested is not passed on', async () => {
  const bytes = Buffer.from(OPENAI.join(''));
  const expected = OPENAI.filter((part) => part !== USAGE).join('');
  for (const cuts of fc.sample(fc.array(fc.nat(), { maxLength: 8 }), 12)) {
    const { got, end } = await through({ dialect: openai, bytes, cuts, hidesUsage: true });
    assert.equal(got.toString(), expected);
    assert.equal(end.response.usage.input_tokens, 9);
  }
});

test("an aborted stream yields whole events and then an error in the client's dialect", async () => {
  for (const [dialect, parts, mark] of [
    [openai, OPENAI, /^data: \{"error":\{"message":"the provider p ended/],
    [anthropic, ANTHROPIC, /^event: error\ndata: \{"type":"error","error":\{"type":"api_error"/],
  ] as const) {
    const whole = parts.slice(0, 4).join('');
    const bytes = Buffer.from(`${whole}${parts[4]?.slice(0, 12)}`);
    const { got, end } = await through({ dialect, bytes, cuts: [], hidesUsage: false });
    assert.equal(got.toString().slice(0, whole.length), whole);
    assert.match(got.toString().slice(whole.length), mark);
    assert.equal(end.fault?.code, 'provider_malformed');
  }
});

test("the provider's error event is replaced by modeld's", async () => {
  const bytes = Buffer.from(
    `${delta('a')}${line({ error: { message: 'odd words', type: 'server_error' } })}`,
  );
  const { got, end } = await through({ dialect: openai, bytes, cuts: [], hidesUsage: false });
  assert.match(got.toString(), /"code":"provider_down"/);
  assert.equal(end.fault?.code, 'provider_down');
});

test('a slow client slows the provider', async () => {
  let isOver = false;
  let written = 0;
  const big = delta('x'.repeat(60_000));
  const server = http.createServer((request, response) => {
    request.resume();
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    const pour = (): void => {
      while (!isOver && response.write(big)) written += big.length;
    };
    response.on('drain', pour);
    pour();
  });
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const provider: Provider = { name: 'p', dialect: 'openai', baseUrl, readKey: () => undefined };
  const call = { provider, body: '{}', stream: true as const, deadlineMs: 10_000, limits: LIMITS };
  const upstream = await client.callProvider(call);
  const { items } = await passStream({
    dialect: openai,
    upstream,
    model: 'm',
    provider: 'p',
    hidesUsage: false,
  });
  await items.next();
  let before = -1;
  while (written !== before) {
    before = written;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  // Socket buffers bound the bytes in transit; without backpressure they would grow without bound.
  assert.ok(written < 64 * 1024 * 1024);
  isOver = true;
  await items.return?.(undefined);
});
