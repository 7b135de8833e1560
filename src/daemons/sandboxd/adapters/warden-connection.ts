// One connection to the warden: one box, command or layer at a time, ending with the connection.
// The socket applies backpressure: while the output is not read, the command blocks.
import { connect, type Socket } from 'node:net';
import { fault } from '../../../wire/errors.ts';
import type { EndedBy } from '../../../wire/sandboxd.ts';
import { encodeWinsize, type TerminalSize } from './plan.ts';

const MAGIC = 0x44525741;
const HEADER_BYTES = 12;
const STDIN_WINDOW = 64 * 1024;
const STDIN_PART = 16 * 1024;

export const REQUEST = {
  plan: 1,
  stdin: 2,
  stdinEnd: 3,
  signal: 4,
  kill: 5,
  features: 6,
  open: 7,
  exec: 8,
  close: 9,
  directory: 10,
  layer: 11,
  winsize: 12,
} as const;
const REPLY = {
  started: 0x81,
  stdout: 0x82,
  stderr: 0x83,
  exit: 0x84,
  refused: 0x85,
  stdinAck: 0x86,
  features: 0x87,
  opened: 0x88,
  directoryDone: 0x89,
  measured: 0x8a,
  layerOpened: 0x8b,
  layerClosed: 0x8c,
  newest: 0x8d,
  stopped: 0x8e,
} as const;

/** In the order of the warden's `enum`; null: it exited by itself. */
const ENDED_BY: readonly (EndedBy | null)[] = [
  null,
  'wall',
  'cpu',
  'memory',
  'output',
  'pids',
  'halt',
  'killed',
  'warden',
  'lost',
  'box',
  'seal',
] as (EndedBy | null)[];

const REFUSAL_CODES = [
  '',
  'frame',
  'plan',
  'bounds',
  'host',
  'halt',
  'overload',
  'setup',
  'probe',
  'exec',
  'caller',
  'box',
  'overlay',
] as const;
export type RefusalCode = (typeof REFUSAL_CODES)[number];
export type WardenRefusal = { code: RefusalCode; message: string; hint: string };

export type ProcessExit = {
  endedBy: EndedBy | null;
  exitCode: number | null;
  signal: number | null;
  wallMs: number;
  cpuMs: number;
  memoryPeakBytes: number;
  stdoutBytes: number;
  stderrBytes: number;
};

export type Listener = {
  started(pid: number): void;
  opened?(box: bigint): void;
  layerOpened?(layer: bigint): void;
  layerClosed?(): void;
  /** The number of files left unchanged. */
  directoryDone?(unchanged: number): void;
  measured?(amount: { bytes: number; entries: number }): void;
  newest?(changedNs: bigint): void;
  /** A command on a terminal was stopped, as by Ctrl-Z, until it gets SIGCONT. */
  stopped?(signal: number): void;
  output(stream: 'stdout' | 'stderr', bytes: Buffer): void;
  exit(exit: ProcessExit): void;
  refused(refusal: WardenRefusal): void;
  /** The warden is gone, and with it the box or command. */
  gone(): void;
};

function frame(type: number, body: Buffer): Buffer {
  const head = Buffer.alloc(HEADER_BYTES);
  head.writeUInt32LE(MAGIC, 0);
  head[4] = 1;
  head[5] = type;
  head.writeUInt32LE(body.length, 8);
  return body.length === 0 ? head : Buffer.concat([head, body]);
}

const EMPTY = Buffer.alloc(0);

export class WardenConnection {
  readonly #socket: Socket;
  #in: Buffer = EMPTY;
  #listener: Listener | undefined;
  #features: ((text: string) => void) | undefined;
  #stdin: Buffer[] = [];
  #stdinEnds = false;
  #window = STDIN_WINDOW;
  #stdinAcks: (() => void)[] = [];
  closed = false;

