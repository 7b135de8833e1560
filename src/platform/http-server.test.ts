// The HTTP listener: fields of a request, size limits, and disconnected callers.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { existsSync, statSync } from 'node:fs';
import http from 'node:http';
import net from 'node:net';
import { dirname, join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { type EchoServer, startEchoServer } from '../../test/support/echo-server.ts';
import { errorCode, exchange, jsonOf, requestText } from '../../test/support/raw-http.ts';
import { authenticateAs } from './authenticate.ts';

describe('http-server', () => {
  let at: EchoServer;
  let path: string;
  const send: EchoServer['send'] = (bytes) => at.send(bytes);
  const echo: EchoServer['echo'] = (body, headers) => at.echo(body, headers);
  before(async () => {
    at = await startEchoServer();
    path = at.path;
  });
  after(() => at.close());

  it('responds to a valid request, in a private directory and socket', async () => {
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

  it('a refusal carries the request id, too', async () => {
    const response = await echo('{', { 'x-request-id': 'req-2' });
    assert.equal(errorCode(response), 'bad_json');
    assert.equal(response.headers['x-request-id'], 'req-2');
  });

  it('a caller is refused before its body is read', async () => {
    const head = 'POST /v1/peers HTTP/1.1\r\nhost: a\r\ncontent-length: 900000\r\n\r\n';
    assert.equal(errorCode(await send(`${head}not json`)), 'forbidden_caller');
  });

  it('a route may have its own body limit', async () => {
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

  it('does not read a refused body forever', async () => {
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

  it('writes a fault of a vendor route as that vendor does', async () => {
    const response = await send(requestText('POST', '/openai/x', {}, '['));
    assert.deepEqual(jsonOf(response), { openai: 'bad_json' });
  });

  it('sends Retry-After, and the allowed methods', async () => {
    const later = await send(requestText('GET', '/v1/retry'));
    assert.equal(later.status, 429);
    assert.equal(later.headers['retry-after'], '2');
    const allow = await send(requestText('DELETE', '/v1/echo'));
    assert.equal(allow.headers.allow, 'POST');
  });

  it('responds to pipelined requests in order', async () => {
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

  it('streams pieces as chunks', async () => {
    const response = await send(requestText('GET', '/v1/stream'));
    assert.equal(response.headers['transfer-encoding'], 'chunked');
    assert.equal(response.body.toString(), 'one\ntwo\n');
  });

  it('HEAD has no body, and an ordinary client is not confused by it', async () => {
    const heads = ['/v1/named/x', '/v1/stream', '/v1/echo'];
    const all = Buffer.concat([
      ...heads.map((head) => requestText('HEAD', head)),
      requestText('GET', '/v2/x'),
    ]);
    const options = { answers: 4, isHead: (i: number) => i < 3 };
    const { responses, broken } = await exchange({ path }, all, options);
    assert.equal(broken, undefined);
    assert.deepEqual(
      responses.map((one) => one.status),
      [200, 405, 405, 404],
    );
  });

  it("aborts the handler's signal when its caller disconnects", async () => {
    const was = at.canceled.length;
    const socket = net.connect({ path });
    const first = requestText('POST', '/v1/echo', {}, '{"text":"a"}');
    socket.write(Buffer.concat([first, requestText('GET', '/v1/slow')]));
    // The second request is in progress when the first response arrives.
    await once(socket, 'data');
    socket.destroy();
    while (at.canceled.length === was) await new Promise((resolve) => setTimeout(resolve, 5));
    assert.equal(at.canceled.at(-1), 'canceled');
  });

  it('a client that disconnects in the middle of its body is not our error', async () => {
    const socket = net.connect({ path });
    socket.write('POST /v1/echo HTTP/1.1\r\nhost: a\r\ncontent-length: 100\r\n\r\n{"te');
    await new Promise((resolve) => setTimeout(resolve, 20));
    const before = at.lines.length;
    socket.destroy();
    assert.equal((await echo('{"text":"a"}')).status, 200);
    await new Promise((resolve) => setTimeout(resolve, 20));
    const errors = at.lines.slice(before).filter((line) => line.includes('"level":"error"'));
    assert.deepEqual(errors, []);
  });

  it('refuses a socket path the kernel would truncate, and a port in use', async () => {
    const long = join(at.dir, 'x'.repeat(100), 'y.sock');
    const caller = authenticateAs({ kind: 'operator', principal: 'person:ann' });
    await assert.rejects(at.listener.listenUnix(long, caller), { code: 'path_too_long' });
    assert.equal(existsSync(dirname(long)), false);
    const first = await at.listener.listenTcp('127.0.0.1', 0, caller);
    await assert.rejects(at.listener.listenTcp('127.0.0.1', first.port, caller), {
      code: 'conflict',
    });
    await first.close();
  });

  it('a long stream to a slow reader arrives complete and adds no listener per pause', async () => {
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
