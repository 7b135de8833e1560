// The server side of one connection: reads requests one at a time and in order, within limits of
// size and time. Input that is not valid HTTP gets one error response and ends the connection.
import type { Socket } from 'node:net';
import { type Fault, fault } from '../../wire/errors.ts';
import { BodyReader } from './body.ts';
import { Exchange } from './exchange.ts';
import {
  isKeptAlive,
  NotHttpError,
  type RequestHead,
  readRequestFraming,
  readRequestHead,
} from './head.ts';

export const HEADER_BYTES_MAX = 16_384;

/** Up to this much of an unread body is discarded, so that the client reads its response. */
const LINGER_BYTES_MAX = 64_000_000;
/** Up to this much of later requests is buffered while one is in progress. */
const AHEAD_BYTES_MAX = 65_536;
const HEAD_END = '\r\n\r\n';
const CR = 13;
const LF = 10;

export type ConnectionHost = {
  onRequest(exchange: Exchange): void;
  onClose(connection: Connection): void;
  isClosing(): boolean;
  /** Increases with every check of the connections. */
  tick(): number;
};

export class Connection {
  readonly socket: Socket;
  readonly #host: ConnectionHost;
  #exchange: Exchange | undefined;
  #body: BodyReader | undefined;
  /** Received, and not yet used. */
  #ahead: Buffer | undefined;
  #isReading = false;
  #isPaused = false;
  /** The last request was HEAD: an error response has no body either. */
  #isHead = false;
  #staysOpen = true;
  /** No more requests are accepted: the response in progress is the last. */
  #isOver = false;
  /** The request has no end, so it has no time limit. */
  #isKeptOpen = false;
  /** Another protocol is spoken on the socket, which belongs to its speaker. */
  #isDetached = false;
  #unreadBytes = 0;
  /** The start of the current phase: of the request while it arrives, otherwise of waiting. */
  #since: number;

