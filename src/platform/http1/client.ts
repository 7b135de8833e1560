// HTTP/1.1 client on plain sockets: keeps connections to one endpoint open between calls and hands
// each response to its handler piece by piece. It knows no JSON, deadlines or retries; it only
// reports whether a reused connection had been closed before it was used.
import type { OnReadOpts, Socket } from 'node:net';
import { BodyReader } from './body.ts';
import {
  isKeptAlive,
  NotHttpError,
  type ResponseHead,
  readResponseFraming,
  readResponseHead,
} from './head.ts';

export type OutgoingRequest = {
  method: string;
  /** The request line and the headers, including the empty line. ASCII. */
  head: string;
  /** Undefined if there is none, or if it follows through `Call.sendChunk`. */
  body: string | undefined;
  /** In UTF-8. A body with as many bytes as characters is ASCII, and cheaper to write. */
  bodyBytes?: number | undefined;
  /** The body follows through `Call.sendChunk`. It never ends, so the connection is not reused. */
  isStreamed?: true;
};

/** Callbacks for one response. After `end` or `fail` none is called. */
export type ResponseHandler = {
  /** The connection is open, and the request is being sent. */
  connected(): void;
  head(head: ResponseHead): void;
  data(chunk: Buffer): void;
  /** All received data has been passed on, and the response is not complete. */
  more(): void;
  end(): void;
  /** `isStale`: the server closed a reused connection without a reply, probably before the call. */
  fail(cause: NodeJS.ErrnoException, isStale: boolean): void;
};

export type ClientCall = {
  /** Sends a piece of a body whose head announced `transfer-encoding: chunked`. */
  sendChunk(text: string): void;
  pause(): void;
  resume(): void;
  /** Ends the call in any state; its handler is not called again. */
  destroy(): void;
};

export type HttpPool = {
  send(request: OutgoingRequest, handler: ResponseHandler): ClientCall;
  /** Fails every call, also those that wait for a connection and those sent later. */
  close(): void;
};

export type PoolOptions = {
  /** Opens a socket that reads with these options. */
  connect(onread: OnReadOpts): Socket;
  /** The event of a new socket that is ready for use. */
  readyEvent?: 'connect' | 'secureConnect';
  /** Further calls wait for a connection. */
  connectionsMax?: number;
};

const HEAD_END = '\r\n\r\n';
/** For one response, interim (1xx) heads included. */
const HEAD_BYTES_MAX = 65_536;
const IDLE_MS_MAX = 240_000;
const IDLE_CONNECTIONS_MAX = 256;

/**
 * Every connection reads into this buffer and copies what it received: that costs less than a new
 * buffer of this size for each read.
 */
let readBuffer: Buffer | undefined;
const READ_BYTES_MAX = 65_536;

function readInto(receive: (chunk: Buffer) => void): OnReadOpts {
  readBuffer ??= Buffer.allocUnsafeSlow(READ_BYTES_MAX);
  return {
    buffer: readBuffer,
    callback(size, bytes) {
      const chunk = Buffer.allocUnsafe(size);
      chunk.set(bytes.subarray(0, size));
      receive(chunk);
      return true;
    },
  };
}

export const codeError = (code: string, message: string): NodeJS.ErrnoException =>
  Object.assign(new Error(message), { code });

class PendingCall implements ClientCall {
  readonly request: OutgoingRequest;
  readonly handler: ResponseHandler;
  connection: ClientConnection | undefined;
  isOver = false;

  constructor(request: OutgoingRequest, handler: ResponseHandler) {
    this.request = request;
    this.handler = handler;
  }

  sendChunk(text: string): void {
    if (this.isOver) return;
    const bytes = Buffer.byteLength(text);
    const encoding = bytes === text.length ? 'latin1' : 'utf8';
    this.connection?.socket.write(`${bytes.toString(16)}\r\n${text}\r\n`, encoding);
  }

  pause(): void {
    if (!this.isOver) this.connection?.socket.pause();
  }

  resume(): void {
    if (!this.isOver) this.connection?.socket.resume();
  }

