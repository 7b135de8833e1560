// Tests calls against small failing servers. Streams are in stream-response.test.ts.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import type http from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, test } from 'node:test';
import type { Fault } from '../../../wire/errors.ts';
import {
  closeServers,
  closing,
  isFault,
  KEY,
  LIMITS,
  type ProviderScript,
  provide,
  providerAt,
  sendJson,
  serve,
  streamed,
  whole,
} from '../testing/provider-calls.ts';
import { openai } from './openai.ts';
import { startEvents } from './stream-response.ts';
import { unchangedNames } from './tool-names.ts';

afterEach(closeServers);

test('a call sends its key, length and body, and returns the bytes', async () => {
  const seen: { headers: http.IncomingHttpHeaders; url: string; body: string }[] = [];
  const provider = await provide((request, response, body) => {
    seen.push({ headers: request.headers, url: request.url ?? '', body });
    sendJson(response, { ok: 1 }, 200, { 'x-request-id': 'r1', 'set-cookie': 'a=b' });
  });
  const response = await whole(provider, { headers: { 'x-extra': '1' } });
  assert.deepEqual(response.json, { ok: 1 });
  assert.equal(response.bytes.toString(), '{"ok":1}');
  assert.deepEqual(response.headers, { 'content-type': 'application/json', 'x-request-id': 'r1' });
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

test('sockets are reused, also after errors and streams', async () => {
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
  const reader = openai.readStream(unchangedNames('m', 'acme'));
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

test('a call on an idle socket that the server closes is repeated once', async () => {
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

test("the vendor's errors become faults with retry-after, without the key", async () => {
  let headers: Record<string, string> = {};
  let status = 429;
  const message = `Rate limit for ${KEY} reached`;
  const provider = await provide((_, response) =>
    sendJson(response, { error: { message, type: 'requests', code: 'x' } }, status, headers),
  );
  headers = { 'retry-after': '3' };
  await assert.rejects(whole(provider), (error: Fault) => {
    isFault('rate_limited', /acme rate limited the call: Rate limit for \[key\] reached/)(error);
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

test('a key that is echoed in a header or a content type is not passed on', async () => {
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

test('a key that is invalid in a header is reported without the key', async () => {
  const provider = await provide((_, response) => sendJson(response, {}), {
    readKey: () => `${KEY}\nx: y`,
  });
  await assert.rejects(whole(provider), isFault('provider_auth', /key of provider acme/));
});

const broken: [string, ProviderScript, string, RegExp][] = [
  [
    'a truncated JSON document',
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
  ['no type', (_, r) => r.writeHead(200).end('{}'), 'provider_malformed', /without a content type/],
  [
    'unrequested gzip',
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
    'a body shorter than its content-length',
    (_, r) => {
      r.writeHead(200, { 'content-type': 'application/json', 'content-length': 99 });
      r.write('{');
      setTimeout(() => r.destroy(), 5);
    },
    'provider_malformed',
    /closed the connection/,
  ],
  [
    'endless nesting',
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

test('a refused connection is provider_down with its reason', async () => {
  await assert.rejects(
    whole(providerAt('http://127.0.0.1:1')),
    isFault('provider_down', /ECONNREFUSED/),
  );
  await assert.rejects(
    whole(providerAt('unix:/nowhere/s.sock')),
    isFault('provider_down', /ENOENT/),
  );
});

test('no first byte, a stalled body and too many bytes all end the call', async () => {
  const silent = await provide(() => {});
  await assert.rejects(
    whole(silent, { limits: { ...LIMITS, firstByteTimeoutMs: 30 } }),
    isFault('provider_down', /did not start a response within 30 ms/),
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