  constructor(socket: Socket, host: ConnectionHost) {
    this.socket = socket;
    this.#host = host;
    this.#since = host.tick();
    socket.on('data', (chunk: Buffer) => this.#receive(chunk));
    socket.on('end', () => this.#ended());
    socket.on('error', () => socket.destroy());
    socket.on('close', () => this.#closed());
    socket.on('drain', () => this.#exchange?.drained());
  }

  /** For exchanges: true if no other request is accepted after this one. */
  isLast(): boolean {
    const hasUnsentBody = this.#exchange?.awaitsContinue === true && this.#body?.isDone === false;
    if (!this.#staysOpen || hasUnsentBody || this.#host.isClosing()) this.#staysOpen = false;
    return !this.#staysOpen;
  }

  keepOpen(): void {
    this.#isKeptOpen = true;
    this.#staysOpen = false;
  }

  /** For exchanges: ends HTTP here. What the client has sent beyond its request is still unread. */
  detach(): Socket {
    const { socket } = this;
    this.#isDetached = true;
    socket.pause();
    for (const event of ['data', 'end', 'drain']) socket.removeAllListeners(event);
    const ahead = this.#ahead;
    this.#ahead = undefined;
    if (ahead !== undefined) socket.unshift(ahead);
    return socket;
  }

  /** The server is closing. */
  closing(): void {
    if (this.#isDetached) return;
    if (this.isIdle) this.socket.destroy();
    else this.#exchange?.closing();
  }

  /** For exchanges: the whole response has been written. */
  responseEnded(): void {
    if (!this.#staysOpen) {
      this.#isOver = true;
      this.#since = this.#host.tick();
      this.socket.end();
    }
    if (this.#isReading) return;
    if (this.#body?.isDone === true) this.#next();
    if (this.#ahead !== undefined) this.#readAll();
  }

  /** True if no request is in progress. */
  get isIdle(): boolean {
    return this.#exchange === undefined && this.#ahead === undefined;
  }

  /** Ends a request, or the connection, that takes too long. */
  checkTime(ticksMax: { idle: number; head: number; request: number }): void {
    if (this.#isDetached) return;
    const ticks = this.#host.tick() - this.#since;
    const { socket } = this;
    if (this.#isOver || this.isIdle) {
      if (ticks > ticksMax.idle) socket.destroy();
    } else if (this.#exchange === undefined) {
      if (ticks > ticksMax.head)
        this.#refuse(fault('deadline', 'the request did not arrive in time'));
    } else if (!this.#isKeptOpen && this.#body?.isDone === false && ticks > ticksMax.request) {
      const isBegun = this.#exchange.isBegun;
      this.#exchange.abort();
      if (isBegun) socket.destroy();
      else this.#refuse(fault('deadline', 'the request did not arrive in time'));
    }
  }

  #receive(chunk: Buffer): void {
    if (this.#isOver) return void this.#linger(chunk.length);
    const ahead = this.#ahead;
    if (ahead === undefined && this.#exchange === undefined) this.#since = this.#host.tick();
    this.#ahead = ahead === undefined ? chunk : Buffer.concat([ahead, chunk]);
    this.#readAll();
  }

  #readAll(): void {
    this.#isReading = true;
    try {
      while (this.#ahead !== undefined && !this.#isOver && this.#readSome());
    } catch (error) {
      if (!(error instanceof NotHttpError)) throw error;
      this.#broken();
    } finally {
      this.#isReading = false;
    }
    if (this.#isPaused && (this.#ahead?.length ?? 0) < AHEAD_BYTES_MAX) {
      this.#isPaused = false;
      this.socket.resume();
    }
  }

  /** Returns false if more input, or the end of a response, is needed first. */
  #readSome(): boolean {
    if (this.#exchange === undefined) return this.#readHead();
    if (this.#body?.isDone === false) {
      this.#readBody();
      return true;
    }
    this.#buffer();
    return false;
  }

  #next(): void {
    this.#exchange = undefined;
    this.#body = undefined;
    this.#unreadBytes = 0;
    this.#since = this.#host.tick();
  }

  #readHead(): boolean {
    const bytes = skipEmptyLines(this.#ahead!);
    this.#ahead = bytes.length === 0 ? undefined : bytes;
    if (bytes.length === 0) return false;
    const end = bytes.indexOf(HEAD_END, 0, 'latin1');
    if (end < 0 ? bytes.length > HEADER_BYTES_MAX : end > HEADER_BYTES_MAX) {
      this.#refuse(fault('too_large', `the headers are larger than ${HEADER_BYTES_MAX} bytes`));
      return false;
    }
    if (end < 0) return false;
    const size = end + HEAD_END.length;
    const text = bytes.toString('latin1', 0, size);
    this.#isHead = text.startsWith('HEAD ');
    const head = readRequestHead(text);
    this.#ahead = size === bytes.length ? undefined : bytes.subarray(size);
    this.#begin(head);
    return true;
  }

  #begin(head: RequestHead): void {
    const { method, target, headers } = head;
    if (method === 'CONNECT')
      return void this.#refuse(fault('method_not_allowed', 'CONNECT is not supported'));
    if (target.charCodeAt(0) !== 47) throw new NotHttpError('the target is not a path');
    const body = new BodyReader(readRequestFraming(head));
    if (headers.expect !== undefined && headers.expect.toLowerCase() !== '100-continue') {
      const what = headers.expect.slice(0, 100);
      return void this.#refuse(fault('bad_request', `unsupported Expect header: ${what}`));
    }
    // Bytes after an upgrade request may be in the other protocol.
    this.#staysOpen = isKeptAlive(head) && headers.upgrade === undefined;
    this.#body = body;
    const exchange = new Exchange(head, this);
    this.#exchange = exchange;
    this.#host.onRequest(exchange);
    if (!body.isDone) return;
    exchange.endBody();
    if (exchange.isFinished) this.#next();
  }

  #readBody(): void {
    const bytes = this.#ahead!;
    this.#ahead = undefined;
    const exchange = this.#exchange!;
    const body = this.#body!;
    const used = body.read(bytes, (chunk) => {
      if (exchange.isFinished) this.#linger(chunk.length);
      exchange.receiveBody(chunk);
    });
    if (used < bytes.length) this.#ahead = bytes.subarray(used);
    if (!body.isDone) return;
    exchange.endBody();
    if (exchange.isFinished) this.#next();
  }

  /** Buffers later requests up to a limit, and rejects early what is not a request. */
  #buffer(): void {
    const bytes = skipEmptyLines(this.#ahead!);
    const end = bytes.indexOf(HEAD_END, 0, 'latin1');
    if (end >= 0) readRequestHead(bytes.toString('latin1', 0, end + HEAD_END.length));
    if (bytes.length <= AHEAD_BYTES_MAX || this.#isPaused) return;
    this.#isPaused = true;
    this.socket.pause();
  }

  #linger(sizeBytes: number): void {
    this.#unreadBytes += sizeBytes;
    if (this.#unreadBytes > LINGER_BYTES_MAX) this.socket.destroy();
  }

  /** An error must not land inside another response, or be mistaken for another request's. */
  #broken(): void {
    const exchange = this.#exchange;
    const isInUse = exchange !== undefined && (exchange.isBegun || this.#body?.isDone === true);
    if (isInUse) return void this.socket.destroy();
    exchange?.abort();
    this.#refuse(fault('bad_request', 'not a valid HTTP request'));
  }

  #refuse(known: Fault): void {
    this.#isOver = true;
    this.#ahead = undefined;
    this.#since = this.#host.tick();
    const body = JSON.stringify({ error: known.toBody() });
    this.#staysOpen = false;
    const method = this.#isHead ? 'HEAD' : '';
    const head: RequestHead = { method, target: '', minor: 1, headers: {} };
    const refusal = new Exchange(head, {
      socket: this.socket,
      isLast: () => true,
      keepOpen() {},
      responseEnded() {},
      detach: () => this.socket,
    });
    refusal.send(known.http, { 'content-type': 'application/json' }, body);
    this.socket.end();
  }

  /** A client that ends its side no longer waits for a response. */
  #ended(): void {
    const isIncomplete = this.#exchange === undefined && this.#ahead !== undefined && !this.#isOver;
    if (isIncomplete) return void this.#broken();
    if (this.#exchange?.isFinished === false) this.socket.destroy();
    else this.socket.end();
  }

  #closed(): void {
    this.#isOver = true;
    this.#exchange?.abort();
    this.#host.onClose(this);
  }
}

/** Some clients end a body with an empty line that is not part of it. */
function skipEmptyLines(bytes: Buffer): Buffer {
  let at = 0;
  while (bytes[at] === CR && bytes[at + 1] === LF) at += 2;
  return at === 0 ? bytes : bytes.subarray(at);
}
