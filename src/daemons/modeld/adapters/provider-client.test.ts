// One call against small servers that do what real ones do on a bad day.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import http from 'node:http';
import type { AddressInfo, ListenOptions } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, test } from 'node:test';
import { manualClock } from '../../../platform/clock.ts';
import { Fault } from '../../../wire/errors.ts';
import { openai } from './openai.ts';
import { makeProviderClient, type Provider, type ProviderCall } from './provider-client.ts';
import { type StreamEnd, startEvents } from './stream-answer.ts';
import { keptNames } from './tool-names.ts';

const KEY = 'sk-very-secret-1234567890';
const clock = manualClock(Date.parse('2026-11-11T10:00:00Z'));
const client = makeProviderClient({ clock });
const closing: (() => void)[] = [];
afterEach(() => {
  for (const close of closing.splice(0)) close();
});

type Answering = (
  request: http.IncomingMessage,
  response: http.ServerResponse,
  body: string,
) => void;

async function serve(answering: Answering, where: ListenOptions = { port: 0, host: '127.0.0.1' }) {
  const server = http.createServer((request, response) => {
    let body = '';
    request.on('data', (chunk) => {
      body += chunk;
    });
    request.on('end', () => answering(request, response, body));
  });
  await new Promise<void>((resolve) => server.listen(where, resolve));
  closing.push(() => {
    server.closeAllConnections();
    server.close();
  });
  return server;
}

const providerAt = (baseUrl: string, more: Partial<Provider> = {}): Provider => ({
  name: 'acme',
  dialect: 'openai',
  baseUrl,
  readKey: () => KEY,
  ...more,
});

async function provide(answering: Answering, more: Partial<Provider> = {}): Promise<Provider> {
  const server = await serve(answering);
  return providerAt(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, more);
}

const LIMITS = { connectTimeoutMs: 2_000, firstByteTimeoutMs: 2_000, idleTimeoutMs: 2_000 };
const callOf = (provider: Provider, more: Partial<ProviderCall> = {}) => ({
  provider,
  body: '{"x":"é"}',
  deadlineMs: 5_000,
  limits: LIMITS,
  ...more,
});
const whole = (provider: Provider, more: Partial<ProviderCall> = {}) =>
  client.callProvider({ ...callOf(provider, more), stream: false });
const streamed = (provider: Provider, more: Partial<ProviderCall> = {}) =>
  client.callProvider({ ...callOf(provider, more), stream: true });

const isFault = (code: string, words?: RegExp) => (error: unknown) => {
  assert.ok(error instanceof Fault, String(error));
  assert.equal(error.code, code, error.message);
  if (words !== undefined) assert.match(error.message, words);
  assert.ok(!JSON.stringify(error.toBody()).includes(KEY), 'the key is in the fault');
  return true;
};
const sendJson = (response: http.ServerResponse, value: unknown, status = 200, headers = {}) =>
  response
    .writeHead(status, { 'content-type': 'application/json', ...headers })
    .end(JSON.stringify(value));

test('a call carries its key, its length and its body, and gives the bytes back', async () => {
  const seen: { headers: http.IncomingHttpHeaders; url: string; body: string }[] = [];
  const provider = await provide((request, response, body) => {
    seen.push({ headers: request.headers, url: request.url ?? '', body });
    sendJson(response, { ok: 1 }, 200, { 'x-request-id': 'r1', 'set-cookie': 'a=b' });
  });
  const answer = await whole(provider, { headers: { 'x-extra': '1' } });
  assert.deepEqual(answer.json, { ok: 1 });
  assert.equal(answer.bytes.toString(), '{"ok":1}');
  assert.deepEqual(answer.headers, { 'content-type': 'application/json', 'x-request-id': 'r1' });
  const [first] = seen;
  assert.equal(first?.url, '/v1/chat/completions');
  assert.equal(first?.headers.authorization, `Bearer ${KEY}`);
  assert.equal(first?.headers['content-length'], '10');
  assert.equal(first?.headers['x-extra'], '1');
  assert.equal(first?.body, '{"x":"é"}');
});

test('Anthropic gets its own headers and path, whatever the base URL ends in', async () => {
  const urls: string[] = [];
  let headers: http.IncomingHttpHeaders = {};
  const provider = await provide(
    (request, response) => {
      urls.push(request.url ?? '');
      headers = request.headers;
      sendJson(response, {});
    },
    { dialect: 'anthropic' },
  );
  const version = { 'anthropic-version': '2026-10-21' };
  for (const end of ['', '/', '/v1', '/proxy/v1/', '/proxy'])
    await whole({ ...provider, baseUrl: provider.baseUrl + end }, { headers: version });
  assert.deepEqual(urls, [
    '/v1/messages',
    '/v1/messages',
    '/v1/messages',
    '/proxy/v1/messages',
    '/proxy/v1/messages',
  ]);
  assert.equal(headers['x-api-key'], KEY);
  assert.equal(headers.authorization, undefined);
  assert.equal(headers['anthropic-version'], '2026-10-21');
});

