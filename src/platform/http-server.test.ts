// The socket link's server side: limits of size, time and form, each with a readable answer.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { existsSync, mkdtempSync, rmSync, statSync } from 'node:fs';
import http from 'node:http';
import net from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { z } from 'zod';
import {
  errorCode,
  exchange,
  jsonOf,
  type RawResponse,
  requestText,
} from '../../test/support/raw-http.ts';
import { type Fault, fault } from '../wire/errors.ts';
import { route, routes } from '../wire/route.ts';
import { alwaysCaller } from './authenticate.ts';
import { type Context, makeDispatch, RawAnswer } from './dispatch.ts';
import { type HttpFace, makeHttpFace } from './http-server.ts';
import { makeLog } from './log.ts';
import { makeMetrics } from './metrics.ts';

const table = routes({
  echo: route({
    method: 'POST',
    path: '/v1/echo',
    callers: ['operator'],
    body: z.strictObject({ text: z.string() }),
    query: z.strictObject({ a: z.string().optional(), b: z.string().optional() }),
    output: z.looseObject({}),
  }),
  small: route({
    method: 'POST',
    path: '/v1/small',
    callers: ['operator'],
    body: z.unknown(),
    output: z.looseObject({}),
    bodySizeBytesMax: 100,
  }),
  named: route({
    method: 'GET',
    path: '/v1/named/{name}',
    callers: ['operator'],
    params: z.strictObject({ name: z.string() }),
    output: z.looseObject({}),
  }),
  slow: route({
    method: 'GET',
    path: '/v1/slow',
    callers: ['operator'],
    output: z.looseObject({}),
  }),
  stream: route({
    method: 'GET',
    path: '/v1/stream',
    callers: ['operator'],
    output: z.unknown(),
    streams: true,
  }),
  flood: route({
    method: 'GET',
    path: '/v1/flood',
    callers: ['operator'],
    output: z.unknown(),
    streams: true,
  }),
  retry: route({
    method: 'GET',
    path: '/v1/retry',
    callers: ['operator'],
    output: z.unknown(),
  }),
  vendor: route({
    method: 'POST',
    path: '/openai/x',
    callers: ['operator'],
    body: z.looseObject({}),
    output: z.unknown(),
    dialect: 'openai',
  }),
  peers: route({
    method: 'POST',
    path: '/v1/peers',
    callers: ['agentd'],
    body: z.unknown(),
    output: z.unknown(),
  }),
});

