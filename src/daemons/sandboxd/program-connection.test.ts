// The connection of a program's client: each valid frame reaches the program as it was sent, what
// else comes ends the connection, and the program is told once.
import assert from 'node:assert/strict';
import { Duplex, Readable } from 'node:stream';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { encodeFrame } from '../../platform/frames.ts';
import { silentLog } from '../../platform/log.ts';
import { PROGRAM_FRAME, STDIN_WINDOW_BYTES } from '../../wire/sandboxd/programs.ts';
import type { CommandExit, SandboxCommand } from './adapters/warden.ts';
import { connectClient } from './program-connection.ts';

const RUNS = process.env.FUZZ === 'long' ? 20_000 : 500;

/** A connection that the test writes to, and a program that records what reaches it. */
function connectPair({ takesInput = true } = {}) {
  const sent: Buffer[] = [];
  const socket = new Duplex({
    read: () => undefined,
    write(chunk: Buffer, _, done) {
      sent.push(chunk);
      done();
    },
  });
  socket.on('error', () => undefined);
  const calls: string[] = [];
  const ended = Promise.withResolvers<CommandExit>();
  const process: SandboxCommand = {
    pid: 1,
    readOutput: () => Readable.from([]),
    discard: () => undefined,
    stdin(bytes) {
      calls.push(`stdin ${bytes.toString('hex')}`);
      return takesInput ? Promise.resolve() : new Promise(() => undefined);
    },
    stdinEnd: () => calls.push('end'),
    signal: (number) => calls.push(`signal ${number}`),
    resize: ({ cols, rows }) => calls.push(`size ${cols}x${rows}`),
    kill: () => calls.push('kill'),
    ended: ended.promise,
  };
  let gone = 0;
  connectClient({ socket, process, onGone: () => gone++, log: silentLog });
  return { socket, sent, calls, end: ended.resolve, gone: () => gone };
}

type Frame = { type: number; body: Buffer };

/** The call that a frame leads to; null: it is invalid; undefined: it has no effect. */
function expectCall({ type, body }: Frame): string | null | undefined {
  if (type === PROGRAM_FRAME.stdin) return `stdin ${body.toString('hex')}`;
  if (type === PROGRAM_FRAME.stdinEnd) return 'end';
  if (type === PROGRAM_FRAME.signal) {
    const number = body[0] ?? 0;
    return number >= 1 && number <= 64 ? `signal ${number}` : undefined;
  }
  if (type !== PROGRAM_FRAME.size || body.length !== 4) return null;
  const [cols, rows] = [body.readUInt16BE(0), body.readUInt16BE(2)];
  return cols > 0 && rows > 0 ? `size ${cols}x${rows}` : null;
}

const types = [...Object.values(PROGRAM_FRAME), 0, 5, 99, 255];
const frame = fc
  .tuple(
    fc.oneof({ weight: 6, arbitrary: fc.constantFrom(1, 2, 3, 4) }, fc.constantFrom(...types)),
    fc.oneof(fc.uint8Array({ maxLength: 40 }), fc.uint8Array({ minLength: 4, maxLength: 4 })),
  )
  .map(([type, body]): Frame => ({ type, body: Buffer.from(body) }));

const settle = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** In pieces that end anywhere. */
function* cut(bytes: Buffer, lengths: readonly number[]): Generator<Buffer> {
  let at = 0;
  for (const length of lengths) {
    if (at >= bytes.length) return;
    yield bytes.subarray(at, at + length);
    at += length;
  }
  if (at < bytes.length) yield bytes.subarray(at);
}

describe('the connection of a program’s client', { timeout: 120_000 }, () => {
  const lengths = fc.array(fc.integer({ min: 1, max: 30 }), { maxLength: 20 });

  it('[fuzz] valid frames reach the program; the first other one ends the connection', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(frame, { maxLength: 12 }), lengths, async (frames, pieces) => {
        const pair = connectPair();
        const bytes = Buffer.concat(frames.map(({ type, body }) => encodeFrame(type, body)));
        for (const piece of cut(bytes, pieces)) pair.socket.push(piece);
        await settle();
        const expected = frames.map(expectCall);
        const bad = expected.indexOf(null);
        const good = bad < 0 ? expected : expected.slice(0, bad);
        assert.deepEqual(
          pair.calls,
          good.filter((call) => call !== undefined),
        );
        assert.equal(pair.socket.destroyed, bad >= 0);
        assert.equal(pair.gone(), bad >= 0 ? 1 : 0);
        pair.socket.destroy();
        await settle();
        assert.equal(pair.gone(), 1);
        pair.end('gone');
      }),
      { numRuns: RUNS },
    );
  });

  it('[fuzz] any bytes are frames, or end the connection', async () => {
    const bytes = fc.uint8Array({ maxLength: 200 }).map((part) => Buffer.from(part));
    await fc.assert(
      fc.asyncProperty(bytes, lengths, async (given, pieces) => {
        const pair = connectPair();
        for (const piece of cut(given, pieces)) pair.socket.push(piece);
        pair.socket.push(null);
        await settle();
        await settle();
        assert.equal(pair.gone(), 1);
        pair.end('gone');
        await settle();
      }),
      { numRuns: RUNS },
    );
  });

  it('input beyond the window, and frames beyond the limit, end the connection', async () => {
    const full = Buffer.alloc(STDIN_WINDOW_BYTES / 2);
    for (const [takesInput, isOver] of [
      [true, false],
      [false, true],
    ] as const) {
      const pair = connectPair({ takesInput });
      for (let i = 0; i < 3; i++) {
        pair.socket.push(encodeFrame(PROGRAM_FRAME.stdin, full));
        await settle();
      }
      assert.equal(pair.socket.destroyed, isOver);
      assert.equal(pair.calls.length, isOver ? 2 : 3);
      pair.socket.destroy();
      pair.end('gone');
    }
    const pair = connectPair();
    pair.socket.push(Buffer.from([PROGRAM_FRAME.stdin, 0, 0x10, 0, 1]));
    await settle();
    assert.ok(pair.socket.destroyed);
    pair.end('gone');
  });
});