  destroy(): void {
    if (this.isOver) return;
    this.isOver = true;
    this.connection?.socket.destroy();
  }

  fail(cause: NodeJS.ErrnoException, isStale: boolean): void {
    if (this.isOver) return;
    this.isOver = true;
    this.handler.fail(cause, isStale);
  }
}

type ConnectionOwner = {
  readyEvent: 'connect' | 'secureConnect';
  onIdle(connection: ClientConnection): void;
  onClosed(connection: ClientConnection): void;
};

class ClientConnection {
  readonly socket: Socket;
  readonly #owner: ConnectionOwner;
  #call: PendingCall | undefined;
  #isReused = false;
  #hasReplied = false;
  #head: ResponseHead | undefined;
  #body: BodyReader | undefined;
  /** Received, and part of a head that is not complete. */
  #bytes: Buffer | undefined;
  #interimBytes = 0;
  #isClosed = false;
  idleUntilMs = 0;

  constructor(connect: PoolOptions['connect'], owner: ConnectionOwner) {
    const socket = connect(readInto((chunk) => this.#receive(chunk)));
    this.socket = socket;
    this.#owner = owner;
    socket.on('end', () => this.#ended());
    socket.on('error', (error) => this.#failed(error));
    socket.on('close', () => this.#failed(this.#closedError()));
  }

  send(call: PendingCall): void {
    this.#call = call;
    call.connection = this;
    this.#hasReplied = false;
    this.#interimBytes = 0;
    const { request, handler } = call;
    const { socket } = this;
    if (request.body === undefined) socket.write(request.head, 'latin1');
    else {
      const isAscii = request.bodyBytes === request.body.length;
      socket.write(request.head + request.body, isAscii ? 'latin1' : 'utf8');
    }
    if (this.#isReused) return void handler.connected();
    socket.once(this.#owner.readyEvent, () => {
      if (!call.isOver) handler.connected();
    });
  }

  #receive(chunk: Buffer): void {
    const call = this.#call;
    // Unsolicited, or for a destroyed call.
    if (call === undefined || call.isOver) return void this.#close();
    this.#hasReplied = true;
    try {
      this.#read(call, chunk);
    } catch (error) {
      if (!(error instanceof NotHttpError)) throw error;
      this.#failed(codeError('HPE_INVALID', `not an HTTP response: ${error.message}`));
    }
  }

  #read(call: PendingCall, chunk: Buffer): void {
    let bytes = this.#bytes === undefined ? chunk : Buffer.concat([this.#bytes, chunk]);
    this.#bytes = undefined;
    while (this.#body === undefined) {
      const end = bytes.indexOf(HEAD_END, 0, 'latin1');
      const size = end < 0 ? bytes.length : end + HEAD_END.length;
      if (this.#interimBytes + size > HEAD_BYTES_MAX)
        throw new NotHttpError('the head is too large');
      if (end < 0) {
        this.#bytes = bytes;
        return;
      }
      const head = readResponseHead(bytes.toString('latin1', 0, size));
      bytes = bytes.subarray(size);
      const isInterim = head.status < 200;
      if (head.status === 101 || (isInterim && !isKeptAlive(head)))
        throw new NotHttpError('an interim response that nothing can follow');
      const body = new BodyReader(readResponseFraming(head, call.request.method));
      if (isInterim) this.#interimBytes += size;
      else {
        this.#head = head;
        this.#body = body;
        call.handler.head(head);
      }
    }
    const used = this.#body.read(bytes, (piece) => {
      if (!call.isOver) call.handler.data(piece);
    });
    if (call.isOver) return;
    if (this.#body.isDone) this.#finish(call, used === bytes.length);
    else call.handler.more();
  }

  #finish(call: PendingCall, isClean: boolean): void {
    const head = this.#head!;
    call.isOver = true;
    this.#call = undefined;
    this.#head = undefined;
    this.#body = undefined;
    const { isStreamed, method } = call.request;
    const isSent = this.socket.writableLength === 0 && isStreamed !== true;
    // A body that a server sends for HEAD all the same would be the next response.
    const isLast = method === 'HEAD' || !isKeptAlive(head) || this.#isClosed;
    if (isClean && isSent && !isLast) this.#free(head);
    else this.#close();
    call.handler.end();
  }

  #free(head: ResponseHead): void {
    const seconds = /timeout=(\d{1,6})/.exec(head.headers['keep-alive'] ?? '')?.[1];
    // A second early: the server's clock started when it sent, ours when this arrived.
    const ms = seconds === undefined ? IDLE_MS_MAX : Number(seconds) * 1000 - 1_000;
    this.idleUntilMs = performance.now() + Math.min(ms, IDLE_MS_MAX);
    this.#isReused = true;
    // A call that was paused when its response ended must not leave the next one without input.
    if (this.socket.isPaused()) this.socket.resume();
    this.#owner.onIdle(this);
  }

  #close(): void {
    this.socket.destroy();
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#owner.onClosed(this);
  }

