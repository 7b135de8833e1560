// Both links return equal responses and faults for equal requests, and share no objects.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import net from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import fc from 'fast-check';
import * as z from 'zod';
import { FAULTS, Fault, type FaultCode, fault } from '../wire/errors.ts';
import { route, routes } from '../wire/route.ts';
import { authenticateAs } from './authenticate.ts';
import { makeDispatch } from './dispatch.ts';
import { type HttpListener, makeHttpListener } from './http-server.ts';
import { type Client, type Link, localLink, makeClient, socketLink } from './link.ts';
import { silentLog } from './log.ts';
import { makeMetrics } from './metrics.ts';

const table = routes({
  echo: route({
    method: 'POST',
    path: '/v1/echo/{id}',
    callers: ['operator'],
    params: z.strictObject({ id: z.string().min(1).max(50) }),
    query: z.strictObject({ q: z.string().max(20).optional(), n: z.coerce.number().optional() }),
    body: z.strictObject({ value: z.unknown(), list: z.array(z.int()).max(3).optional() }),
    output: z.object({ id: z.string(), q: z.string(), n: z.number(), value: z.unknown() }),
  }),
  fail: route({
    method: 'POST',
    path: '/v1/fail',
    callers: ['operator'],
    body: z.looseObject({}),
    output: z.unknown(),
  }),
  hidden: route({
    method: 'GET',
    path: '/v1/hidden',
    callers: ['agentd'],
    output: z.unknown(),
  }),
  context: route({
    method: 'GET',
    path: '/v1/context',
    callers: ['operator'],
    output: z.unknown(),
  }),
  wait: route({ method: 'GET', path: '/v1/wait', callers: ['operator'], output: z.unknown() }),
});
type Table = typeof table;
type Thrown = { code: FaultCode; message: string; hint?: string; after?: number; details?: object };