describe('http-server', () => {
  const dir = mkdtempSync(join(tmpdir(), 'agentd-h-'));
  const path = join(dir, 'op', 'x.sock');
  const lines: string[] = [];
  const canceled: string[] = [];
  let face: HttpFace;

  const seen = async (context: Pick<Context, 'trace' | 'idempotencyKey' | 'deadlineMs'>) => ({
    trace: context.trace,
    key: context.idempotencyKey,
    deadline: context.deadlineMs,
  });
  before(async () => {
    const log = makeLog((line) => lines.push(line));
    const hang = ({ signal }: { signal: AbortSignal }) =>
      new Promise<never>((_, reject) =>
        signal.addEventListener('abort', () => {
          canceled.push((signal.reason as Fault).code);
          reject(signal.reason);
        }),
      );
    async function* pieces() {
      yield 'one\n';
      yield 'two\n';
    }
    async function* flood() {
      for (let i = 0; i < 40; i++) yield Buffer.alloc(500_000);
    }
    const dispatch = makeDispatch({
      routes: table,
      handlers: {
        echo: async (c) => ({ ...(await seen(c as never)), text: c.body.text, query: c.query }),
        small: async () => ({}),
        named: async ({ params }) => params,
        slow: hang,
        stream: async () => new RawAnswer({ status: 200, headers: {}, body: pieces() }),
        flood: async () => new RawAnswer({ status: 200, headers: {}, body: flood() }),
        retry: () => Promise.reject(fault('rate_limited', 'later', { retryAfterMs: 1_500 })),
        vendor: async () => ({}),
        peers: async () => ({}),
      },
      log,
      metrics: makeMetrics('test'),
    });
    face = makeHttpFace({
      dispatch,
      log,
      dialectErrors: (dialect, known) => ({
        status: known.http,
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ [dialect]: known.code }),
      }),
    });
    await face.listenUnix(path, alwaysCaller({ kind: 'operator', principal: 'person:ann' }));
  });
  after(async () => {
    await face.closeAll();
    rmSync(dir, { recursive: true, force: true });
  });

  const send = async (bytes: Buffer | string): Promise<RawResponse> => {
    const { responses, broken } = await exchange({ path }, bytes);
    assert.equal(broken, undefined);
    assert.equal(responses.length, 1, 'one answer came');
    return responses[0]!;
  };
  const echo = (body: string | Buffer, headers: Record<string, string> = {}) =>
    send(requestText('POST', '/v1/echo', headers, body));

  it('answers a good request, in a directory and a socket that are ours alone', async () => {
    const response = await echo('{"text":"hé"}', { 'content-type': 'application/json' });
    assert.equal(response.status, 200);
    assert.equal((jsonOf(response) as { text: string }).text, 'hé');
    assert.equal(response.headers['content-type'], 'application/json');
    assert.equal(statSync(dirname(path)).mode & 0o777, 0o700);
    assert.equal(statSync(path).mode & 0o777, 0o600);
  });

  it('carries request id, trace, Idempotency-Key and deadline; ill-formed ids are replaced', async () => {
    const traceparent = `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01`;
    const response = await echo('{"text":""}', {
      'x-request-id': 'req.1-x',
      traceparent,
      'idempotency-key': 'k1',
      'agentd-deadline-ms': '1234',
    });
    assert.equal(response.headers['x-request-id'], 'req.1-x');
    const body = jsonOf(response) as Record<string, unknown>;
    assert.deepEqual(body.trace, { requestId: 'req.1-x', traceparent });
    assert.equal(body.key, 'k1');
    assert.equal(body.deadline, 1234);
    const other = await echo('{"text":""}', { 'x-request-id': 'a b', traceparent: 'x' });
    const { trace } = jsonOf(other) as { trace: { requestId: string; traceparent: string } };
    assert.match(trace.requestId, /^[0-9a-f]{32}$/);
    assert.match(trace.traceparent, /^00-[0-9a-f]{32}-[0-9a-f]{16}-01$/);
  });

  it('says the request id with a refusal, too', async () => {
    const response = await echo('{', { 'x-request-id': 'req-2' });
    assert.equal(errorCode(response), 'bad_json');
    assert.equal(response.headers['x-request-id'], 'req-2');
  });

  const ask = (query: string) => send(requestText('POST', `/v1/echo${query}`, {}, '{"text":""}'));

  const latin = (text: string) => Buffer.from(text, 'latin1');
  const refusals: [string, string, number, () => Promise<RawResponse>][] = [
    ['text that is no JSON', 'bad_json', 400, () => echo('{"text":')],
    ['two documents', 'bad_json', 400, () => echo('{"text":"a"}{"text":"b"}')],
    ['invalid UTF-8', 'bad_json', 400, () => echo(latin('{"text":"\xff\xfe"}'))],
    ['overlong UTF-8', 'bad_json', 400, () => echo(latin('{"text":"\xc0\xaf"}'))],
    ['a byte order mark', 'bad_json', 400, () => echo('\ufeff{"text":"a"}')],
    ['deep nesting', 'too_deep', 400, () => echo(`{"text":${'['.repeat(100)}`)],
    [
      'a million brackets',
      'too_deep',
      400,
      () => send(requestText('POST', '/v1/echo', {}, '['.repeat(999_000))),
    ],
    ['a form', 'unsupported_media', 415, () => echo('a=b', { 'content-type': 'text/plain' })],
    [
      'a type that only begins like JSON',
      'unsupported_media',
      415,
      () => echo('{"text":"a"}', { 'content-type': 'application/jsonx' }),
    ],
    ['a query key twice', 'bad_request', 400, () => ask('?a=1&a=2')],
    ['a broken escape', 'bad_request', 400, () => send(requestText('GET', '/v1/named/%zz'))],
    ['an escape cut off', 'bad_request', 400, () => send(requestText('GET', '/v1/named/%e2%82'))],
    ['a broken query', 'bad_request', 400, () => ask('?a=%zz')],
    ['no UTF-8 in a query', 'bad_request', 400, () => ask('?a=%ff')],
    ['an unknown query', 'bad_request', 400, () => ask('?__proto__=1')],
    ['an unknown route', 'no_such_route', 404, () => send(requestText('GET', '/v2/x'))],
    ['another method', 'method_not_allowed', 405, () => send(requestText('PUT', '/v1/slow'))],
    ['a key with a space', 'bad_request', 400, () => echo('{}', { 'idempotency-key': 'a b' })],
    ['a long key', 'bad_request', 400, () => echo('{}', { 'idempotency-key': 'k'.repeat(129) })],
    ['a body that is too large', 'too_large', 413, () => echo(Buffer.alloc(1_000_001, 32))],
    ['no body at all', 'bad_request', 400, () => send(requestText('POST', '/v1/echo'))],
    ['garbage', 'bad_request', 400, () => send('\x16\x03\x01\x02garbage\r\n\r\n')],
    ['an empty line and garbage', 'bad_request', 400, () => send('\r\nGET\r\n\r\n')],
    ['a later version', 'bad_request', 400, () => send('GET / HTTP/9.9\r\nhost: a\r\n\r\n')],
    ['HTTP/2 without asking', 'bad_request', 400, () => send('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n')],
    ['a length that is no number', 'bad_request', 400, () => echo('{}', { 'content-length': 'x' })],
    ['a negative length', 'bad_request', 400, () => echo('{}', { 'content-length': '-1' })],
    [
      'length and chunks together',
      'bad_request',
      400,
      () => echo('{}', { 'transfer-encoding': 'chunked' }),
    ],
    [
      'a header that breaks the line',
      'bad_request',
      400,
      () => send('GET /v1/slow HTTP/1.1\r\nhost: a\r\nx: a\0b\r\n\r\n'),
    ],
    [
      'headers that are too large',
      'too_large',
      413,
      () => echo('{}', { 'x-much': 'x'.repeat(20_000) }),
    ],
    [
      'an expectation nobody can meet',
      'bad_request',
      400,
      () => echo('{"text":"a"}', { expect: 'a-miracle' }),
    ],
    ['a tunnel', 'method_not_allowed', 405, () => send('CONNECT a:1 HTTP/1.1\r\nhost: a\r\n\r\n')],
  ];
  for (const [what, code, status, bring] of refusals) {
    it(`answers ${what} with ${status} ${code}`, async () => {
      const response = await bring();
      assert.equal(errorCode(response), code);
      assert.equal(response.status, status);
      const { error } = jsonOf(response) as { error: { message: string; hint: string } };
      assert.ok(error.message.length > 5 && error.hint.length > 5, 'it says what to do');
    });
  }

  it('needs no Host on a socket that is the identity', async () => {
    const response = await send('POST /v1/echo HTTP/1.1\r\ncontent-length: 12\r\n\r\n{"text":"a"}');
    assert.equal(response.status, 200);
  });

  it('a refused caller is told so before its body is read', async () => {
    const head = 'POST /v1/peers HTTP/1.1\r\nhost: a\r\ncontent-length: 900000\r\n\r\n';
    assert.equal(errorCode(await send(`${head}not json`)), 'forbidden_caller');
  });

  it('a route may take less or more than others', async () => {
    const body = Buffer.alloc(101, 32);
    assert.equal(errorCode(await send(requestText('POST', '/v1/small', {}, body))), 'too_large');
    const fits = await send(requestText('POST', '/v1/small', {}, `"${'a'.repeat(98)}"`));
    assert.equal(fits.status, 200);
  });

  it('an ordinary client that sends 10 MB reads the refusal, with and without a length', async () => {
    for (const headers of [{ 'content-length': 10_000_000 }, {}]) {
      const status = await new Promise<number | undefined>((resolve, reject) => {
        const request = http.request({
          socketPath: path,
          method: 'POST',
          path: '/v1/echo',
          headers,
        });
        request.on('error', reject);
        request.on('response', (response) => {
          response.resume();
          response.on('end', () => resolve(response.statusCode));
        });
        for (let i = 0; i < 10; i++) request.write(Buffer.alloc(1_000_000, 97));
        request.end();
      });
      assert.equal(status, 413);
    }
  });

  it('does not read for ever what it has refused', async () => {
    const socket = net.connect({ path });
    let sent = 0;
    const ended = new Promise<void>((resolve) => socket.on('close', () => resolve()));
    socket.on('error', () => undefined);
    socket.resume();
    socket.write('POST /v1/echo HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n');
    const chunk = `${(65_536).toString(16)}\r\n${'a'.repeat(65_536)}\r\n`;
    const more = (): void => {
      while (!socket.destroyed && sent < 10_000) {
        sent++;
        if (!socket.write(chunk)) return void socket.once('drain', more);
      }
    };
    more();
    await ended;
    assert.ok(sent < 10_000, 'the connection was ended after a bounded number of bytes');
  });

  it('asks a client that waits for its body only when it will read it', async () => {
    const waits = (length: number, path_ = '/v1/echo') =>
      `POST ${path_} HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: ${length}\r\n\r\n`;
    for (const [head, code] of [
      [waits(9_000_000), 'too_large'],
      [waits(10, '/v2/no'), 'no_such_route'],
      [waits(10, '/v1/peers'), 'forbidden_caller'],
    ] as const) {
      const { responses } = await exchange({ path }, head);
      assert.equal(errorCode(responses[0]!), code);
      assert.equal(responses[0]!.headers.connection, 'close');
    }
    const socket = net.connect({ path });
    socket.write(waits(12));
    const [asked] = (await once(socket, 'data')) as [Buffer];
    assert.equal(`${asked}`, 'HTTP/1.1 100 Continue\r\n\r\n');
    socket.write('{"text":"a"}');
    const [answer] = (await once(socket, 'data')) as [Buffer];
    assert.match(`${answer}`, /^HTTP\/1\.1 200 /);
    socket.destroy();
  });

  it('one that waits behind another request does not garble the answers', async () => {
    const first = requestText('POST', '/v1/echo', {}, '{"text":"a"}');
    const more = { expect: '100-continue' };
    const second = requestText('POST', '/v1/echo', more, '{"text":"b"}');
    const both = Buffer.concat([first, second]);
    const { responses, broken } = await exchange({ path }, both, { answers: 2 });
    assert.equal(broken, undefined);
    assert.deepEqual(
      responses.map((one) => (jsonOf(one) as { text: string }).text),
      ['a', 'b'],
    );
  });

  it('writes a fault of a vendor route as that vendor does', async () => {
    const response = await send(requestText('POST', '/openai/x', {}, '['));
    assert.deepEqual(jsonOf(response), { openai: 'bad_json' });
  });

  it('decodes what a query says', async () => {
    const { query } = jsonOf(await ask('?a=x+y%20%c3%a9&&b')) as { query: unknown };
    assert.deepEqual(query, { a: 'x y é', b: '' });
  });

  it('says when to come back, and which methods there are', async () => {
    const later = await send(requestText('GET', '/v1/retry'));
    assert.equal(later.status, 429);
    assert.equal(later.headers['retry-after'], '2');
    const allow = await send(requestText('DELETE', '/v1/echo'));
    assert.equal(allow.headers.allow, 'POST');
  });

  it('answers requests sent one behind the other in their order', async () => {
    const all = ['a', 'b', 'c', 'd'].map((text) =>
      requestText('POST', '/v1/echo', {}, JSON.stringify({ text })),
    );
    all.splice(2, 0, requestText('GET', '/v2/no'));
    const { responses } = await exchange({ path }, Buffer.concat(all), { answers: 5 });
    assert.deepEqual(
      responses.map((one) => (jsonOf(one) as { text?: string }).text ?? errorCode(one)),
      ['a', 'b', 'no_such_route', 'c', 'd'],
    );
  });

  it('does not put its word for garbage into another answer', async () => {
    const both = `${requestText('GET', '/v1/slow')}\x16\x03 garbage\r\n\r\n`;
    const { responses, broken, closed } = await exchange({ path }, both, { answers: 2 });
    assert.equal(broken, undefined);
    assert.equal(closed, true);
    assert.ok(responses.length <= 1);
  });

  it('streams pieces as chunks', async () => {
    const response = await send(requestText('GET', '/v1/stream'));
    assert.equal(response.headers['transfer-encoding'], 'chunked');
    assert.equal(response.body.toString(), 'one\ntwo\n');
  });

  it('HEAD has no body, and an ordinary client is not confused by it', async () => {
    const both = Buffer.concat([requestText('HEAD', '/v1/slow'), requestText('GET', '/v2/x')]);
    const options = { answers: 2, isHead: (i: number) => i === 0 };
    const { responses, broken } = await exchange({ path }, both, options);
    assert.equal(broken, undefined);
    assert.deepEqual(
      responses.map((one) => one.status),
      [405, 404],
    );
  });

  it('tells the handler when its caller has gone', async () => {
    const socket = net.connect({ path });
    socket.write(requestText('GET', '/v1/slow'));
    const was = canceled.length;
    setTimeout(() => socket.destroy(), 20);
    while (canceled.length === was) await new Promise((resolve) => setTimeout(resolve, 5));
    assert.equal(canceled.at(-1), 'canceled');
  });

  it('a client that goes away in the middle of its body is no error of ours', async () => {
    const socket = net.connect({ path });
    socket.write('POST /v1/echo HTTP/1.1\r\nhost: a\r\ncontent-length: 100\r\n\r\n{"te');
    await new Promise((resolve) => setTimeout(resolve, 20));
    const before = lines.length;
    socket.destroy();
    assert.equal((await echo('{"text":"a"}')).status, 200);
    await new Promise((resolve) => setTimeout(resolve, 20));
    const said = lines.slice(before).filter((line) => line.includes('"level":"error"'));
    assert.deepEqual(said, []);
  });

  it('refuses a socket path the kernel would cut off, and one that is listened on by port', async () => {
    const long = join(dir, 'x'.repeat(100), 'y.sock');
    const caller = alwaysCaller({ kind: 'operator', principal: 'person:ann' });
    await assert.rejects(face.listenUnix(long, caller), { code: 'path_too_long' });
    assert.equal(existsSync(dirname(long)), false);
    const first = await face.listenTcp('127.0.0.1', 0, caller);
    await assert.rejects(face.listenTcp('127.0.0.1', first.port, caller), { code: 'conflict' });
    await first.close();
  });

  it('a long stream to a slow reader arrives whole and adds no listener per pause', async () => {
    const warnings: string[] = [];
    const note = ({ name }: Error) => void warnings.push(name);
    process.on('warning', note);
    const request = http.get({ socketPath: path, path: '/v1/flood' });
    const [response] = (await once(request, 'response')) as [http.IncomingMessage];
    let size = 0;
    for await (const chunk of response) {
      size += (chunk as Buffer).length;
      await new Promise((resolve) => setImmediate(resolve));
    }
    process.off('warning', note);
    assert.equal(size, 20_000_000);
    assert.deepEqual(warnings, []);
  });
});

describe('http-server: slow requests', () => {
  it('a request that does not arrive in time is ended with a word', async () => {
    const dir = mkdtempSync(join(tmpdir(), 'agentd-h-'));
    const path = join(dir, 'x.sock');
    const log = makeLog(() => {});
    const dispatch = makeDispatch({
      routes: {},
      handlers: {},
      log,
      metrics: makeMetrics('test'),
    });
    const limits = { headersTimeoutMs: 100, requestTimeoutMs: 200, checkEveryMs: 50 };
    const face = makeHttpFace({ dispatch, log, limits });
    await face.listenUnix(path, alwaysCaller({ kind: 'operator', principal: 'person:ann' }));
    try {
      const { responses, closed } = await exchange({ path }, 'GET /v1/x HTTP/1.1\r\nhost: a\r\n', {
        answers: 2,
      });
      assert.equal(closed, true);
      assert.equal(errorCode(responses[0]!), 'deadline');
    } finally {
      await face.closeAll();
      rmSync(dir, { recursive: true, force: true });
    }
  });
});
