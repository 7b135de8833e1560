// Many requests in one exchange get the same responses and faults as separate requests, in order,
// wherever the bytes are split; a broken exchange fails only its pending requests.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import net from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, afterEach, describe, it } from 'node:test';
import fc from 'fast-check';
import * as z from 'zod';
import { fault } from '../wire/errors.ts';
import { route, routes } from '../wire/route.ts';
import { makeDispatch } from './dispatch.ts';
import { PROCESS_BODIES } from './http-body.ts';
import { LINES_TYPE } from './http-lines.ts';
import { type HttpListener, makeHttpListener } from './http-server.ts';
import { SERVER_LIMITS } from './http1/server.ts';
import { type Link, makeClient, socketLink } from './link.ts';
import { silentLog } from './log.ts';
import { makeMetrics } from './metrics.ts';

const Sent = z.strictObject({ n: z.int(), text: z.string().optional() });
const table = routes({
  add: route({
    method: 'POST',
    path: '/v1/add',
    callers: ['toold'],
    body: Sent,
    output: z.object({ sum: z.int() }),
    bodySizeBytesMax: 200,
    lines: true,
  }),
  once: route({
    method: 'POST',
    path: '/v1/once',
    callers: ['toold'],
    body: Sent,
    output: z.object({ sum: z.int() }),
  }),
  others: route({
    method: 'POST',
    path: '/v1/others',
    callers: ['modeld'],
    body: Sent,
    output: z.unknown(),
    lines: true,
  }),
});

const dir = mkdtempSync(join(tmpdir(), 'agentd-n-'));
const socketPath = join(dir, 'x.sock');
const CALLER = { kind: 'daemon', principal: 'service:toold', daemon: 'toold' } as const;
const NO_TRACE = { trace: 'none' } as const;
let faces: HttpListener[] = [];
let links: Link[] = [];

/** A call with n = 99 waits until it is let go. */
async function serve(options: { limits?: typeof SERVER_LIMITS } = {}) {
  const world = {
    sum: 0,
    exchanges: 0,
    gone: [] as string[],
    held: undefined as (() => void) | undefined,
  };
  const add = async ({ body, signal }: { body: z.infer<typeof Sent>; signal: AbortSignal }) => {
    if (body.n < 0) throw fault('conflict', 'less than nothing');
    if (body.n === 99)
      await new Promise<void>((resolve) => {
        world.held = resolve;
        signal.addEventListener('abort', () => {
          world.gone.push('told');
          resolve();
        });
      });
    world.sum += body.n;
    return { sum: world.sum };
  };
  const dispatch = makeDispatch({
    routes: table,
    handlers: { add, once: add, others: add },
    log: silentLog,
    metrics: makeMetrics('test'),
  });
  const face = makeHttpListener({ dispatch, log: silentLog, ...options });
  await face.listenUnix(socketPath, () => {
    world.exchanges++;
    return CALLER;
  });
  faces.push(face);
  const link = socketLink({ socketPath });
  links.push(link);
  return { world, face, client: makeClient(table, link) };
}

afterEach(async () => {
  for (const link of links) link.close();
  await Promise.all(faces.map((face) => face.closeAll()));
  [faces, links] = [[], []];
  assert.equal(PROCESS_BODIES.bytes, 0, 'nothing is counted as held any more');
});
after(() => rmSync(dir, { recursive: true, force: true }));

const HEAD = `POST /v1/add HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-type: ${LINES_TYPE}\r\ntransfer-encoding: chunked\r\n\r\n`;
const writeChunk = (bytes: Buffer) =>
  Buffer.concat([Buffer.from(`${bytes.length.toString(16)}\r\n`), bytes, Buffer.from('\r\n')]);

/** Sends the pieces one after another, and gives all that came until the other side ended. */
async function raw(pieces: Buffer[]): Promise<string> {
  const socket = net.connect({ path: socketPath, allowHalfOpen: true });
  let came = '';
  socket.on('data', (data) => {
    came += data.toString('latin1');
  });
  const ended = new Promise((resolve) => socket.once('close', resolve));
  socket.on('end', () => socket.end());
  for (const piece of pieces) {
    socket.write(piece);
    await new Promise((resolve) => setImmediate(resolve));
  }
  await ended;
  return came;
}
const linesIn = (came: string) =>
  [...came.matchAll(/\{.*\}/g)].map(([line]) => JSON.parse(line) as Record<string, unknown>);