describe('links', () => {
  const dir = mkdtempSync(join(tmpdir(), 'agentd-l-'));
  const socketPath = join(dir, 'x.sock');
  const caller = { kind: 'operator', principal: 'person:ann' } as const;
  const kept: unknown[] = [];
  let face: HttpListener;
  let links: Record<'local' | 'socket', Link>;
  let clients: Record<'local' | 'socket', Client<Table>>;

  before(async () => {
    const dispatch = makeDispatch<Table>({
      routes: table,
      handlers: {
        async echo({ params, query, body }) {
          kept.push(body.value);
          return { id: params.id, q: query.q ?? '', n: query.n ?? 0, value: body.value ?? null };
        },
        async fail({ body }) {
          const { code, message, hint, after: retryAfterMs, details } = body as unknown as Thrown;
          throw fault(code, message, { hint, retryAfterMs, details: details as never });
        },
        hidden: async () => 1,
        context: async ({ trace, idempotencyKey, deadlineMs, caller: by }) => ({
          trace,
          idempotencyKey,
          deadlineMs,
          principal: by.principal,
        }),
        wait: ({ signal }) =>
          new Promise((_, reject) => {
            if (signal.aborted) reject(signal.reason as Fault);
            signal.addEventListener('abort', () => reject(signal.reason as Fault));
          }),
      },
      log: silentLog,
      metrics: makeMetrics('test'),
    });
    face = makeHttpListener({ dispatch, log: silentLog });
    await face.listenUnix(socketPath, authenticateAs(caller));
    links = { local: localLink(() => dispatch, caller), socket: socketLink({ socketPath }) };
    clients = {
      local: makeClient(table, links.local),
      socket: makeClient(table, links.socket),
    };
  });
  after(async () => {
    links.socket.close();
    await face.closeAll();
    rmSync(dir, { recursive: true, force: true });
  });

  type Outcome = { answer: unknown } | { fault: unknown };
  const outcome = (call: Promise<unknown>): Promise<Outcome> =>
    call.then(
      (answer) => ({ answer }),
      (error: unknown) => {
        assert.ok(error instanceof Fault, String(error));
        return { fault: error.toBody() };
      },
    );

  it('property: both give the same response to a random request', async () => {
    const requests = fc.record({
      params: fc.record({ id: fc.string({ unit: 'grapheme', maxLength: 60 }) }),
      query: fc.record(
        {
          q: fc.string({ unit: 'grapheme', maxLength: 25 }),
          n: fc.oneof(fc.double(), fc.string()),
        },
        { requiredKeys: [] },
      ),
      body: fc.oneof(
        fc.record({ value: fc.jsonValue() }),
        fc.record({ value: fc.jsonValue(), list: fc.array(fc.integer(), { maxLength: 5 }) }),
        fc.jsonValue(),
      ),
    });
    let answers = 0;
    await fc.assert(
      fc.asyncProperty(requests, async (request) => {
        const local = await outcome(clients.local.echo(request as never));
        const socket = await outcome(clients.socket.echo(request as never));
        assert.deepEqual(socket, local);
        if ('answer' in local) answers++;
      }),
      { numRuns: 300 },
    );
    assert.ok(answers > 50, 'not only refusals were compared');
  });

  it('a request that waits for a connection ends at its deadline and when canceled', async () => {
    const narrow = socketLink({ socketPath, connectionsMax: 1 });
    const client = makeClient(table, narrow);
    const first = new AbortController();
    const holding = outcome(client.wait({}, { signal: first.signal, deadlineMs: 30_000 }));
    const catchCode = async (call: Promise<unknown>) =>
      ((await outcome(call)) as { fault: { code: string } }).fault.code;
    const late = catchCode(client.context({}, { deadlineMs: 50 }));
    const cancel = new AbortController();
    const canceled = catchCode(client.context({}, { signal: cancel.signal }));
    cancel.abort();
    assert.equal(await canceled, 'canceled');
    assert.equal(await late, 'deadline');
    first.abort();
    await holding;
    assert.equal('answer' in (await outcome(client.context({}))), true);
    narrow.close();
  });

  it('closing the link fails the call in flight, the queued one and later ones', async () => {
    const narrow = socketLink({ socketPath, connectionsMax: 1 });
    const client = makeClient(table, narrow);
    const calls = [client.wait({}, { deadlineMs: 30_000 }), client.context({})];
    const failed = Promise.all(calls.map((call) => assert.rejects(call, { code: 'unavailable' })));
    narrow.close();
    await failed;
    await assert.rejects(client.context({}), { code: 'unavailable' });
  });

  it('every fault of the table crosses both unchanged', async () => {
    for (const code of Object.keys(FAULTS) as FaultCode[]) {
      const body = { code, message: `what happened: ${code} «é»`, hint: 'Do this.', after: 1_234 };
      const thrown = { ...body, details: { left: 3, of: ['a'], deep: { x: null } } };
      for (const client of Object.values(clients)) {
        await assert.rejects(client.fail({ body: thrown }), (error: Fault) => {
          assert.ok(error instanceof Fault);
          assert.equal(error.code, code);
          assert.equal(error.message, thrown.message);
          assert.equal(error.hint, 'Do this.');
          assert.equal(error.retryAfterMs, 1_234);
          assert.deepEqual(error.details, thrown.details);
          assert.equal(error.retry, FAULTS[code].retry);
          return true;
        });
      }
    }
  });

  it('an unauthorized caller is refused alike', async () => {
    const both = await Promise.all(Object.values(clients).map((c) => outcome(c.hidden({}))));
    assert.deepEqual(both[0], both[1]);
    assert.equal((both[0] as { fault: { code: string } }).fault.code, 'forbidden_caller');
  });

  it('nothing is shared by reference', async () => {
    for (const client of Object.values(clients)) {
      const value = { inner: [1] };
      const { value: got } = await client.echo({ params: { id: 'a' }, query: {}, body: { value } });
      const there = kept.at(-1) as typeof value;
      value.inner.push(2);
      (got as typeof value).inner.push(3);
      assert.deepEqual(there, { inner: [1] });
    }
  });

  it('carry trace, Idempotency-Key and deadline', async () => {
    const trace = { requestId: 'r1', traceparent: `00-${'1'.repeat(32)}-${'2'.repeat(16)}-01` };
    const options = { trace, idempotencyKey: 'k', deadlineMs: 4_321 };
    const both = await Promise.all(Object.values(clients).map((c) => c.context({}, options)));
    assert.deepEqual(both[0], { ...options, principal: 'person:ann' });
    assert.deepEqual(both[1], both[0]);
  });

  it('requests made while handling a request carry its trace', async () => {
    const asking = routes({
      ask: route({ method: 'GET', path: '/v1/ask', callers: ['operator'], output: z.unknown() }),
    });
    const front = makeDispatch<typeof asking>({
      routes: asking,
      handlers: {
        async ask() {
          await new Promise((resolve) => setTimeout(resolve, 1));
          return Promise.all(Object.values(clients).map((client) => client.context({})));
        },
      },
      log: silentLog,
      metrics: makeMetrics('test'),
    });
    const client = makeClient(
      asking,
      localLink(() => front, caller),
    );
    const traces = ['r1', 'r2'].map((requestId, i) => ({
      requestId,
      traceparent: `00-${String(i).repeat(32)}-${'2'.repeat(16)}-01`,
    }));
    const both = await Promise.all(traces.map((trace) => client.ask({}, { trace })));
    for (const [i, seen] of both.entries())
      for (const { trace } of seen as { trace: unknown }[]) assert.deepEqual(trace, traces[i]);
  });

  it('a deadline and a cancellation end the wait alike', async () => {
    for (const client of Object.values(clients)) {
      await assert.rejects(client.wait({}, { deadlineMs: 10 }), { code: 'deadline' });
      const cancel = new AbortController();
      const waiting = client.wait({}, { signal: cancel.signal });
      setTimeout(() => cancel.abort(), 10);
      await assert.rejects(waiting, { code: 'canceled' });
      await assert.rejects(client.wait({}, { signal: AbortSignal.abort() }), { code: 'canceled' });
    }
  });

  it('a path parameter cannot change the path', async () => {
    for (const id of ['../x', 'a/b', '?q=1', '#', '%2e%2e', 'a b', '\u0000'])
      for (const client of Object.values(clients))
        assert.equal((await client.echo({ params: { id }, query: {}, body: { value: 1 } })).id, id);
  });
});

