// One request and its response: Node's server understands what is sent, and only a complete
// response is returned.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import http from 'node:http';
import { createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import fc from 'fast-check';
import type { HttpPool } from './client.ts';
import { NotHttpError } from './head.ts';
import { openStream, sendRequest, unixPool } from './request.ts';

const request = { method: 'GET', path: '/x', headers: {}, timeoutMs: 5_000 };

async function withServer(
  server: Server | http.Server,
  use: (pool: HttpPool) => Promise<void>,
): Promise<void> {
  const dir = mkdtempSync(join(tmpdir(), 'http1-'));
  const path = join(dir, 's');
  await new Promise<void>((done) => server.listen(path, done));
  const pool = unixPool(path);
  try {
    await use(pool);
  } finally {
    pool.close();
    await new Promise((done) => server.close(done));
    rmSync(dir, { recursive: true });
  }
}

const replying = (reply: (socket: Socket) => void) =>
  createServer((socket) => {
    socket.on('error', () => undefined);
    socket.once('data', () => reply(socket));
  });

test("Node's HTTP server gets what was sent, and its response is read", async () => {
  const server = http.createServer(async (got, response) => {
    let body = '';
    for await (const chunk of got) body += chunk;
    const text = JSON.stringify({ method: got.method, url: got.url, key: got.headers.key, body });
    response.writeHead(201, { 'content-length': Buffer.byteLength(text) }).end(text);
  });
  await withServer(server, async (pool) => {
    const body = `{"goal":"größer 日本 ${'x'.repeat(300_000)}"}`;
    const path = '/v1/a%20b?c=d';
    const sent = { ...request, method: 'POST', path, headers: { key: 'k' }, body };
    const response = await sendRequest(pool, sent);
    assert.equal(response.status, 201);
    const seen = { method: 'POST', url: path, key: 'k', body };
    assert.deepEqual(JSON.parse(response.body), seen);
  });
});

test('an incomplete response is an error, and its code says why', async () => {
  for (const [text, code] of [
    ['', 'ECONNRESET'],
    ['HTTP/1.1 200 OK\r\ncontent-le', 'ECONNRESET'],
    ['HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n{"a"', 'HPE_INVALID_EOF_STATE'],
    ['HTTP/1.1 200 OK\r\n\r\n{}', 'HPE_INVALID'],
    ['garbage\r\n\r\n', 'HPE_INVALID'],
  ] as const) {
    const server = replying((socket) => socket.end(text));
    await withServer(server, (pool) => assert.rejects(sendRequest(pool, request), { code }, text));
  }
});

test('only a complete response is returned', async () => {
  let text = '';
  const server = replying((socket) => socket.end(text));
  await withServer(server, (pool) =>
    fc.assert(
      fc.asyncProperty(fc.string({ unit: 'grapheme' }), fc.nat(), async (body, cutAt) => {
        const length = Buffer.byteLength(body);
        const whole = `HTTP/1.1 200 OK\r\nContent-Length: ${length}\r\nx: y\r\n\r\n${body}`;
        text = whole;
        assert.deepEqual(await sendRequest(pool, request), { status: 200, body });
        text = whole.slice(0, cutAt % whole.length);
        await assert.rejects(sendRequest(pool, request), /closed (before|within) a response/);
      }),
      { numRuns: 50 },
    ),
  );
});

test('a server that never replies, and one that never ends, time out', async () => {
  const silent = replying(() => undefined);
  const endless = replying((socket) => {
    const timer = setInterval(() => socket.write('HTTP/1.1 103 Early Hints\r\n\r\n'), 5);
    socket.on('close', () => clearInterval(timer));
  });
  for (const server of [silent, endless])
    await withServer(server, (pool) =>
      assert.rejects(sendRequest(pool, { ...request, timeoutMs: 50 }), { code: 'ETIMEDOUT' }),
    );
});

test('an abort ends the call, before and after it is sent', async () => {
  await withServer(
    replying(() => undefined),
    async (pool) => {
      const canceled = { code: 'ABORT_ERR' };
      const controller = new AbortController();
      const whole = sendRequest(pool, { ...request, signal: controller.signal });
      const streamed = openStream(pool, { ...request, signal: controller.signal });
      setTimeout(() => controller.abort(), 10);
      await assert.rejects(whole, canceled);
      await assert.rejects(streamed, canceled);
      const signal = AbortSignal.abort();
      await assert.rejects(sendRequest(pool, { ...request, signal }), canceled);
      await assert.rejects(openStream(pool, { ...request, signal }), canceled);
    },
  );
});

test('a header or a path cannot smuggle in another line', async () => {
  const pool = unixPool('/nonexistent');
  const headers = { key: 'a\r\nhost: b' };
  await assert.rejects(sendRequest(pool, { ...request, headers }), NotHttpError);
  const path = '/x HTTP/1.1\r\nhost: b\r\n\r\n';
  await assert.rejects(openStream(pool, { ...request, path }), NotHttpError);
});

test('a stream is read as it arrives, at the pace of its reader', async () => {
  const total = 20_000_000;
  let sent = 0;
  const server = http.createServer((_, response) => {
    response.write('first');
    const more = (): void => {
      while (sent < total && response.write(Buffer.alloc(100_000, 'x'))) sent += 100_000;
      if (sent >= total) response.end();
    };
    response.on('drain', () => {
      sent += 100_000;
      more();
    });
    more();
  });
  await withServer(server, async (pool) => {
    const { status, body } = await openStream(pool, request);
    assert.equal(status, 200);
    await new Promise((done) => setTimeout(done, 100));
    assert.ok(sent < total / 2, `${sent} bytes were sent before anything was read`);
    const text = Buffer.concat((await body.toArray()) as Buffer[]).toString('latin1');
    assert.ok(text.startsWith('first'));
    assert.ok(text.length >= total);
  });
});

test('a stream that is truncated or aborted is an error for its reader', async () => {
  const head = 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n';
  const cut = replying((socket) => socket.end(head));
  await withServer(cut, async (pool) => {
    const { body } = await openStream(pool, request);
    await assert.rejects(body.toArray(), { code: 'HPE_INVALID_EOF_STATE' });
  });
  const open = replying((socket) => socket.write(head));
  await withServer(open, async (pool) => {
    const controller = new AbortController();
    const { body } = await openStream(pool, { ...request, signal: controller.signal });
    controller.abort();
    await assert.rejects(body.toArray(), { code: 'ABORT_ERR' });
  });
});
