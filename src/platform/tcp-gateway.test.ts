// The TCP gateway: accepted callers, routing to daemons, and no request smuggling or lost bodies.
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import http from 'node:http';
import net from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, before, beforeEach, describe, it } from 'node:test';
import { errorCode, exchange, jsonOf, requestText } from '../../test/support/raw-http.ts';
import { DAEMONS, type DaemonName } from '../wire/daemons.ts';
import { socketPathFor } from './daemon.ts';
import { silentLog } from './log.ts';
import { openTcpGateway, type TcpGateway } from './tcp-gateway.ts';

const ANN = 'the-key-of-ann-that-is-long-enough-0123456789';
const KEY = 'a-key-that-is-long-enough-to-be-one-0123456789';
type Seen = { daemon: DaemonName; method: string; url: string; headers: object; body: string };

describe('TCP gateway', () => {
  const runtimeDir = mkdtempSync(join(tmpdir(), 'agentd-f-'));
  const servers: http.Server[] = [];
  const seen: Seen[] = [];
  const closed: string[] = [];
  let front: TcpGateway;
  let where: { host: string; port: number };

  /** Stands for a daemon: returns what reached it. */
  const standIn = (daemon: DaemonName): http.Server => {
    const server = http.createServer({ requireHostHeader: false }, (request, response) => {
      const url = request.url ?? '';
      request.on('close', () => request.complete || closed.push(url));
      if (url.includes('stream')) {
        response.writeHead(200, { 'content-type': 'text/event-stream' });
        response.write('data: 1\n\n');
        response.on('close', () => closed.push(url));
        return;
      }
      if (url.includes('cut')) return void response.destroy();
      let body = '';
      request.on('data', (chunk: Buffer) => {
        body += chunk.toString('latin1');
      });
      request.on('end', () => {
        seen.push({ daemon, method: request.method!, url, headers: request.headers, body });
        response.writeHead(url.includes('teapot') ? 418 : 200, {
          'content-type': 'application/json',
          'retry-after': '7',
        });
        response.end(JSON.stringify({ daemon }));
      });
    });
    const path = socketPathFor(runtimeDir, daemon, 'operator');
    mkdirSync(dirname(path), { recursive: true });
    server.listen(path);
    return server;
  };

  before(async () => {
    servers.push(...DAEMONS.filter((name) => name !== 'toold').map(standIn));
    const people = {
      find: (key: string) => (key === ANN ? { name: 'ann', role: 'operator' as const } : undefined),
      findRole: () => 'operator' as const,
      has: () => false,
      names: () => ['ann'],
    };
    front = await openTcpGateway({ port: 0, runtimeDir, operatorKey: KEY, people, log: silentLog });
    where = { host: '127.0.0.1', port: front.port };
  });
  beforeEach(() => void seen.splice(0));
  after(async () => {
    await front.close();
    for (const server of servers) {
      server.close();
      server.closeAllConnections();
    }
    rmSync(runtimeDir, { recursive: true, force: true });
  });

  const headers = (more: Record<string, string> = {}) => ({
    host: `127.0.0.1:${front.port}`,
    authorization: `Bearer ${KEY}`,
    ...more,
  });
  const ask = async (method: string, path: string, more = {}, body: string | Buffer = '') => {
    const { responses, broken } = await exchange(
      where,
      requestText(method, path, headers(more), body),
    );
    assert.equal(broken, undefined);
    assert.equal(responses.length, 1);
    return responses[0]!;
  };

  it('sends each path to the daemon that owns it, and returns status and headers', async () => {
    const owners: [string, DaemonName][] = [
      ['/v1/tasks?limit=3', 'agentd'],
      ['/v1/models/generate', 'modeld'],
      ['/openai/v1/models', 'modeld'],
      ['/anthropic/v1/messages', 'modeld'],
      ['/v1/approvals/key', 'approvald'],
      ['/v1/permits', 'approvald'],
      ['/v1/audit/events', 'auditd-ai'],
      ['/', 'agentd'],
      ['/anything', 'agentd'],
    ];
    for (const [path, daemon] of owners) {
      assert.deepEqual(jsonOf(await ask('GET', path)), { daemon }, path);
      assert.equal(seen.at(-1)!.url, path);
    }
    const odd = await ask('GET', '/teapot');
    assert.equal(odd.status, 418);
    assert.equal(odd.headers['retry-after'], '7');
  });

  it('serves the common routes of each daemon by its name, and of known daemons only', async () => {
    for (const daemon of ['agentd', 'modeld', 'auditd-ai'] as const)
      for (const path of ['/metrics', '/healthz']) {
        assert.deepEqual(jsonOf(await ask('GET', `/daemons/${daemon}${path}`)), { daemon });
        assert.equal(seen.at(-1)!.url, path);
      }
    for (const path of ['/daemons/unknown/metrics', '/daemons/-/healthz'])
      assert.equal(errorCode(await ask('GET', path)), 'no_such_route', path);
  });

  it("sends the daemon the authenticated key and person, not the client's headers", async () => {
    await ask('GET', '/v1/x', { 'x-api-key': 'other', 'agentd-person': 'ann', cookie: 'a=b' });
    const got = seen.at(-1)!.headers as Record<string, string>;
    assert.equal(got.authorization, `Bearer ${KEY}`);
    assert.equal(got['x-api-key'], undefined);
    assert.equal(got['agentd-person'], 'ann');
    await ask('GET', '/v1/x', { 'agentd-person': '../eve' });
    assert.equal((seen.at(-1)!.headers as Record<string, string>)['agentd-person'], 'operator');
    await ask('GET', '/v1/x', { authorization: `Bearer ${ANN}` });
    const hers = seen.at(-1)!.headers as Record<string, string>;
    assert.equal(hers.authorization, `Bearer ${ANN}`, 'the key of the person is passed on');
    assert.equal(hers['agentd-person'], 'ann');
  });

  it('refuses a wrong Host, Origin or key, and names it', async () => {
    const refused: [Record<string, string>, string, number][] = [
      [{ host: `evil.example:${front.port}` }, 'forbidden_origin', 403],
      [{ host: 'localhost' }, 'forbidden_origin', 403],
      [{ origin: 'http://evil.example' }, 'forbidden_origin', 403],
      [{ origin: 'null' }, 'forbidden_origin', 403],
      [{ authorization: 'Bearer wrong' }, 'unauthenticated', 401],
      [{ authorization: '' }, 'unauthenticated', 401],
    ];
    for (const [more, code, status] of refused) {
      const response = await ask('POST', '/v1/tasks', more, '{"goal":"x"}');
      assert.equal(errorCode(response), code, JSON.stringify(more));
      assert.equal(response.status, status);
    }
    const bare = await exchange(where, 'GET /v1/tasks HTTP/1.1\r\n\r\n');
    assert.equal(errorCode(bare.responses[0]!), 'forbidden_origin', 'no Host at all');
    assert.deepEqual(seen, []);
  });

  it('refuses a CORS preflight request too', async () => {
    const response = await ask('OPTIONS', '/v1/tasks', {
      origin: 'http://evil.example',
      'access-control-request-method': 'POST',
    });
    assert.equal(response.status, 403);
    assert.equal(response.headers['access-control-allow-origin'], undefined);
  });

  it('passes on whole bodies, with a length and in chunks, for every method', async () => {
    for (const method of ['POST', 'PUT', 'DELETE', 'GET']) {
      await ask(method, '/v1/x', {}, '{"a":"é"}');
      assert.equal(Buffer.from(seen.at(-1)!.body, 'latin1').toString('utf8'), '{"a":"é"}', method);
      const head = requestText(method, '/v1/x', headers({ 'transfer-encoding': 'chunked' }));
      const { responses } = await exchange(where, [head, '3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n']);
      assert.equal(responses[0]!.status, 200, method);
      assert.equal(seen.at(-1)!.body, 'abcde', method);
    }
    const big = Buffer.alloc(3_000_000, 97);
    await ask('POST', '/v1/x', {}, big);
    assert.equal(seen.at(-1)!.body.length, big.length);
  });

  it('never reads a body as a second request', async () => {
    const inner = `GET /v1/smuggled HTTP/1.1\r\nhost: a\r\nauthorization: Bearer ${KEY}\r\n\r\n`;
    for (const method of ['GET', 'DELETE', 'HEAD', 'POST', 'OPTIONS']) {
      const chunk = `${inner.length.toString(16)}\r\n${inner}\r\n0\r\n\r\n`;
      const head = `${method} /v1/x HTTP/1.1\r\nhost: 127.0.0.1:${front.port}\r\nauthorization: Bearer ${KEY}\r\n`;
      await exchange(where, `${head}transfer-encoding: chunked\r\n\r\n${chunk}`, {
        isHead: () => method === 'HEAD',
      });
      await ask('GET', '/v1/after');
    }
    assert.deepEqual(
      seen.filter(({ url }) => url.includes('smuggled')),
      [],
    );
  });

  it('rejects invalid bytes in a path as bad_request', async () => {
    const head = `HTTP/1.1\r\nhost: 127.0.0.1:${front.port}\r\nauthorization: Bearer ${KEY}\r\n\r\n`;
    for (const path of [
      '*',
      '/v1/\xff',
      '/v1/\x80?x=\xe9',
      '/%zz',
      '/v1/tasks#x',
      '//',
      '/v1/../v1/x',
    ]) {
      const { responses } = await exchange(where, `GET ${path} ${head}`);
      assert.ok([200, 400].includes(responses[0]!.status), `${path} ${responses[0]!.status}`);
    }
  });

  it('responds to invalid HTTP as the daemons do', async () => {
    for (const bytes of ['\x16\x03\x01garbage\r\n\r\n', 'GET / HTTP/9.9\r\n\r\n']) {
      const { responses } = await exchange(where, bytes);
      assert.equal(errorCode(responses[0]!), 'bad_request');
    }
    const much = await ask('GET', '/v1/x', { 'x-much': 'x'.repeat(20_000) });
    assert.equal(errorCode(much), 'too_large');
    const tunnel = await exchange(where, 'CONNECT a:1 HTTP/1.1\r\nhost: a\r\n\r\n');
    assert.equal(errorCode(tunnel.responses[0]!), 'method_not_allowed');
    const hope = await ask('POST', '/v1/x', { expect: 'a-miracle' });
    assert.equal(errorCode(hope), 'bad_request');
  });

  it('names the daemon that does not respond', async () => {
    const away = await ask('GET', '/v1/tools');
    assert.equal(errorCode(away), 'unavailable');
    assert.match(JSON.stringify(jsonOf(away)), /toold/);
    assert.equal(errorCode(await ask('GET', '/v1/cut')), 'unavailable');
  });

  it("streams responses, and passes on a reader's disconnect", async () => {
    const socket = net.connect(where);
    socket.write(requestText('GET', '/v1/stream', headers()));
    let text = '';
    await new Promise<void>((resolve) =>
      socket.on('data', (chunk) => {
        text += `${chunk}`;
        if (text.includes('data: 1')) resolve();
      }),
    );
    socket.destroy();
    while (!closed.includes('/v1/stream')) await new Promise((resolve) => setTimeout(resolve, 5));
  });

  it('reports a port that is in use', async () => {
    const again = openTcpGateway({
      port: front.port,
      runtimeDir,
      operatorKey: KEY,
      log: silentLog,
    });
    await assert.rejects(again, { code: 'conflict' });
  });

  it('listens on this host only', () => {
    assert.equal(where.host, '127.0.0.1');
    assert.ok(front.port > 0);
  });
});