describe('the socket link, with faults of the server', () => {
  const dir = mkdtempSync(join(tmpdir(), 'agentd-l-'));
  after(() => rmSync(dir, { recursive: true, force: true }));
  let made = 0;
  const answering = async (bytes: string | undefined): Promise<[Client<Table>, () => void]> => {
    const socketPath = join(dir, `${made++}.sock`);
    const server = net.createServer((socket) => {
      socket.on('error', () => undefined);
      socket.once('data', () => (bytes === undefined ? socket.destroy() : socket.end(bytes)));
    });
    await new Promise<void>((resolve) => server.listen(socketPath, resolve));
    const link = socketLink({ socketPath });
    const close = (): void => {
      link.close();
      server.close();
    };
    return [makeClient(table, link), close];
  };
  const http = (body: string, status = '200 OK') =>
    `HTTP/1.1 ${status}\r\ncontent-length: ${body.length}\r\n\r\n${body}`;

  it('no server: unavailable', async () => {
    const client = makeClient(table, socketLink({ socketPath: join(dir, 'none.sock') }));
    await assert.rejects(client.context({}), { code: 'unavailable' });
  });

  const cases: [string, string | undefined, FaultCode][] = [
    ['closed without an answer', undefined, 'unavailable'],
    [
      'closed the connection in the middle of a response',
      `HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{`,
      'unavailable',
    ],
    ['an answer that is no JSON', http('<html>'), 'bad_output'],
    ['an error without a body', http('', '500 Oops'), 'bad_output'],
    ['an error of another kind', http('{"oops":1}', '500 Oops'), 'internal'],
    ['a fault of a newer version', http('{"error":{"code":"brand_new"}}', '400 No'), 'internal'],
    ['no HTTP at all', 'hello there\r\n\r\n', 'bad_output'],
  ];
  for (const [what, bytes, code] of cases) {
    it(`${what}: ${code}`, async () => {
      const [client, close] = await answering(bytes);
      try {
        await assert.rejects(client.context({}), (error: Fault) => {
          assert.ok(error instanceof Fault, String(error));
          assert.equal(error.code, code);
          return true;
        });
      } finally {
        close();
      }
    });
  }

  it('no response in time: deadline', async () => {
    const socketPath = join(dir, 'silent.sock');
    const server = net.createServer(() => undefined);
    await new Promise<void>((resolve) => server.listen(socketPath, resolve));
    const link = socketLink({ socketPath });
    const call = makeClient(table, link).context({}, { deadlineMs: 1 });
    await assert.rejects(call, { code: 'deadline' });
    link.close();
    server.close();
  });
});
