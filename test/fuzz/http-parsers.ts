// Feeds bytes to our HTTP/1 server and client and to Node's, without sockets, and records what each
// of them understood. Compares the records.
import { EventEmitter } from 'node:events';
import http from 'node:http';
import type { OnReadOpts, Socket } from 'node:net';
import { Duplex } from 'node:stream';
import { makePool } from '../../src/platform/http1/client.ts';
import { Connection } from '../../src/platform/http1/connection.ts';

/** A message as its reader understood it. `headers`: name and value pairs as received. */
export type ParsedMessage = {
  start: string;
  headers: string;
  body: string;
  isComplete: boolean;
};
/** All messages of a connection in order; `isKept`: a client would use the connection again. */
export type ParserReading = { messages: ParsedMessage[]; isKept: boolean };

/** Joins repeated headers, as our parser does. Sorted: objects list names such as `8` first. */
function formatHeaders(pairs: Iterable<readonly [string, string]>): string {
  const joined = new Map<string, string>();
  for (const [name, value] of pairs) {
    const key = name.toLowerCase();
    const known = joined.get(key);
    joined.set(key, known === undefined ? value : `${known}, ${value}`);
  }
  return JSON.stringify([...joined].sort());
}

function rawPairs(raw: readonly string[]): [string, string][] {
  return raw.flatMap((name, i) => (i % 2 === 0 ? [[name, raw[i + 1]!] as [string, string]] : []));
}

/** As much of a socket as our server and client use; what is written to it is dropped. */
class FakeSocket extends EventEmitter {
  writableLength = 0;
  isIdle = false;
  isDestroyed = false;
  write(): boolean {
    return true;
  }
  end(): void {}
  destroy(): void {
    this.isDestroyed = true;
  }
  unref(): void {
    this.isIdle = true;
  }
  ref(): void {}
  cork(): void {}
  uncork(): void {}
  pause(): void {}
  resume(): void {}
  isPaused(): boolean {
    return false;
  }
}

export function readRequestsOurWay(pieces: readonly Buffer[]): ParserReading {
  const messages: ParsedMessage[] = [];
  const socket = new FakeSocket();
  new Connection(socket as unknown as Socket, {
    onRequest(exchange) {
      const { method, target, headers } = exchange;
      const pairs = Object.entries(headers) as [string, string][];
      const message: ParsedMessage = {
        start: `${method} ${target}`,
        headers: formatHeaders(pairs),
        body: '',
        isComplete: false,
      };
      messages.push(message);
      exchange.readBody({
        data(chunk) {
          message.body += chunk.toString('latin1');
        },
        end() {
          message.isComplete = true;
          exchange.send(200, {}, '');
        },
        abort() {},
      });
    },
    onClose() {},
    isClosing: () => false,
    tick: () => 0,
  });
  for (const piece of pieces) if (!socket.isDestroyed) socket.emit('data', Buffer.from(piece));
  return { messages, isKept: false };
}

/** The bytes come by `emit`, so nothing is read. */
class FakeDuplex extends Duplex {
  override _read(): void {}
  override _write(_chunk: unknown, _encoding: unknown, done: () => void): void {
    done();
  }
}

const tick = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** Each list of pieces on a connection of its own. */
export async function readRequestsNodesWay(inputs: readonly Buffer[][]): Promise<ParserReading[]> {
  const readings = new Map<unknown, ParserReading>();
  const server = http.createServer({ requireHostHeader: false }, (request) => {
    const message: ParsedMessage = {
      start: `${request.method} ${request.url}`,
      headers: formatHeaders(rawPairs(request.rawHeaders)),
      body: '',
      isComplete: false,
    };
    readings.get(request.socket)!.messages.push(message);
    request.on('data', (chunk: Buffer) => {
      message.body += chunk.toString('latin1');
    });
    request.on('end', () => {
      message.isComplete = request.complete;
    });
    request.on('error', () => undefined);
  });
  server.on('clientError', () => undefined);
  const sockets = inputs.map((pieces) => {
    const socket = new FakeDuplex();
    readings.set(socket, { messages: [], isKept: false });
    server.emit('connection', socket);
    for (const piece of pieces) if (!socket.destroyed) socket.emit('data', piece);
    return socket;
  });
  await tick();
  for (const socket of sockets) socket.destroy();
  await tick();
  return [...readings.values()];
}

