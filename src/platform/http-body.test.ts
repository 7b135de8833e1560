// Arriving bodies are counted, and those over the limit are refused without harm to others; a
// socket accepts only its number of connections.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import net from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import * as z from 'zod';
import { errorCode, exchange, requestText } from '../../test/support/raw-http.ts';
import { eventually } from '../../test/support/runtime.ts';
import { route, routes } from '../wire/route.ts';
import { authenticateAs } from './authenticate.ts';
import { makeDispatch } from './dispatch.ts';
import { PROCESS_BODIES } from './http-body.ts';
import { type HttpListener, makeHttpListener } from './http-server.ts';
import { silentLog } from './log.ts';
import { makeMetrics } from './metrics.ts';

const post = (path: string) =>
  route({
    method: 'POST',
    path,
    callers: ['operator'],
    body: z.unknown(),
    output: z.looseObject({}),
  });
const table = routes({ put: post('/v1/put'), wait: post('/v1/wait') });

describe('http-body', () => {
  const dir = mkdtempSync(join(tmpdir(), 'agentd-b-'));
  const [tight, wide] = [join(dir, 'a', 'x.sock'), join(dir, 'b', 'x.sock')];
  const open: net.Socket[] = [];
  let face: HttpListener;
  const { promise: answered, resolve: answer } = Promise.withResolvers<void>();

  before(async () => {
    const metrics = makeMetrics('test');
    const handlers = {
      put: async () => ({}),
      async wait() {
        await answered;
        return {};
      },
    };
    const dispatch = makeDispatch({ routes: table, handlers, log: silentLog, metrics });
    face = makeHttpListener({ dispatch, log: silentLog });
    const caller = authenticateAs({ kind: 'operator', principal: 'person:ann' });
    await face.listenUnix(tight, caller, { connectionsMax: 4, bodiesBytesMax: 500_000 });
    await face.listenUnix(wide, caller);
  });
  after(async () => {
    for (const socket of open) socket.destroy();
    await face.closeAll();
    rmSync(dir, { recursive: true, force: true });
  });

  const sendHalf = async (path: string, bytes: number): Promise<net.Socket> => {
    const socket = net.connect(path);
    open.push(socket);
    await once(socket, 'connect');
    const head = 'POST /v1/put HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\n';
    socket.write(`${head}content-length: 900000\r\n\r\n${'1'.repeat(bytes)}`);
    return socket;
  };
  const put = async (path: string, bytes: number) => {
    const text = requestText('POST', '/v1/put', {}, '1'.repeat(bytes));
    const { responses } = await exchange({ path }, text);
    return responses[0]!.status === 200 ? 'ok' : errorCode(responses[0]!);
  };
  const held = (bytes: number) =>
    eventually(`${bytes} bytes held`, async () => PROCESS_BODIES.bytes === bytes || undefined);

  it('a socket accepts incomplete bodies up to its limit, and others are not affected', async () => {
    const half = await sendHalf(tight, 400_000);
    await held(400_000);
    assert.equal(await put(tight, 200_000), 'overloaded');
    assert.equal(await put(tight, 50_000), 'ok');
    assert.equal(await put(wide, 200_000), 'ok');
    half.destroy();
    await held(0);
    assert.equal(await put(tight, 200_000), 'ok');
    await held(0);
  });

  it('all sockets of a process share one limit', async () => {
    const before = PROCESS_BODIES.bytesMax;
    PROCESS_BODIES.bytesMax = 300_000;
    try {
      const half = await sendHalf(wide, 250_000);
      await held(250_000);
      assert.equal(await put(tight, 100_000), 'overloaded');
      half.destroy();
      await held(0);
      assert.equal(await put(tight, 100_000), 'ok');
    } finally {
      PROCESS_BODIES.bytesMax = before;
    }
  });

  it('a body counts until its request has ended, also when nobody reads the response', async () => {
    const text = requestText('POST', '/v1/wait', {}, '1'.repeat(400_000));
    const waiting = exchange({ path: tight }, text);
    await held(400_000);
    assert.equal(await put(tight, 200_000), 'overloaded');
    answer();
    assert.equal((await waiting).responses[0]!.status, 200);
    await held(0);
    assert.equal(await put(tight, 200_000), 'ok');
    const malformed = await exchange({ path: tight }, requestText('POST', '/v1/put', {}, '{'));
    assert.equal(malformed.responses[0]!.status, 400);
    await held(0);
  });

  it('a connection beyond the limit of its socket is closed', async () => {
    for (let i = 0; i < 4; i++) await sendHalf(tight, 1);
    await held(4);
    const fifth = net.connect(tight);
    open.push(fifth);
    fifth.on('error', () => undefined);
    await once(fifth, 'close');
    assert.equal(await put(wide, 10), 'ok');
  });
});
