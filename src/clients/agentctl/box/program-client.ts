// The client's end of a program in a box: passes standard input, output and signals in frames, and
// resolves with how it ended.
import { connect, type Socket } from 'node:net';
import { constants } from 'node:os';
import { encodeFrame, makeFrameReader } from '../../../platform/frames.ts';
import { readResponseHead } from '../../../platform/http1/head.ts';
import { fault, faultFromBody } from '../../../wire/errors.ts';
import type { CommandEnd } from '../../../wire/sandboxd.ts';

/** As in the contract, which imports the schema library; a test keeps them equal. */
export const FRAME = {
  stdin: 1,
  stdinEnd: 2,
  signal: 3,
  size: 4,
  stdout: 17,
  stderr: 18,
  stdinAck: 19,
  end: 20,
  fault: 21,
  stopped: 22,
} as const;
export const PROTOCOL = 'agentd-program';
export const STDIN_WINDOW_BYTES = 262_144;
const FRAME_BYTES_MAX = 1_048_576;
const STDIN_PART_BYTES = 65_536;
const HEAD_END = '\r\n\r\n';
const HEAD_BYTES_MAX = 65_536;

export type ProgramStreams = {
  stdin: NodeJS.ReadableStream & { pause(): unknown; resume(): unknown };
  stdout: NodeJS.WritableStream;
  stderr: NodeJS.WritableStream;
};

export type AttachedProgram = {
  /** Begins to pass input and output; until then both wait. */
  begin(): void;
  signal(name: NodeJS.Signals): void;
  resize(size: { cols: number; rows: number }): void;
  /** Called when a signal such as Ctrl-Z stopped the program on its terminal. */
  onStopped(listener: () => void): void;
  /** Rejects with a fault if the connection breaks, or the runtime ends, before the program. */
  ended: Promise<CommandEnd>;
};

/** Sends the request; resolves when the connection speaks frames. */
export async function attachProgram(
  request: { socketPath: string; path: string; headers: Record<string, string>; body: string },
  streams: ProgramStreams,
): Promise<AttachedProgram> {
  const socket = connect(request.socketPath);
  const { ahead } = await upgrade(socket, request);
  return speak(socket, ahead, streams);
}

function upgrade(
  socket: Socket,
  { path, headers, body }: { path: string; headers: Record<string, string>; body: string },
): Promise<{ ahead: Buffer }> {
  const lines = Object.entries({
    host: 'agentd',
    connection: 'upgrade',
    upgrade: PROTOCOL,
    'content-type': 'application/json',
    'content-length': String(Buffer.byteLength(body)),
    ...headers,
  }).map(([name, value]) => `${name}: ${value}\r\n`);
  socket.write(`POST ${path} HTTP/1.1\r\n${lines.join('')}\r\n${body}`);
  return new Promise((resolve, reject) => {
    let bytes: Buffer = Buffer.alloc(0);
    const settle = (): void => {
      socket.removeAllListeners('data');
      socket.removeAllListeners('end');
      socket.removeAllListeners('error');
      socket.on('error', () => socket.destroy());
    };
    const fail = (error: unknown): void => {
      settle();
      socket.destroy();
      reject(error);
    };
    socket.on('error', fail);
    socket.on('end', () => fail(readRefusal(bytes)));
    socket.on('data', (chunk: Buffer) => {
      bytes = Buffer.concat([bytes, chunk]);
      const end = bytes.indexOf(HEAD_END, 0, 'latin1');
      if (end < 0) {
        if (bytes.length > HEAD_BYTES_MAX) fail(readRefusal(Buffer.alloc(0)));
        return;
      }
      const { status } = readResponseHead(bytes.toString('latin1', 0, end + HEAD_END.length));
      // A refusal ends with the connection.
      if (status !== 101) return;
      socket.pause();
      settle();
      resolve({ ahead: bytes.subarray(end + HEAD_END.length) });
    });
  });
}