test('a Unix socket is a provider too, with a path if need be', async () => {
  const dir = mkdtempSync(join(tmpdir(), 'ad-'));
  closing.push(() => rmSync(dir, { recursive: true }));
  const path = join(dir, 's.sock');
  const urls: string[] = [];
  await serve(
    (request, response) => {
      urls.push(request.url ?? '');
      sendJson(response, {});
    },
    { path },
  );
  await whole(providerAt(`unix:${path}`));
  await whole(providerAt(`unix:${path}:/openai/v1`));
  assert.deepEqual(urls, ['/v1/chat/completions', '/openai/v1/chat/completions']);
});

test('a base URL of another kind is refused as configuration', async () => {
  await assert.rejects(whole(providerAt('ftp://x')), isFault('bad_config', /acme/));
});

test('sockets are used again, after errors and streams as well', async () => {
  const ports = new Set<number | undefined>();
  let turn = 0;
  const provider = await provide((request, response) => {
    ports.add(request.socket.remotePort);
    turn++;
    if (turn === 2) return void sendJson(response, { error: { message: 'm' } }, 400);
    if (turn !== 3) return void sendJson(response, {});
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.end('data: {"choices":[]}\n\ndata: [DONE]\n\n');
  });
  await whole(provider);
  await assert.rejects(whole(provider), isFault('provider_refused'));
  const reader = openai.readStream(keptNames('m', 'acme'));
  const { items } = await startEvents({
    upstream: await streamed(provider),
    reader,
    provider: 'acme',
  });
  for await (const _ of items);
  await new Promise((resolve) => setTimeout(resolve, 20));
  await whole(provider);
  assert.equal(ports.size, 1);
});

