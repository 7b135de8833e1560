// The connection of a program's client: standard input, signals and output as frames. Output waits
// for the client; the client may send as much input as was acknowledged.
import type { Duplex } from 'node:stream';
import { encodeFrame, makeFrameReader } from '../../platform/frames.ts';
import type { Log } from '../../platform/log.ts';
import { fault } from '../../wire/errors.ts';
import {
  PROGRAM_FRAME,
  PROGRAM_FRAME_BYTES_MAX,
  STDIN_WINDOW_BYTES,
} from '../../wire/sandboxd/programs.ts';
import type { TerminalSize } from './adapters/plan.ts';
import type { SandboxCommand } from './adapters/warden.ts';
import { toCommandEnd, wardenGoneFault } from './command-end.ts';

const SIGNAL_MAX = 64;

export function connectClient(options: {
  socket: Duplex;
  process: SandboxCommand;
  /** Called once, if the client has gone before the end. */
  onGone: () => void;
  log: Log;
}): { stopped(signal: number): void } {
  const { socket, process, onGone, log } = options;
  let isOver = false;
  let unacknowledgedBytes = 0;
  let resume = (): void => {};

  const leave = (): void => {
    resume();
    if (isOver) return;
    isOver = true;
    onGone();
  };

  const writeStdin = (bytes: Buffer): void => {
    unacknowledgedBytes += bytes.length;
    if (unacknowledgedBytes > STDIN_WINDOW_BYTES)
      throw fault('bad_request', 'the client sent more input than it may');
    void process.stdin(bytes).then(() => {
      unacknowledgedBytes -= bytes.length;
      const ack = Buffer.alloc(4);
      ack.writeUInt32BE(bytes.length);
      if (!isOver) socket.write(encodeFrame(PROGRAM_FRAME.stdinAck, ack));
    });
  };

  const receive = (type: number, body: Buffer): void => {
    if (type === PROGRAM_FRAME.stdin) writeStdin(body);
    else if (type === PROGRAM_FRAME.stdinEnd) process.stdinEnd();
    else if (type === PROGRAM_FRAME.signal) {
      const number = body[0] ?? 0;
      if (number > 0 && number <= SIGNAL_MAX) process.signal(number);
    } else if (type === PROGRAM_FRAME.size) process.resize(readSize(body));
    else throw fault('bad_request', `the client sent a frame of type ${type}`);
  };

  const read = makeFrameReader(PROGRAM_FRAME_BYTES_MAX, receive);
  socket.on('data', (chunk: Buffer) => {
    try {
      read(chunk);
    } catch (error) {
      log.warn('the client of a program broke the protocol', { error });
      socket.destroy();
    }
  });
  socket.on('drain', () => resume());
  socket.on('end', () => {
    leave();
    socket.end();
  });
  socket.on('close', leave);

  const send = async (frame: Buffer): Promise<void> => {
    if (socket.write(frame) || isOver) return;
    await new Promise<void>((resolve) => {
      resume = resolve;
    });
  };

  const forward = async (): Promise<void> => {
    for await (const { stream, bytes } of process.readOutput()) {
      if (isOver) break;
      await send(encodeFrame(PROGRAM_FRAME[stream], bytes));
    }
    const exit = await process.ended;
    if (isOver) return;
    isOver = true;
    const isGone = exit === 'gone';
    const last = isGone ? wardenGoneFault().toBody() : toCommandEnd(exit);
    const type = isGone ? PROGRAM_FRAME.fault : PROGRAM_FRAME.end;
    socket.end(encodeFrame(type, Buffer.from(JSON.stringify(last))));
  };
  forward().catch((error: unknown) => {
    log.error('forwarding the output of a program failed', { error });
    socket.destroy();
  });
  socket.resume();
  return {
    stopped(signal) {
      if (!isOver) socket.write(encodeFrame(PROGRAM_FRAME.stopped, Buffer.from([signal])));
    },
  };
}

function readSize(body: Buffer): TerminalSize {
  const [cols, rows] = body.length === 4 ? [body.readUInt16BE(0), body.readUInt16BE(2)] : [0, 0];
  if (cols === 0 || rows === 0) throw fault('bad_request', 'the client sent an invalid size');
  return { cols, rows };
}
