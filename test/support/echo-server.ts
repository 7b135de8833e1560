// A small server for tests of the socket link: routes that echo, hang, stream and refuse,
// on a real socket of its own.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { z } from 'zod';
import { authenticateAs } from '../../src/platform/authenticate.ts';
import { type HandlerContext, makeDispatch, RawReply } from '../../src/platform/dispatch.ts';
import { type HttpListener, makeHttpListener } from '../../src/platform/http-server.ts';
import { makeLog } from '../../src/platform/log.ts';
import { makeMetrics } from '../../src/platform/metrics.ts';
import { type Fault, fault } from '../../src/wire/errors.ts';
import { route, routes } from '../../src/wire/route.ts';
import { exchange, type RawResponse, requestText } from './raw-http.ts';

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

export type EchoServer = {
  dir: string;
  path: string;
  listener: HttpListener;
  /** Lines that were logged. */
  lines: string[];
  /** Why each handler of /v1/slow was canceled. */
  canceled: string[];
  /** Sends the bytes on a connection of their own and returns the one response. */
  send(bytes: Buffer | string): Promise<RawResponse>;
  echo(body: string | Buffer, headers?: Record<string, string>): Promise<RawResponse>;
  close(): Promise<void>;
};

const seen = async (context: Pick<HandlerContext, 'trace' | 'idempotencyKey' | 'deadlineMs'>) => ({
  trace: context.trace,
  key: context.idempotencyKey,
  deadline: context.deadlineMs,
});

export async function startEchoServer(): Promise<EchoServer> {
  const dir = mkdtempSync(join(tmpdir(), 'agentd-h-'));
  const path = join(dir, 'op', 'x.sock');
  const lines: string[] = [];
  const canceled: string[] = [];
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
      stream: async () => new RawReply({ status: 200, headers: {}, body: pieces() }),
      flood: async () => new RawReply({ status: 200, headers: {}, body: flood() }),
      retry: () => Promise.reject(fault('rate_limited', 'later', { retryAfterMs: 1_500 })),
      vendor: async () => ({}),
      peers: async () => ({}),
    },
    log,
    metrics: makeMetrics('test'),
  });
  const listener = makeHttpListener({
    dispatch,
    log,
    dialectErrors: (dialect, known) => ({
      status: known.http,
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ [dialect]: known.code }),
    }),
  });
  await listener.listenUnix(path, authenticateAs({ kind: 'operator', principal: 'person:ann' }));
  const send = async (bytes: Buffer | string): Promise<RawResponse> => {
    const { responses, broken } = await exchange({ path }, bytes);
    assert.equal(broken, undefined);
    assert.equal(responses.length, 1, 'one response');
    return responses[0]!;
  };
  return {
    dir,
    path,
    listener,
    lines,
    canceled,
    send,
    echo: (body, headers = {}) => send(requestText('POST', '/v1/echo', headers, body)),
    async close() {
      await listener.closeAll();
      rmSync(dir, { recursive: true, force: true });
    },
  };
}
