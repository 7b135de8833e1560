// One request, one answer: written and read as HTTP, and a cut-off answer is never taken for a
// whole one.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import http from 'node:http';
import { createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import fc from 'fast-check';
import { exchange, formatRequest, parseAnswer } from './exchange.ts';

const request = { method: 'GET', path: '/x', headers: {}, body: undefined, deadlineMs: 5_000 };

async function withServer(
  server: Server | http.Server,
  use: (socketPath: string) => Promise<void>,
): Promise<void> {
  const dir = mkdtempSync(join(tmpdir(), 'actl-x-'));
  const socketPath = join(dir, 's');
  await new Promise<void>((done) => server.listen(socketPath, done));
  try {
    await use(socketPath);
  } finally {
    await new Promise((done) => server.close(done));
    rmSync(dir, { recursive: true });
  }
}

test('a real HTTP server gets what was meant and is understood', async () => {
  const server = http.createServer(async (got, answer) => {
    let body = '';
    for await (const chunk of got) body += chunk;
    const text = JSON.stringify({ method: got.method, url: got.url, key: got.headers.key, body });
    answer.writeHead(201, { 'content-length': Buffer.byteLength(text) }).end(text);
  });
  await withServer(server, async (socketPath) => {
    const body = `{"goal":"größer 日本 ${'x'.repeat(300_000)}"}`;
    const answer = await exchange({
      ...request,
      socketPath,
      method: 'POST',
      path: '/v1/a%20b?c=d',
      headers: { key: 'k' },
      body,
    });
    assert.equal(answer.status, 201);
    const seen = { method: 'POST', url: '/v1/a%20b?c=d', key: 'k', body };
    assert.deepEqual(JSON.parse(answer.body), seen);
  });
});

const answering = (answer: (socket: Socket) => void) =>
  createServer((socket) => {
    socket.on('error', () => undefined);
    socket.once('data', () => answer(socket));
  });

test('an answer that is cut off, or none, is a fault', async () => {
  const half = 'HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n{"a"';
  for (const text of [half, '', 'HTTP/1.1 200 OK\r\n\r\n{}', 'garbage']) {
    await withServer(
      answering((socket) => socket.end(text)),
      async (socketPath) => {
        await assert.rejects(exchange({ ...request, socketPath }), { code: 'unavailable' }, text);
      },
    );
  }
});

test('a server that never answers is given up', async () => {
  const silent = answering(() => undefined);
  await withServer(silent, async (socketPath) => {
    await assert.rejects(exchange({ ...request, socketPath, deadlineMs: 50 }), {
      code: 'deadline',
    });
  });
});

test('a header cannot smuggle in another', () => {
  assert.throws(() => formatRequest({ ...request, headers: { key: 'a\r\nhost: b' } }), {
    code: 'bad_usage',
  });
});

test('only a whole answer is read', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme' }), fc.nat(), (body, cutAt) => {
      const length = Buffer.byteLength(body);
      const whole = `HTTP/1.1 200 OK\r\nContent-Length: ${length}\r\nx: y\r\n\r\n${body}`;
      assert.deepEqual(parseAnswer(whole), { status: 200, body });
      const cut = whole.slice(0, cutAt % whole.length);
      assert.throws(() => parseAnswer(cut), { code: 'unavailable' });
    }),
  );
});