describe('lines', () => {
  it('many calls go over one connection, in their order, faults among them', async () => {
    const { client, world } = await serve();
    const asked = [1, 2, -1, 3].map((n) => client.add({ body: { n } }, NO_TRACE));
    const said = await Promise.allSettled(asked);
    assert.deepEqual(
      said.map((one) => (one.status === 'fulfilled' ? one.value : one.reason.code)),
      [{ sum: 1 }, { sum: 3 }, 'conflict', { sum: 6 }],
    );
    const unknown = client.add({ body: { n: 1, m: 2 } as never }, NO_TRACE);
    await assert.rejects(unknown, { code: 'bad_request', message: /unknown key m/ });
    assert.deepEqual(await client.add({ body: { n: 1, text: 'ä€😀' } }, NO_TRACE), { sum: 7 });
    assert.equal(world.exchanges, 1);
  });

  it('calls with headers, and routes without lines, use separate requests', async () => {
    const { client, world } = await serve();
    assert.deepEqual(await client.add({ body: { n: 1 } }), { sum: 1 });
    assert.deepEqual(await client.once({ body: { n: 1 } }, NO_TRACE), { sum: 2 });
    assert.equal(world.exchanges, 2);
    const head = HEAD.replace('/add', '/once');
    const came = await raw([Buffer.from(head), writeChunk(Buffer.from('{"n":1}\n')), END]);
    assert.match(came, /^HTTP\/1.1 415 /);
  });

  it('a forbidden caller is refused before a line is read', async () => {
    const { client, world } = await serve();
    await assert.rejects(client.others({ body: { n: 1 } }, NO_TRACE), { code: 'forbidden_caller' });
    assert.equal(world.sum, 0);
  });

  it('the responses do not depend on where the bytes are split', async () => {
    const { world } = await serve();
    const body = Buffer.from('{"n":1,"text":"ä€😀"}\n{"n":2}\n\n{"n":"x"}\n{"n":3}\n');
    await fc.assert(
      fc.asyncProperty(fc.array(fc.nat(body.length), { maxLength: 6 }), async (cuts) => {
        world.sum = 0;
        const at = [0, ...cuts.sort((a, b) => a - b), body.length];
        const parts = at.slice(1).map((to, i) => body.subarray(at[i], to));
        const chunks = parts.filter((part) => part.length > 0).map(writeChunk);
        const said = linesIn(await raw([Buffer.from(HEAD), ...chunks, END]));
        assert.deepEqual(
          said.map((one) => one.sum ?? (one.error as { code: string }).code),
          [1, 3, 'bad_json', 'bad_request', 6],
        );
      }),
      { numRuns: 60 },
    );
  });

  it('bytes that are not UTF-8 are refused, and the next line is served', async () => {
    await serve();
    const bad = Buffer.concat([
      Buffer.from('{"n":1,"text":"'),
      Buffer.from([0xff]),
      Buffer.from('"}\n'),
    ]);
    const came = await raw([
      Buffer.from(HEAD),
      writeChunk(bad),
      writeChunk(Buffer.from('{"n":2}\n')),
      END,
    ]);
    const [first, second] = linesIn(came);
    assert.equal((first!.error as { code: string }).code, 'bad_json');
    assert.deepEqual(second, { sum: 2 });
  });

  it('a line that is too large is refused and ends the exchange; the next call opens another', async () => {
    const { client } = await serve();
    const large = client.add({ body: { n: 1, text: 'x'.repeat(300) } }, NO_TRACE);
    await assert.rejects(large, { code: 'too_large' });
    assert.deepEqual(await client.add({ body: { n: 1 } }, NO_TRACE), { sum: 1 });
    const pieces = Array.from({ length: 30 }, () => writeChunk(Buffer.from('x'.repeat(10))));
    const came = await raw([Buffer.from(HEAD), ...pieces]);
    assert.match(came, /too_large/);
  });

  it('a closing server completes the line in progress, and sends nothing more', async () => {
    const { client, face, world } = await serve();
    const held = client.add({ body: { n: 99 } }, NO_TRACE);
    while (world.held === undefined) await turn();
    const closed = face.closeAll();
    await turn();
    const late = client.add({ body: { n: 1 } }, NO_TRACE);
    world.held?.();
    assert.deepEqual(await held, { sum: 99 });
    await assert.rejects(late, { code: 'unavailable' });
    await closed;
    const again = await serve();
    assert.deepEqual(await client.add({ body: { n: 1 } }, NO_TRACE), { sum: 1 });
    assert.deepEqual(await again.client.add({ body: { n: 1 } }, NO_TRACE), { sum: 2 });
  });

  it('a disconnected caller is not waited for', async () => {
    const { client, world } = await serve();
    const held = client.add({ body: { n: 99 } }, NO_TRACE);
    while (world.held === undefined) await turn();
    links.at(-1)!.close();
    await assert.rejects(held, { code: 'unavailable' });
    while (world.gone.length === 0) await turn();
  });

  it('a silent exchange does not time out, unlike an incomplete request', async () => {
    const limits = { ...SERVER_LIMITS, requestTimeoutMs: 20, checkIntervalMs: 10 };
    const { client } = await serve({ limits });
    await client.add({ body: { n: 1 } }, NO_TRACE);
    const half = HEAD.replace('/add', '/once').replace(LINES_TYPE, 'application/json');
    assert.match(
      await raw([Buffer.from(half), writeChunk(Buffer.from('{'))]),
      /did not arrive in time/,
    );
    const kept = net.connect({ path: socketPath });
    kept.on('data', (data) => {
      told += data.toString();
    });
    let told = '';
    kept.write(HEAD);
    await new Promise((resolve) => setTimeout(resolve, 100));
    kept.write(writeChunk(Buffer.from('{"n":5}\n')));
    while (!told.includes('"sum":6')) await turn();
    kept.destroy();
  });

  it('invalid responses of a server are refused', async () => {
    const says = async (words: string, code: string) => {
      const path = join(dir, 'odd.sock');
      const odd = net.createServer((socket) => socket.on('data', () => socket.write(words)));
      await new Promise<void>((resolve) => odd.listen(path, resolve));
      const link = socketLink({ socketPath: path });
      const { add } = makeClient(table, link);
      await assert.rejects(add({ body: { n: 1 } }, NO_TRACE), { code });
      link.close();
      await new Promise((resolve) => odd.close(resolve));
    };
    const head = 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n';
    await says('what?\r\n\r\n', 'bad_output');
    await says(`${head}5\r\nwhat\n\r\n`, 'bad_output');
    await says(`${head}0\r\n\r\n`, 'unavailable');
    await says('HTTP/1.1 500 No\r\ncontent-length: 2\r\n\r\nno', 'bad_output');
    const nobody = socketLink({ socketPath: join(dir, 'nobody.sock') });
    const asked = makeClient(table, nobody).add({ body: { n: 1 } }, NO_TRACE);
    await assert.rejects(asked, { code: 'unavailable', message: /no server/ });
  });
});

const END = Buffer.from('0\r\n\r\n');
const turn = () => new Promise((resolve) => setTimeout(resolve, 1));
