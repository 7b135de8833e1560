// The client of a program in a box, against a daemon of the test: the numbers of its frames, and
// what it does with anything a daemon could send.
import assert from 'node:assert/strict';
import { createServer, type Server, type Socket } from 'node:net';
import { join } from 'node:path';
import { PassThrough, Writable } from 'node:stream';
import { after, before, describe, it } from 'node:test';
import fc from 'fast-check';
import { eventually, freshDir } from '../../../../test/support/runtime.ts';
import { encodeFrame } from '../../../platform/frames.ts';
import {
  PROGRAM_FRAME,
  PROGRAM_PROTOCOL,
  STDIN_WINDOW_BYTES,
} from '../../../wire/sandboxd/programs.ts';
import { attachProgram, FRAME, PROTOCOL, STDIN_WINDOW_BYTES as WINDOW } from './program-client.ts';

const END = { exit_code: 3, signal: null, ended_by: null };

describe('the client of a program', { timeout: 60_000 }, () => {
  const socketPath = join(freshDir(), 'd.sock');
  let server: Server;
  let serve: (socket: Socket) => void;
  const sockets: Socket[] = [];
  before(async () => {
    server = createServer((socket) => {
      sockets.push(socket);
      socket.on('error', () => undefined);
      socket.once('data', () => {
        socket.write('HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\n\r\n');
        serve(socket);
      });
    });
    await new Promise<void>((resolve) => void server.listen(socketPath, resolve));
  });
  after(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });

  const attach = async () => {
    let output = '';
    const sink = () =>
      new Writable({
        write(chunk, _, done) {
          output += String(chunk);
          done();
        },
      });
    const streams = { stdin: new PassThrough(), stdout: sink(), stderr: sink() };
    const request = { socketPath, path: '/', headers: {}, body: '{}' };
    const program = await attachProgram(request, streams);
    program.begin();
    return { program, output: () => output };
  };

  it('has the numbers of the contract', () => {
    assert.deepEqual(FRAME, PROGRAM_FRAME);
    assert.deepEqual([PROTOCOL, WINDOW], [PROGRAM_PROTOCOL, STDIN_WINDOW_BYTES]);
  });

  it('sends sizes and signals, and learns that the program was stopped', async () => {
    const received: Buffer[] = [];
    serve = (socket) => {
      socket.on('data', (bytes) => received.push(bytes));
      socket.write(encodeFrame(FRAME.stopped, Buffer.from([20])));
    };
    const { program } = await attach();
    await new Promise<void>((resolve) => program.onStopped(resolve));
    program.resize({ cols: 300, rows: 5 });
    program.signal('SIGCONT');
    await eventually('both frames', async () => (received.length > 0 ? true : undefined));
    assert.deepEqual(
      Buffer.concat(received),
      Buffer.from([FRAME.size, 0, 0, 0, 4, 1, 44, 0, 5, FRAME.signal, 0, 0, 0, 1, 18]),
    );
    for (const socket of sockets) socket.destroy();
    await assert.rejects(program.ended, { code: 'unavailable' });
  });

  it('[fuzz] whatever arrives, it ends with an end or a fault', async () => {
    const frame = fc
      .tuple(fc.constantFrom(...Object.values(FRAME), 0, 99, 255), fc.uint8Array({ maxLength: 64 }))
      .map(([type, body]) => encodeFrame(type, body));
    const bytes = fc.uint8Array({ maxLength: 64 }).map((part) => Buffer.from(part));
    const script = fc.array(fc.oneof(frame, bytes), { maxLength: 12 });
    await fc.assert(
      fc.asyncProperty(script, fc.boolean(), async (parts, isCut) => {
        serve = (socket) => {
          for (const part of parts) socket.write(part);
          if (!isCut) socket.write(encodeFrame(FRAME.end, Buffer.from(JSON.stringify(END))));
          socket.end();
        };
        const { program } = await attach();
        const ended = await program.ended.catch((error: unknown) => error as Error);
        assert.ok(ended !== undefined);
      }),
      { numRuns: process.env.FUZZ === 'long' ? 5_000 : 200 },
    );
  });
});
