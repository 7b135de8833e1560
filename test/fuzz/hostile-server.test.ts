// The HTTP client against a hostile server, through every way it is used: requests to daemons,
// streams, and model providers. 4,000 calls, with FUZZ=long 300,000. Each ends within its deadline,
// gets only bytes that were sent for it, and leaves nothing behind. FUZZ_SEED=… repeats a run,
// FUZZ_ONLY=number one call.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import net from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import {
  makeProviderClient,
  type Provider,
} from '../../src/daemons/modeld/adapters/provider-client.ts';
import { systemClock } from '../../src/platform/clock.ts';
import { openStream, sendRequest, unixPool } from '../../src/platform/http1/request.ts';
import { Fault } from '../../src/wire/errors.ts';
import { seeded } from '../support/seeded.ts';
import { isMarked, type Reply, replyFor } from './hostile-replies.ts';

const seed = process.env.FUZZ_SEED ?? String(Date.now());
const only = process.env.FUZZ_ONLY;
const count = Number(process.env.FUZZ_COUNT ?? (process.env.FUZZ === 'long' ? 300_000 : 4_000));
const CONCURRENCY = 32;
const CONNECTIONS_MAX = 12;
const DEADLINE_MS = 500;
/** A busy machine is slow; a call that hangs never ends. */
const LATE_MS_MAX = 15_000;
const ENDLESS_WRITES_MAX = 400;
const GROWTH_BYTES_MAX = 60_000_000;
const slow = { timeout: 120_000 };

/** Allowed outcomes of a call: codes of sendRequest and openStream, and faults of a provider. */
const SOCKET_CODES = /^(ECONNRESET|EPIPE|ETIMEDOUT|ABORT_ERR|HPE_INVALID|HPE_INVALID_EOF_STATE)$/;
const FAULT_CODES = /^(provider_(down|malformed|refused|auth)|deadline|rate_limited|too_large)$/;
/** The reply came too late, or the reply before it had closed the connection. */
const MISSED_CODES = ['ETIMEDOUT', 'ABORT_ERR', 'deadline', 'provider_down', 'EPIPE', 'ECONNRESET'];

