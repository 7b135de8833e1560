// Requests that are invalid, too slow or unsupported get an error response in the common form.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import net from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { type EchoServer, startEchoServer } from '../../../test/support/echo-server.ts';
import {
  errorCode,
  exchange,
  jsonOf,
  type RawResponse,
  requestText,
} from '../../../test/support/raw-http.ts';
import { authenticateAs } from '../authenticate.ts';
import { makeDispatch } from '../dispatch.ts';
import { makeHttpListener } from '../http-server.ts';
import { makeLog } from '../log.ts';
import { makeMetrics } from '../metrics.ts';

describe('requests that cannot be read', () => {
  let at: EchoServer;
  let path: string;
  const send: EchoServer['send'] = (bytes) => at.send(bytes);
  const echo: EchoServer['echo'] = (body, headers) => at.echo(body, headers);
  before(async () => {
    at = await startEchoServer();
    path = at.path;
  });
  after(() => at.close());

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
    ['a truncated escape', 'bad_request', 400, () => send(requestText('GET', '/v1/named/%e2%82'))],
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
      'an unknown expectation',
      'bad_request',
      400,
      () => echo('{"text":"a"}', { expect: 'a-miracle' }),
    ],
    ['a tunnel', 'method_not_allowed', 405, () => send('CONNECT a:1 HTTP/1.1\r\nhost: a\r\n\r\n')],
  ];
  for (const [what, code, status, bring] of refusals) {
    it(`responds to ${what} with ${status} ${code}`, async () => {
      const response = await bring();
      assert.equal(errorCode(response), code);
      assert.equal(response.status, status);
      const { error } = jsonOf(response) as { error: { message: string; hint: string } };
      assert.ok(error.message.length > 5 && error.hint.length > 5, 'it has a hint');
    });
  }

  it('needs no Host on a socket that is the identity', async () => {
    const response = await send('POST /v1/echo HTTP/1.1\r\ncontent-length: 12\r\n\r\n{"text":"a"}');
    assert.equal(response.status, 200);
  });

  it('sends 100 Continue only when it will read the body', async () => {
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
    const [reply] = (await once(socket, 'data')) as [Buffer];
    assert.equal(`${reply}`, 'HTTP/1.1 100 Continue\r\n\r\n');
    socket.write('{"text":"a"}');
    const [answer] = (await once(socket, 'data')) as [Buffer];
    assert.match(`${answer}`, /^HTTP\/1\.1 200 /);
    socket.destroy();
  });

  it('one that waits behind another request does not mix up the responses', async () => {
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

  it('an invalid HEAD gets a response without a body, too', async () => {
    const bytes = 'HEAD /\x80 HTTP/1.1\r\nhost: a\r\n\r\n';
    const options = { answers: 2, isHead: () => true };
    const { responses, broken, closed } = await exchange({ path }, bytes, options);
    assert.equal(broken, undefined);
    assert.equal(closed, true);
    assert.equal(responses[0]!.status, 400);
  });

  it('decodes a query', async () => {
    const { query } = jsonOf(await ask('?a=x+y%20%c3%a9&&b')) as { query: unknown };
    assert.deepEqual(query, { a: 'x y é', b: '' });
  });

  it('does not write an error response into another response', async () => {
    const both = `${requestText('GET', '/v1/slow')}\x16\x03 garbage\r\n\r\n`;
    const { responses, broken, closed } = await exchange({ path }, both, { answers: 2 });
    assert.equal(broken, undefined);
    assert.equal(closed, true);
    assert.ok(responses.length <= 1);
  });
});

describe('slow requests', () => {
  it('a request that does not arrive in time gets an error response', async () => {
    const dir = mkdtempSync(join(tmpdir(), 'agentd-h-'));
    const path = join(dir, 'x.sock');
    const log = makeLog(() => {});
    const dispatch = makeDispatch({
      routes: {},
      handlers: {},
      log,
      metrics: makeMetrics('test'),
    });
    const limits = { headersTimeoutMs: 100, requestTimeoutMs: 200, checkIntervalMs: 50 };
    const face = makeHttpListener({ dispatch, log, limits });
    await face.listenUnix(path, authenticateAs({ kind: 'operator', principal: 'person:ann' }));
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