  private constructor(socket: Socket) {
    this.#socket = socket;
    socket.on('data', (bytes: Buffer) => this.#receive(bytes));
    socket.on('error', () => undefined);
    socket.on('close', () => {
      this.closed = true;
      const listener = this.#listener;
      this.#listener = undefined;
      for (const ack of this.#stdinAcks.splice(0)) ack();
      this.#features?.('');
      listener?.gone();
    });
  }

  static open(path: string): Promise<WardenConnection> {
    return new Promise((resolve, reject) => {
      const socket = connect(path);
      socket.once('error', (cause) =>
        reject(
          fault('unavailable', 'the warden, which starts every sandbox, is not reachable', {
            cause,
            retryAfterMs: 500,
          }),
        ),
      );
      socket.once('connect', () => resolve(new WardenConnection(socket)));
    });
  }

  get isBusy(): boolean {
    return this.#listener !== undefined;
  }

  request(type: number, body: Buffer, listener: Listener): void {
    this.#listener = listener;
    this.#window = STDIN_WINDOW;
    this.#stdin = [];
    this.#stdinEnds = false;
    this.#socket.write(frame(type, body));
  }

  features(): Promise<string> {
    return new Promise((resolve) => {
      this.#features = resolve;
      this.#socket.write(frame(REQUEST.features, EMPTY));
    });
  }

  /** Resolves when the warden accepts more. */
  stdin(bytes: Buffer): Promise<void> {
    this.#stdin.push(bytes);
    this.#feed();
    if (this.#stdin.length === 0 || this.closed) return Promise.resolve();
    return new Promise((resolve) => this.#stdinAcks.push(resolve));
  }

  stdinEnd(): void {
    this.#stdinEnds = true;
    this.#feed();
  }

  resize(size: TerminalSize): void {
    this.#send(REQUEST.winsize, encodeWinsize(size));
  }
  signal(number: number): void {
    this.#send(REQUEST.signal, Buffer.from([number]));
  }
  kill(): void {
    this.#send(REQUEST.kill, EMPTY);
  }
  /** Closes the box or layer that this connection opened. */
  closeOpened(): void {
    this.#send(REQUEST.close, EMPTY);
  }
  pause(): void {
    this.#socket.pause();
  }
  resume(): void {
    this.#socket.resume();
  }
  destroy(): void {
    this.#socket.destroy();
  }

  #send(type: number, body: Buffer): void {
    if (this.#listener !== undefined) this.#socket.write(frame(type, body));
  }

  #feed(): void {
    while (this.#window > 0 && this.#stdin.length > 0) {
      const bytes = this.#stdin[0]!;
      const part = bytes.subarray(0, Math.min(this.#window, STDIN_PART));
      if (part.length === bytes.length) this.#stdin.shift();
      else this.#stdin[0] = bytes.subarray(part.length);
      this.#window -= part.length;
      this.#send(REQUEST.stdin, part);
    }
    if (this.#stdin.length > 0) return;
    for (const ack of this.#stdinAcks.splice(0)) ack();
    if (this.#stdinEnds) this.#send(REQUEST.stdinEnd, EMPTY);
    this.#stdinEnds = false;
  }

  #receive(bytes: Buffer): void {
    this.#in = this.#in.length === 0 ? bytes : Buffer.concat([this.#in, bytes]);
    while (this.#in.length >= HEADER_BYTES) {
      const size = this.#in.readUInt32LE(8);
      if (this.#in.length < HEADER_BYTES + size) return;
      const body = this.#in.subarray(HEADER_BYTES, HEADER_BYTES + size);
      const type = this.#in[5] ?? 0;
      this.#in = this.#in.subarray(HEADER_BYTES + size);
      this.#dispatch(type, body);
    }
  }

  #dispatch(type: number, body: Buffer): void {
    const listener = this.#listener;
    if (type === REPLY.features) {
      this.#features?.(body.toString());
      this.#features = undefined;
    } else if (type === REPLY.started) listener?.started(body.readUInt32LE(0));
    else if (type === REPLY.opened) {
      listener?.started(body.readUInt32LE(8));
      listener?.opened?.(body.readBigUInt64LE(0));
    } else if (type === REPLY.layerOpened) listener?.layerOpened?.(body.readBigUInt64LE(0));
    else if (type === REPLY.layerClosed) {
      this.#listener = undefined;
      listener?.layerClosed?.();
    } else if (type === REPLY.stdout) listener?.output('stdout', body);
    else if (type === REPLY.stderr) listener?.output('stderr', body);
    else if (type === REPLY.stopped) listener?.stopped?.(body[0] ?? 0);
    else if (type === REPLY.stdinAck) {
      this.#window += body.readUInt32LE(0);
      this.#feed();
    } else if (type === REPLY.directoryDone) {
      this.#listener = undefined;
      listener?.directoryDone?.(body.readUInt32LE(0));
    } else if (type === REPLY.newest) {
      this.#listener = undefined;
      listener?.newest?.(body.readBigUInt64LE(0));
    } else if (type === REPLY.measured) {
      this.#listener = undefined;
      const [bytes, entries] = [body.readBigUInt64LE(0), body.readBigUInt64LE(8)];
      listener?.measured?.({ bytes: Number(bytes), entries: Number(entries) });
    } else if (type === REPLY.exit || type === REPLY.refused) {
      // Free for the next request before the listener sends one.
      this.#listener = undefined;
      for (const ack of this.#stdinAcks.splice(0)) ack();
      if (type === REPLY.exit) listener?.exit(readExit(body));
      else listener?.refused(readRefusal(body));
    }
  }
}

function readExit(body: Buffer): ProcessExit {
  const at = (offset: number) => Number(body.readBigUInt64LE(offset));
  const signal = body[1] ?? 0;
  return {
    endedBy: ENDED_BY[body[0] ?? 0] ?? null,
    exitCode: signal === 0 ? (body[2] ?? 0) : null,
    signal: signal === 0 ? null : signal,
    wallMs: Math.round(at(8) / 1000),
    cpuMs: Math.round((at(16) + at(24)) / 1000),
    memoryPeakBytes: at(32) * 1024,
    stdoutBytes: at(40),
    stderrBytes: at(48),
  };
}

function readRefusal(body: Buffer): WardenRefusal {
  const [message = '', hint = ''] = body.subarray(2).toString().split('\0');
  return { code: REFUSAL_CODES[body[0] ?? 0] ?? '', message, hint };
}