/** Calls with a well-formed reply are good or missed, the others accepted or refused. */
type Totals = { good: number; missed: number; accepted: number; refused: number };
setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;
function memoryInUse(): number {
  collectGarbage();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

type Outcome = { body: string; code?: string | undefined };
type Client = (index: number) => Promise<Outcome>;

const isStream = (index: number): boolean => index % 4 === 3;

async function play(socket: net.Socket, reply: Reply): Promise<void> {
  socket.setNoDelay(true);
  for (const piece of reply.pieces) {
    if (socket.destroyed) return;
    socket.write(piece);
    await new Promise((done) => setImmediate(done));
  }
  const { endless } = reply;
  for (let i = 0; endless !== undefined && i < ENDLESS_WRITES_MAX && !socket.destroyed; i++) {
    // Unread bytes would pile up in this process too.
    if (socket.writableLength < 100_000) socket.write(endless);
    await sleep(1);
  }
  if (reply.ending === 'end') socket.end();
  if (reply.ending === 'destroy') socket.destroy();
}

describe(`a hostile server (FUZZ_SEED=${seed})`, () => {
  const dir = mkdtempSync(join(tmpdir(), 'hostile-'));
  const path = join(dir, 's');
  const sockets = new Set<net.Socket>();
  let lastSocket: net.Socket | undefined;
  let playing = 0;
  const pool = unixPool(path, CONNECTIONS_MAX);
  const providers = makeProviderClient({ clock: systemClock() });
  let replyTo = (index: number): Reply => replyFor(seeded(seed, index), index, isStream(index));
  const server = net.createServer((socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
    socket.on('error', () => undefined);
    socket.on('data', (bytes: Buffer) => {
      const index = /\r\nx-case: (\d+)\r\n/.exec(bytes.toString('latin1'))?.[1];
      if (index === undefined) return;
      lastSocket = socket;
      playing++;
      void play(socket, replyTo(Number(index))).finally(() => playing--);
    });
  });
  before(() => new Promise<void>((done) => server.listen(path, done)));
  after(async () => {
    pool.close();
    providers.close();
    await new Promise((done) => server.close(done));
    rmSync(dir, { recursive: true });
  });

  const caseRequest = (index: number) => ({
    method: 'GET',
    path: '/',
    headers: { 'x-case': index },
    timeoutMs: DEADLINE_MS,
  });

  const request: Client = async (index) => ({
    body: (await sendRequest(pool, caseRequest(index))).body,
  });

  const stream: Client = async (index) => {
    const rnd = seeded(seed, 'reader', index);
    const signal = AbortSignal.timeout(DEADLINE_MS);
    const { body } = await openStream(pool, { ...caseRequest(index), signal });
    let text = '';
    const isSlow = rnd.chance(0.2);
    for await (const piece of body) {
      text += (piece as Buffer).toString('latin1');
      if (isSlow) await sleep(5);
      if (text.length > 1_000_000) break;
    }
    return { body: text };
  };

  const provider: Provider = {
    name: 'acme',
    dialect: 'openai',
    baseUrl: `unix:${path}`,
    readKey: () => 'key',
  };
  const limits = {
    sizeBytesMax: 1_000_000,
    connectTimeoutMs: DEADLINE_MS,
    firstByteTimeoutMs: 200,
    idleTimeoutMs: 200,
  };
  const providerCall = (index: number) => ({
    provider,
    body: '{}',
    deadlineMs: DEADLINE_MS,
    limits,
    headers: { 'x-case': String(index) },
  });

  const wholeModelCall: Client = async (index) => {
    const call = { ...providerCall(index), stream: false } as const;
    return { body: (await providers.callProvider(call)).bytes.toString('latin1') };
  };

  const streamedModelCall: Client = async (index) => {
    const call = { ...providerCall(index), stream: true } as const;
    const { body } = await providers.callProvider(call);
    let text = '';
    for await (const piece of body) text += piece.toString('latin1');
    return { body: text };
  };

  const CLIENTS: readonly Client[] = [request, stream, wholeModelCall, streamedModelCall];

  const run = async (index: number): Promise<keyof Totals> => {
    const reply = replyTo(index);
    const again = `FUZZ_SEED=${seed} FUZZ_ONLY=${index}`;
    const late = Promise.withResolvers<never>();
    const timer = setTimeout(() => late.reject(new Error(`${again}: hangs`)), LATE_MS_MAX);
    const call = CLIENTS[index % CLIENTS.length]!(index).catch((error: NodeJS.ErrnoException) => {
      const codes = error instanceof Fault ? FAULT_CODES : SOCKET_CODES;
      assert.ok(codes.test(error.code ?? ''), `${again}: ${error.code}: ${error.stack}`);
      return { body: '', code: error.code };
    });
    const { body, code }: Outcome = await Promise.race([call, late.promise]);
    clearTimeout(timer);
    assert.ok(isMarked(body, index), `${again}: bytes of another call: ${body.slice(0, 500)}`);
    if (reply.body === undefined) return code === undefined ? 'accepted' : 'refused';
    if (MISSED_CODES.includes(code ?? '')) return 'missed';
    assert.deepEqual({ body, code }, { body: reply.body, code: undefined }, again);
    return 'good';
  };

  it('each call ends in time, with its own bytes only', { timeout: 6 * 3_600_000 }, async (t) => {
    if (only !== undefined) return void (await run(Number(only)));
    const before_ = memoryInUse();
    const totals: Totals = { good: 0, missed: 0, accepted: 0, refused: 0 };
    let next = 0;
    const worker = async (): Promise<void> => {
      while (next < count) totals[await run(next++)]++;
    };
    await Promise.all(Array.from({ length: CONCURRENCY }, worker));
    while (playing > 0) await sleep(10);
    const grown = memoryInUse() - before_;
    t.diagnostic(`${JSON.stringify(totals)}, ${grown} bytes more`);
    assert.ok(totals.good > totals.missed, 'most good replies are received');
    assert.ok(totals.refused > count / 4, 'most bad replies are refused');
    assert.ok(grown < GROWTH_BYTES_MAX, `the process grew by ${grown} bytes`);
  });

  it('a body in chunks of one byte takes not much more memory than its size', slow, async () => {
    const size = 4_000_000;
    const head =
      'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n';
    const body = Buffer.from(`1\r\n"\r\n${'1\r\nx\r\n'.repeat(size)}`);
    replyTo = () => ({ pieces: [Buffer.from(head), body], ending: 'keep open' });
    const before_ = memoryInUse();
    const deadlineMs = 60_000;
    const patient = {
      sizeBytesMax: 2 * size,
      connectTimeoutMs: deadlineMs,
      firstByteTimeoutMs: deadlineMs,
      idleTimeoutMs: deadlineMs,
    };
    const call = providers.callProvider({
      ...providerCall(0),
      stream: false,
      deadlineMs,
      limits: patient,
    });
    do await sleep(100);
    while (playing > 0 || lastSocket?.writableLength !== 0);
    const grown = memoryInUse() - before_;
    lastSocket.write('1\r\n"\r\n0\r\n\r\n');
    assert.equal((await call).bytes.length, size + 2);
    assert.ok(grown < 10 * size, `${grown} bytes more`);
  });

  it('afterwards every client works, and no connection is left open', slow, async () => {
    const body = JSON.stringify('done');
    const text = `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`;
    const events = text.replace('application/json', 'text/event-stream');
    replyTo = (index) => ({
      pieces: [Buffer.from(isStream(index) ? events : text)],
      ending: 'keep open',
    });
    for (const [index, client] of CLIENTS.entries())
      assert.deepEqual(await client(index), { body }, `client ${index}`);
    pool.close();
    providers.close();
    while (sockets.size > 0) await sleep(10);
  });
});