  /** The server closed its side: the end of a body without a length, else a failure. */
  #ended(): void {
    const call = this.#call;
    if (call !== undefined && !call.isOver && this.#body?.end() === true) {
      this.#close();
      return void this.#finish(call, true);
    }
    this.#failed(this.#closedError());
  }

  #closedError(): NodeJS.ErrnoException {
    return this.#head === undefined
      ? codeError('ECONNRESET', 'the connection was closed before a response')
      : codeError('HPE_INVALID_EOF_STATE', 'the connection was closed within a response');
  }

  #failed(error: NodeJS.ErrnoException): void {
    this.#close();
    const call = this.#call;
    this.#call = undefined;
    const isReset = error.code === 'ECONNRESET' || error.code === 'EPIPE';
    call?.fail(error, this.#isReused && !this.#hasReplied && isReset);
  }
}

export function makePool(options: PoolOptions): HttpPool {
  const { connectionsMax = Number.POSITIVE_INFINITY } = options;
  const connections = new Set<ClientConnection>();
  const idle: ClientConnection[] = [];
  const queue = new Set<PendingCall>();
  let isClosed = false;

  const owner: ConnectionOwner = {
    readyEvent: options.readyEvent ?? 'connect',
    onIdle(connection) {
      const next = dequeue();
      if (next !== undefined) return connection.send(next);
      if (idle.length >= IDLE_CONNECTIONS_MAX) return void connection.socket.destroy();
      connection.socket.unref();
      idle.push(connection);
    },
    onClosed(connection) {
      connections.delete(connection);
      const at = idle.lastIndexOf(connection);
      if (at >= 0) idle.splice(at, 1);
      if (connections.size >= connectionsMax) return;
      const next = dequeue();
      if (next !== undefined) open().send(next);
    },
  };

  const dequeue = (): PendingCall | undefined => {
    for (const call of queue) {
      queue.delete(call);
      if (!call.isOver) return call;
    }
    return undefined;
  };

  /** The most recently used one is the least likely to have been closed. */
  const reuseIdle = (): ClientConnection | undefined => {
    for (let connection = idle.pop(); connection !== undefined; connection = idle.pop()) {
      if (performance.now() < connection.idleUntilMs) {
        connection.socket.ref();
        return connection;
      }
      connections.delete(connection);
      connection.socket.destroy();
    }
    return undefined;
  };

  const open = (): ClientConnection => {
    const connection = new ClientConnection(options.connect, owner);
    connections.add(connection);
    return connection;
  };

  const refuse = (call: PendingCall): void =>
    call.fail(codeError('ECONNREFUSED', 'the client is closed'), false);

  return {
    send(request, handler) {
      const call = new PendingCall(request, handler);
      if (isClosed) queueMicrotask(() => refuse(call));
      else {
        const connection = reuseIdle() ?? (connections.size < connectionsMax ? open() : undefined);
        if (connection === undefined) queue.add(call);
        else connection.send(call);
      }
      return call;
    },
    close() {
      isClosed = true;
      const queued = [...queue];
      queue.clear();
      for (const { socket } of connections) socket.destroy();
      for (const call of queued) refuse(call);
    },
  };
}