export function readResponseOurWay(method: string, pieces: readonly Buffer[]): ParserReading {
  const messages: ParsedMessage[] = [];
  const socket = new FakeSocket();
  let onread: OnReadOpts | undefined;
  const pool = makePool({
    connect(options) {
      onread = options;
      return socket as unknown as Socket;
    },
  });
  const request = { method, head: `${method} / HTTP/1.1\r\n\r\n`, body: undefined };
  pool.send(request, {
    connected() {},
    more() {},
    head({ status, headers }) {
      const pairs = Object.entries(headers) as [string, string][];
      const start = String(status);
      messages.push({ start, headers: formatHeaders(pairs), body: '', isComplete: false });
    },
    data(chunk) {
      messages[0]!.body += chunk.toString('latin1');
    },
    end() {
      messages[0]!.isComplete = true;
    },
    fail() {},
  });
  for (const piece of pieces) {
    if (socket.isDestroyed) break;
    const buffer = onread!.buffer as Buffer;
    piece.copy(buffer);
    onread!.callback(piece.length, buffer);
  }
  const isKept = socket.isIdle && !socket.isDestroyed;
  if (!socket.isDestroyed) socket.emit('end');
  return { messages, isKept };
}

export async function readResponsesNodesWay(
  inputs: readonly { method: string; pieces: readonly Buffer[] }[],
): Promise<ParserReading[]> {
  const running = inputs.map(({ method, pieces }) => {
    const reading: ParserReading = { messages: [], isKept: false };
    const socket = new FakeDuplex();
    socket.on('free', () => {
      reading.isKept = true;
    });
    const request = http.request({
      method,
      createConnection: () => socket,
      headers: { connection: 'keep-alive' },
      maxHeaderSize: 1_000_000,
    });
    request.on('response', (response) => {
      const message: ParsedMessage = {
        start: String(response.statusCode),
        headers: formatHeaders(rawPairs(response.rawHeaders)),
        body: '',
        isComplete: false,
      };
      reading.messages.push(message);
      response.on('data', (chunk: Buffer) => {
        message.body += chunk.toString('latin1');
      });
      response.on('end', () => {
        message.isComplete = response.complete;
      });
      response.on('error', () => undefined);
    });
    request.on('error', () => undefined);
    request.end();
    return { reading, socket, pieces };
  });
  await tick();
  for (const { socket, pieces } of running) {
    for (const piece of pieces) if (!socket.destroyed) socket.emit('data', piece);
    if (!socket.destroyed) socket.emit('end');
  }
  await tick();
  await tick();
  for (const { reading, socket } of running) {
    reading.isKept &&= !socket.destroyed;
    socket.destroy();
  }
  return running.map(({ reading }) => reading);
}

/** Describes a message that we accepted and Node rejected or read differently. */
export function difference(ours: ParserReading, nodes: ParserReading): string | undefined {
  for (const [i, message] of ours.messages.entries()) {
    const other = nodes.messages[i];
    if (other === undefined) return `message ${i + 1} is accepted by us only`;
    if (message.start !== other.start) return `message ${i + 1} starts differently`;
    if (message.headers !== other.headers) return `message ${i + 1} has different headers`;
    if (message.isComplete && !other.isComplete) return `message ${i + 1} ends for us only`;
    if (message.isComplete ? message.body !== other.body : !other.body.startsWith(message.body))
      return `message ${i + 1} has a different body`;
  }
  return ours.isKept && !nodes.isKept ? 'only we would use the connection again' : undefined;
}