function readRefusal(bytes: Buffer): Error {
  const end = bytes.indexOf(HEAD_END, 0, 'latin1');
  try {
    return faultFromBody(JSON.parse(bytes.toString('utf8', end + HEAD_END.length)));
  } catch (cause) {
    return fault('unavailable', 'sandboxd closed the connection', { cause });
  }
}

function speak(socket: Socket, ahead: Buffer, streams: ProgramStreams): AttachedProgram {
  const ended = Promise.withResolvers<CommandEnd>();
  let wasStopped = false;
  let stopped = (): void => {
    wasStopped = true;
  };
  const feed = makeFeeder(socket, streams.stdin);
  /** Output that a slow reader has not taken yet; the socket is not read meanwhile. */
  const write = (to: NodeJS.WritableStream, bytes: Buffer): void => {
    if (to.write(bytes)) return;
    socket.pause();
    to.once('drain', () => socket.resume());
  };
  const read = makeFrameReader(FRAME_BYTES_MAX, (type, body) => {
    if (type === FRAME.stdout) write(streams.stdout, body);
    else if (type === FRAME.stderr) write(streams.stderr, body);
    else if (type === FRAME.stdinAck) feed.acknowledge(body.readUInt32BE(0));
    else if (type === FRAME.end) ended.resolve(JSON.parse(body.toString()) as CommandEnd);
    else if (type === FRAME.stopped) stopped();
    else if (type === FRAME.fault)
      ended.reject(faultFromBody({ error: JSON.parse(body.toString()) }));
  });
  // The reader of our output is gone: the program gets SIGHUP, as the connection ends.
  for (const to of [streams.stdout, streams.stderr])
    to.on('error', () => {
      socket.destroy();
      ended.reject(fault('canceled', 'the output was closed'));
    });
  const receive = (chunk: Buffer): void => {
    try {
      read(chunk);
    } catch (error) {
      socket.destroy();
      ended.reject(error);
    }
  };
  socket.on('data', receive);
  socket.on('close', () =>
    ended.reject(
      fault('unavailable', 'the connection to the program was lost; it has been ended', {
        hint: 'See what became of it: agentctl task list',
      }),
    ),
  );
  void ended.promise.then(feed.stop, feed.stop).finally(() => socket.end());
  return {
    begin() {
      if (ahead.length > 0) receive(ahead);
      socket.resume();
      feed.start();
    },
    signal(name) {
      socket.write(encodeFrame(FRAME.signal, Buffer.from([constants.signals[name]])));
    },
    resize({ cols, rows }) {
      const body = Buffer.alloc(4);
      body.writeUInt16BE(cols, 0);
      body.writeUInt16BE(rows, 2);
      socket.write(encodeFrame(FRAME.size, body));
    },
    onStopped(listener) {
      stopped = listener;
      if (wasStopped) listener();
    },
    ended: ended.promise,
  };
}

/** Sends standard input, as far ahead of the program as the window allows. */
function makeFeeder(socket: Socket, stdin: ProgramStreams['stdin']) {
  let sentBytes = 0;
  const onData = (chunk: Buffer): void => {
    for (let at = 0; at < chunk.length; at += STDIN_PART_BYTES)
      socket.write(encodeFrame(FRAME.stdin, chunk.subarray(at, at + STDIN_PART_BYTES)));
    sentBytes += chunk.length;
    // One more read may arrive, which is no longer than half the window.
    if (sentBytes > STDIN_WINDOW_BYTES / 2) stdin.pause();
  };
  const onEnd = (): void => void socket.write(encodeFrame(FRAME.stdinEnd));
  return {
    start(): void {
      stdin.on('data', onData);
      stdin.on('end', onEnd);
      // A directory, or a terminal that is gone, has no input.
      stdin.on('error', onEnd);
    },
    acknowledge(bytes: number): void {
      sentBytes -= bytes;
      if (sentBytes <= STDIN_WINDOW_BYTES / 2) stdin.resume();
    },
    stop(): void {
      stdin.removeListener('data', onData);
      stdin.removeListener('end', onEnd);
      stdin.pause();
    },
  };
}
