// The client reuses connections, reads responses split anywhere, and survives misbehaving servers.
import assert from 'node:assert/strict';
import net from 'node:net';
import { after, afterEach, describe, it } from 'node:test';
import { type ClientCall, type HttpPool, makePool, type OutgoingRequest } from './client.ts';

type Outcome = { status: number; body: string } | { code: string | undefined; isStale: boolean };

describe('http1 client', () => {
  const servers: net.Server[] = [];
  const sockets = new Set<net.Socket>();
  const pools: HttpPool[] = [];
  let connections = 0;
  afterEach(() => {
    for (const pool of pools.splice(0)) pool.close();
    for (const socket of sockets) socket.destroy();
    for (const server of servers.splice(0)) server.close();
    connections = 0;
  });
  after(() => assert.equal(servers.length, 0));

  /** Calls `answer` for each request with its number on its connection. */
  const serve = async (
    answer: (socket: net.Socket, number: number) => void,
    options: { connectionsMax?: number } = {},
  ): Promise<HttpPool> => {
    const server = net.createServer((socket) => {
      connections++;
      sockets.add(socket);
      let number = 0;
      socket.on('data', () => answer(socket, ++number));
      socket.on('error', () => undefined);
    });
    servers.push(server);
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as net.AddressInfo;
    const pool = makePool({
      connect: (onread) => net.connect({ port, host: '127.0.0.1', onread }),
      ...options,
    });
    pools.push(pool);
    return pool;
  };

  const outcome = (
    pool: HttpPool,
    request: Partial<OutgoingRequest> = {},
    onData?: (call: ClientCall) => void,
  ): Promise<Outcome> =>
    new Promise((resolve) => {
      const { method = 'GET' } = request;
      const head = `${method} / HTTP/1.1\r\n\r\n`;
      let status = 0;
      let body = '';
      const call = pool.send(
        { method, head, body: undefined, ...request },
        {
          connected() {},
          head(received) {
            status = received.status;
          },
          data(chunk) {
            body += chunk.toString('latin1');
            onData?.(call);
          },
          more() {},
          end: () => resolve({ status, body }),
          fail: ({ code }, isStale) => resolve({ code, isStale }),
        },
      );
    });
  const ask = (pool: HttpPool, method = 'GET'): Promise<Outcome> => outcome(pool, { method });

  const OK = 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok';

  it('reuses its connection, and a chunked response byte by byte is the same response', async () => {
    const pool = await serve((socket, number) => {
      if (number === 1) return void socket.write(OK);
      const text =
        'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\no\r\n1\r\nk\r\n0\r\n\r\n';
      socket.setNoDelay(true);
      void (async () => {
        for (const byte of text) {
          socket.write(byte);
          await new Promise((resolve) => setImmediate(resolve));
        }
      })();
    });
    for (let i = 0; i < 2; i++) assert.deepEqual(await ask(pool), { status: 200, body: 'ok' });
    assert.equal(connections, 1);
  });

  it('skips interim responses, and HEAD has no body', async () => {
    const pool = await serve((socket, number) =>
      socket.write(
        number === 1
          ? `HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n${OK}`
          : 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n',
      ),
    );
    assert.deepEqual(await ask(pool), { status: 200, body: 'ok' });
    assert.deepEqual(await ask(pool, 'HEAD'), { status: 200, body: '' });
    assert.equal(connections, 1);
  });

  it('a body may end with its connection, and a sized one may not', async () => {
    const open = await serve((socket) => socket.end('HTTP/1.1 200 OK\r\n\r\nall of it'));
    assert.deepEqual(await ask(open), { status: 200, body: 'all of it' });
    const cut = await serve((socket) =>
      socket.end('HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\na'),
    );
    assert.deepEqual(await ask(cut), { code: 'HPE_INVALID_EOF_STATE', isStale: false });
  });

  it('reports when a reused connection had ended, and not when it is the first', async () => {
    const pool = await serve((socket, number) =>
      number === 1 ? socket.write(OK) : socket.destroy(),
    );
    await ask(pool);
    assert.deepEqual(await ask(pool), { code: 'ECONNRESET', isStale: true });
    const first = await serve((socket) => socket.destroy());
    assert.deepEqual(await ask(first), { code: 'ECONNRESET', isStale: false });
    const begun = await serve((socket, number) =>
      number === 1 ? socket.write(OK) : socket.end('HTTP/1.1 200'),
    );
    await ask(begun);
    assert.deepEqual(await ask(begun), { code: 'ECONNRESET', isStale: false });
  });

  it('does not reuse a connection with extra bytes, or one that is to be closed', async () => {
    for (const text of [
      `${OK}HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil`,
      OK.replace('OK\r\n', 'OK\r\nconnection: close\r\n'),
    ]) {
      connections = 0;
      const pool = await serve((socket) => socket.write(text));
      for (let i = 0; i < 2; i++) assert.deepEqual(await ask(pool), { status: 200, body: 'ok' });
      assert.equal(connections, 2);
    }
  });

  it('unsolicited bytes end an idle connection', async () => {
    const pool = await serve((socket, number) => {
      socket.write(OK);
      if (number === 1) setTimeout(() => socket.write('HTTP/1.1 500 x\r\n\r\n'), 5);
    });
    await ask(pool);
    while ([...sockets].some((socket) => !socket.destroyed && !socket.readableEnded))
      await new Promise((resolve) => setTimeout(resolve, 5));
    assert.deepEqual(await ask(pool), { status: 200, body: 'ok' });
    assert.equal(connections, 2);
  });

  it('rejects responses that are not HTTP', async () => {
    for (const text of [
      'SSH-2.0-x\r\n\r\n',
      'HTTP/1.1 101 x\r\n\r\n',
      'HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\nab',
      'HTTP/1.0 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\n\r\n',
      'HTTP/1.1 103 x\r\ncontent-length: x\r\n\r\nHTTP/1.1 200 OK\r\n\r\n',
      `HTTP/1.1 200 OK\r\nx: ${'x'.repeat(70_000)}`,
      'HTTP/1.1 103 Early Hints\r\n\r\n'.repeat(5_000),
    ]) {
      const pool = await serve((socket) => socket.write(text));
      assert.deepEqual(await ask(pool), { code: 'HPE_INVALID', isStale: false }, text.slice(0, 30));
    }
  });

  it('calls over the connection limit are queued', async () => {
    const pool = await serve((socket) => void setTimeout(() => socket.write(OK), 5), {
      connectionsMax: 2,
    });
    const all = await Promise.all(Array.from({ length: 7 }, () => ask(pool)));
    assert.equal(all.filter((one) => 'status' in one).length, 7);
    assert.equal(connections, 2);
  });

  it('close fails calls in flight, queued calls and later ones', { timeout: 20_000 }, async () => {
    const started = Promise.withResolvers<void>();
    const pool = await serve(
      (socket) => {
        socket.write('HTTP/1.1 200 OK\r\n\r\nnot all');
        started.resolve();
      },
      { connectionsMax: 1 },
    );
    const inFlight = outcome(pool, {}, () => started.resolve());
    const queued = ask(pool);
    await started.promise;
    pool.close();
    const failed = ['HPE_INVALID_EOF_STATE', 'ECONNRESET'];
    const ended = await inFlight;
    assert.ok('code' in ended && failed.includes(ended.code!), JSON.stringify(ended));
    const refused = { code: 'ECONNREFUSED', isStale: false };
    assert.deepEqual(await queued, refused);
    assert.deepEqual(await ask(pool), refused);
    assert.equal(connections, 1);
  });

  it('a connection whose last call was paused works for the next', {
    timeout: 20_000,
  }, async () => {
    const pool = await serve((socket) => socket.write(OK));
    assert.deepEqual(await outcome(pool, {}, (call) => call.pause()), { status: 200, body: 'ok' });
    assert.deepEqual(await ask(pool), { status: 200, body: 'ok' });
    assert.equal(connections, 1);
  });

  it('a connection with an endless request body is not reused', async () => {
    const pool = await serve((socket) => socket.write(OK));
    const streamed = { method: 'POST', isStreamed: true } as const;
    for (let i = 0; i < 2; i++)
      assert.deepEqual(await outcome(pool, streamed), { status: 200, body: 'ok' });
    assert.equal(connections, 2);
  });

  it('many tiny chunks in one read are one piece', async () => {
    const head = 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n';
    const pool = await serve((socket) =>
      socket.write(`${head}${'1\r\nx\r\n'.repeat(1_000)}0\r\n\r\n`),
    );
    let pieces = 0;
    const got = await outcome(pool, {}, () => pieces++);
    assert.deepEqual(got, { status: 200, body: 'x'.repeat(1_000) });
    assert.ok(pieces < 20, `${pieces} pieces`);
  });
});