test('a kept socket that the server closes as it is used costs one quiet repeat', async () => {
  let connections = 0;
  const server = await serve((request, response) => {
    const socket = request.socket as typeof request.socket & { used?: boolean };
    if (socket.used === true) return void socket.resetAndDestroy();
    socket.used = true;
    sendJson(response, {});
  });
  server.on('connection', () => connections++);
  const provider = providerAt(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  await whole(provider);
  await whole(provider);
  assert.equal(connections, 2);
});

test("the vendor's errors come as faults with their wait, without the key", async () => {
  let headers: Record<string, string> = {};
  let status = 429;
  const message = `Rate limit for ${KEY} reached`;
  const provider = await provide((_, response) =>
    sendJson(response, { error: { message, type: 'requests', code: 'x' } }, status, headers),
  );
  headers = { 'retry-after': '3' };
  await assert.rejects(whole(provider), (error: Fault) => {
    isFault('rate_limited', /acme asks to wait: Rate limit for \[key\] reached/)(error);
    assert.equal(error.retryAfterMs, 3000);
    return true;
  });
  headers = { 'retry-after': 'Wed, 11 Nov 2026 10:00:07 GMT' };
  await assert.rejects(streamed(provider), (error: Fault) => error.retryAfterMs === 7000);
  status = 401;
  await assert.rejects(whole(provider), isFault('provider_auth'));
  status = 529;
  await assert.rejects(whole(provider), isFault('provider_down'));
});

test('a key that is echoed in a header or a content type goes no further', async () => {
  const provider = await provide((_, response) => {
    response.writeHead(200, { 'content-type': 'application/json', 'x-request-id': `r-${KEY}` });
    response.end('{}');
  });
  assert.deepEqual((await whole(provider)).headers, { 'content-type': 'application/json' });
  const html = await provide((_, response) =>
    response.writeHead(200, { 'content-type': `text/html; k=${KEY}` }).end('<html>'),
  );
  await assert.rejects(whole(html), isFault('provider_malformed', /text\/html/));
});

test('a key that no header can carry is named, not shown', async () => {
  const provider = await provide((_, response) => sendJson(response, {}), {
    readKey: () => `${KEY}\nx: y`,
  });
  await assert.rejects(whole(provider), isFault('provider_auth', /key of provider acme/));
});

const broken: [string, Answering, string, RegExp][] = [
  [
    'half a JSON document',
    (_, r) => r.writeHead(200, { 'content-type': 'application/json' }).end('{"a":'),
    'provider_malformed',
    /not JSON/,
  ],
  [
    'a page',
    (_, r) => r.writeHead(200, { 'content-type': 'text/html' }).end('<p>'),
    'provider_malformed',
    /text\/html/,
  ],
  ['no type', (_, r) => r.writeHead(200).end('{}'), 'provider_malformed', /no stated type/],
  [
    'gzip unasked',
    (_, r) =>
      r.writeHead(200, { 'content-type': 'application/json', 'content-encoding': 'gzip' }).end('x'),
    'provider_malformed',
    /gzip/,
  ],
  [
    'a redirect',
    (_, r) => r.writeHead(307, { location: 'http://127.0.0.1:1/' }).end(),
    'provider_malformed',
    /307/,
  ],
  [
    'a body shorter than said',
    (_, r) => {
      r.writeHead(200, { 'content-type': 'application/json', 'content-length': 99 });
      r.write('{');
      setTimeout(() => r.destroy(), 5);
    },
    'provider_malformed',
    /cut/,
  ],
  [
    'nesting without end',
    (_, r) => r.writeHead(200, { 'content-type': 'application/json' }).end('['.repeat(5000)),
    'provider_malformed',
    /not JSON/,
  ],
  ['a closed connection', (q) => q.socket.destroy(), 'provider_down', /ECONNRESET/],
];
for (const [name, answering, code, words] of broken) {
  test(`${name} is ${code}`, async () => {
    await assert.rejects(whole(await provide(answering)), isFault(code, words));
  });
}

test('nobody listening is down, and says why', async () => {
  await assert.rejects(
    whole(providerAt('http://127.0.0.1:1')),
    isFault('provider_down', /ECONNREFUSED/),
  );
  await assert.rejects(
    whole(providerAt('unix:/nowhere/s.sock')),
    isFault('provider_down', /ENOENT/),
  );
});

test('silence before, silence within and too many bytes all end', async () => {
  const silent = await provide(() => {});
  await assert.rejects(
    whole(silent, { limits: { ...LIMITS, firstByteTimeoutMs: 30 } }),
    isFault('provider_down', /began no answer within 30 ms/),
  );
  const stalls = await provide((_, response) => {
    response.writeHead(200, { 'content-type': 'application/json' }).write('{');
  });
  await assert.rejects(
    whole(stalls, { limits: { ...LIMITS, idleTimeoutMs: 30 } }),
    isFault('provider_down', /nothing for 30 ms/),
  );
  await assert.rejects(whole(stalls, { deadlineMs: 30 }), isFault('deadline', /30 ms/));
  const endless = await provide((_, response) => {
    response.writeHead(200, { 'content-type': 'application/json' });
    const pour = () => {
      while (!response.destroyed && response.write(' '.repeat(10_000)));
    };
    response.on('drain', pour);
    pour();
  });
  await assert.rejects(
    whole(endless, { limits: { ...LIMITS, sizeBytesMax: 100_000 } }),
    isFault('provider_malformed', /more than 100000 bytes/),
  );
});

test('an abort ends a call at once, at any time', async () => {
  const gone = AbortSignal.abort();
  await assert.rejects(
    whole(providerAt('http://127.0.0.1:1'), { signal: gone }),
    isFault('canceled'),
  );
  const left = Promise.withResolvers<void>();
  const provider = await provide((request) => {
    request.socket.on('close', () => left.resolve());
    abort.abort();
  });
  const abort = new AbortController();
  await assert.rejects(whole(provider, { signal: abort.signal }), isFault('canceled'));
  await left.promise;
});

const chunk = (content: string) =>
  `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content } }] })}\n\n`;
const FINISH = `data: ${JSON.stringify({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] })}\n\n`;

/** Set by a server that cuts its stream once the client has read something. */
let cutNow: () => void = () => {};

function sendStream(pieces: (string | Buffer)[], end: 'end' | 'cut' | 'hang'): Answering {
  return (_, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    for (const piece of pieces) response.write(piece);
    if (end === 'end') response.end();
    else if (end === 'cut') cutNow = () => response.destroy();
  };
}

async function readStream(provider: Provider, more: Partial<ProviderCall> = {}) {
  const upstream = await streamed(provider, more);
  const reader = openai.readStream(keptNames('m', 'acme'));
  const { items, ended } = await startEvents({ upstream, reader, provider: 'acme' });
  let text = '';
  for await (const events of items) {
    for (const event of events) if (event.type === 'text') text += event.text;
    cutNow();
  }
  const end: StreamEnd = await ended;
  return { text, end };
}

test('a stream that ends as it should is whole, also if the server keeps the connection', async () => {
  const parts = [chunk('a'), chunk('b'), FINISH, 'data: [DONE]\n\n'];
  for (const end of ['end', 'hang'] as const) {
    const { text, end: ended } = await readStream(await provide(sendStream(parts, end)));
    assert.equal(text, 'ab');
    assert.equal(ended.fault, undefined);
    assert.equal(ended.answer.stopReason, 'end');
  }
});

const cutStreams: [string, Answering, string, RegExp][] = [
  [
    'cut by the network',
    sendStream([chunk('a'), chunk('b')], 'cut'),
    'provider_malformed',
    /cut its answer off/,
  ],
  [
    'ended without its mark',
    sendStream([chunk('a'), FINISH], 'end'),
    'provider_malformed',
    /without saying/,
  ],
  [
    'broken in the middle',
    sendStream([chunk('a'), 'data: {"choices":[\n\n'], 'end'),
    'provider_malformed',
    /not JSON/,
  ],
  [
    'failing in the middle',
    sendStream(
      [chunk('a'), `data: {"error":{"message":"${KEY}","type":"server_error"}}\n\n`],
      'end',
    ),
    'provider_down',
    /\[key\]/,
  ],
  [
    'silent in the middle',
    sendStream([chunk('a')], 'hang'),
    'provider_down',
    /sent nothing for 300 ms/,
  ],
];
for (const [name, answering, code, words] of cutStreams) {
  test(`a stream ${name} gives what came and says how it ended`, async () => {
    const limits = { ...LIMITS, idleTimeoutMs: 300 };
    const { text, end } = await readStream(await provide(answering), { limits });
    assert.match(text, /^ab?$/);
    isFault(code, words)(end.fault);
  });
}

test('a stream that fails before its first word throws, so that it can be tried again', async () => {
  const body = 'data: {"error":{"message":"busy","type":"server_error"}}\n\n';
  await assert.rejects(
    readStream(await provide(sendStream([body], 'end'))),
    isFault('provider_down'),
  );
  await assert.rejects(
    readStream(await provide(sendStream([], 'end'))),
    isFault('provider_malformed'),
  );
  const json: Answering = (_, response) => sendJson(response, { choices: [] });
  await assert.rejects(readStream(await provide(json)), isFault('provider_malformed', /json/));
});

test('an endless stream is cut, as one event or as many', async () => {
  const pour =
    (first: string, piece: string): Answering =>
    (_, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' }).write(first);
      const more = () => {
        while (!response.destroyed && response.write(piece));
      };
      response.on('drain', more);
      more();
    };
  const limits = { ...LIMITS, sizeBytesMax: 200_000 };
  for (const answering of [
    pour(chunk('a'), chunk('b')),
    pour(`${chunk('a')}data: `, 'x'.repeat(999)),
  ]) {
    const { end } = await readStream(await provide(answering), { limits });
    isFault('provider_malformed', /more than 200000 bytes/)(end.fault);
  }
});

test('bytes that come one by one make the same stream', async () => {
  const bytes = Buffer.from(`${chunk('é')}${chunk('€')}data: [DONE]\n\n`);
  const provider = await provide(async (_, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    for (const byte of bytes) {
      response.write(Buffer.from([byte]));
      if (byte % 8 === 0) await new Promise((resolve) => setImmediate(resolve));
    }
    response.end();
  });
  assert.equal((await readStream(provider)).text, 'é€');
});

test('a client that goes away ends the call and still hears what was used', async () => {
  const left = Promise.withResolvers<void>();
  const provider = await provide((request, response, body) => {
    request.socket.on('close', () => left.resolve());
    sendStream([chunk('a')], 'hang')(request, response, body);
  });
  const upstream = await streamed(provider);
  const reader = openai.readStream(keptNames('m', 'acme'));
  const { items, ended } = await startEvents({ upstream, reader, provider: 'acme' });
  for await (const _ of items) break;
  const end = await ended;
  isFault('canceled')(end.fault);
  assert.deepEqual(end.answer.message.parts, [{ type: 'text', text: 'a' }]);
  await left.promise;
});

test('a stream nobody reads is settled when its time is over', async () => {
  const provider = await provide(sendStream([chunk('a')], 'hang'));
  const upstream = await streamed(provider, { deadlineMs: 100 });
  const reader = openai.readStream(keptNames('m', 'acme'));
  const { ended } = await startEvents({ upstream, reader, provider: 'acme' });
  isFault('deadline')((await ended).fault);
});
