// A server's end of one connection: bytes become requests, one at a time and in their order, within
// limits of size and time. What cannot be read gets one answer in the form of all refusals, and
// nothing after it is believed.
import type { Socket } from 'node:net';
import { type Fault, fault } from '../../wire/errors.ts';
import { BodyReader } from './body.ts';
import { Exchange } from './exchange.ts';
import { NotHttp, type RequestHead, readRequestHead, requestFraming, staysOpen } from './head.ts';

export const HEADER_BYTES_MAX = 16_384;

/** So much of what nobody reads is thrown away, so that an ordinary client gets to its answer. */
const LINGER_BYTES_MAX = 64_000_000;
/** So much of later requests waits for the answer to the one before. */
const AHEAD_BYTES_MAX = 65_536;
const HEAD_END = '\r\n\r\n';
const CR = 13;
const LF = 10;

export type ConnectionHost = {
  onRequest(exchange: Exchange): void;
  onClose(connection: Connection): void;
  isClosing(): boolean;
  /** Counts up with every look at the connections. */
  turn(): number;
};

export class Connection {
  readonly socket: Socket;
  readonly #host: ConnectionHost;
  #exchange: Exchange | undefined;
  #body: BodyReader | undefined;
  /** Came, and is not used yet. */
  #ahead: Buffer | undefined;
  #isReading = false;
  #isHeldBack = false;
  /** The last request was HEAD: also our word against it has no body. */
  #isHead = false;
  #staysOpen = true;
  /** Nothing more is taken: the answer on its way is the last. */
  #isOver = false;
  /** The request has no end of its own: it is not too slow. */
  #isKeptOpen = false;
  #unreadBytes = 0;
  /** When the phase began: of the request while it arrives, of waiting else. */
  #since: number;

  constructor(socket: Socket, host: ConnectionHost) {
    this.socket = socket;
    this.#host = host;
    this.#since = host.turn();
    socket.on('data', (chunk: Buffer) => this.#take(chunk));
    socket.on('end', () => this.#ended());
    socket.on('error', () => socket.destroy());
    socket.on('close', () => this.#closed());
    socket.on('drain', () => this.#exchange?.drained());
  }

  /** For exchanges: no other request will be taken after this one. */
  isLast(): boolean {
    const isUnasked = this.#exchange?.waitsToSend === true && this.#body?.isDone === false;
    if (!this.#staysOpen || isUnasked || this.#host.isClosing()) this.#staysOpen = false;
    return !this.#staysOpen;
  }

  keepOpen(): void {
    this.#isKeptOpen = true;
    this.#staysOpen = false;
  }

  /** The server takes nothing more. */
  closing(): void {
    if (this.isIdle) this.socket.destroy();
    else this.#exchange?.closing();
  }

  /** For exchanges: the whole answer is on its way. */
  answered(): void {
    if (!this.#staysOpen) {
      this.#isOver = true;
      this.#since = this.#host.turn();
      this.socket.end();
    }
    if (this.#isReading) return;
    if (this.#body?.isDone === true) this.#next();
    if (this.#ahead !== undefined) this.#goOn();
  }

  /** Nothing is being asked or answered. */
  get isIdle(): boolean {
    return this.#exchange === undefined && this.#ahead === undefined;
  }

  /** Ends what takes too long. */
  checkTime(turns: { idle: number; head: number; request: number }): void {
    const waited = this.#host.turn() - this.#since;
    const { socket } = this;
    if (this.#isOver || this.isIdle) {
      if (waited > turns.idle) socket.destroy();
    } else if (this.#exchange === undefined) {
      if (waited > turns.head)
        this.#refuse(fault('deadline', 'the request did not arrive in time'));
    } else if (!this.#isKeptOpen && this.#body?.isDone === false && waited > turns.request) {
      const isBegun = this.#exchange.isBegun;
      this.#exchange.leave();
      if (isBegun) socket.destroy();
      else this.#refuse(fault('deadline', 'the request did not arrive in time'));
    }
  }

  #take(chunk: Buffer): void {
    if (this.#isOver) return void this.#linger(chunk.length);
    const ahead = this.#ahead;
    if (ahead === undefined && this.#exchange === undefined) this.#since = this.#host.turn();
    this.#ahead = ahead === undefined ? chunk : Buffer.concat([ahead, chunk]);
    this.#goOn();
  }

  #goOn(): void {
    this.#isReading = true;
    try {
      while (this.#ahead !== undefined && !this.#isOver && this.#readSome());
    } catch (error) {
      if (!(error instanceof NotHttp)) throw error;
      this.#broken();
    } finally {
      this.#isReading = false;
    }
    if (this.#isHeldBack && (this.#ahead?.length ?? 0) < AHEAD_BYTES_MAX) {
      this.#isHeldBack = false;
      this.socket.resume();
    }
  }

  /** False when more must come, or be answered, first. */
  #readSome(): boolean {
    if (this.#exchange === undefined) return this.#readHead();
    if (this.#body?.isDone === false) {
      this.#readBody();
      return true;
    }
    this.#holdBack();
    return false;
  }

  #next(): void {
    this.#exchange = undefined;
    this.#body = undefined;
    this.#unreadBytes = 0;
    this.#since = this.#host.turn();
  }

  #readHead(): boolean {
    const bytes = skipEmptyLines(this.#ahead!);
    this.#ahead = bytes.length === 0 ? undefined : bytes;
    if (bytes.length === 0) return false;
    const end = bytes.indexOf(HEAD_END, 0, 'latin1');
    if (end < 0 ? bytes.length > HEADER_BYTES_MAX : end > HEADER_BYTES_MAX) {
      const words = `the headers are larger than ${HEADER_BYTES_MAX} bytes`;
      this.#refuse(fault('too_large', words));
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
      return void this.#refuse(fault('method_not_allowed', 'there are no tunnels here'));
    if (target.charCodeAt(0) !== 47) throw new NotHttp('the target is not a path');
    const body = new BodyReader(requestFraming(head));
    if (headers.expect !== undefined && headers.expect.toLowerCase() !== '100-continue') {
      const what = headers.expect.slice(0, 100);
      return void this.#refuse(fault('bad_request', `nobody can meet ${what}`));
    }
    // What follows a request to change the protocol may be in that protocol.
    this.#staysOpen = staysOpen(head) && headers.upgrade === undefined;
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
      exchange.takeBody(chunk);
    });
    if (used < bytes.length) this.#ahead = bytes.subarray(used);
    if (!body.isDone) return;
    exchange.endBody();
    if (exchange.isFinished) this.#next();
  }

  /** What comes before it is its turn: kept, up to a limit, but not if it is no request at all. */
  #holdBack(): void {
    const bytes = skipEmptyLines(this.#ahead!);
    const end = bytes.indexOf(HEAD_END, 0, 'latin1');
    if (end >= 0) readRequestHead(bytes.toString('latin1', 0, end + HEAD_END.length));
    if (bytes.length <= AHEAD_BYTES_MAX || this.#isHeldBack) return;
    this.#isHeldBack = true;
    this.socket.pause();
  }

  #linger(sizeBytes: number): void {
    this.#unreadBytes += sizeBytes;
    if (this.#unreadBytes > LINGER_BYTES_MAX) this.socket.destroy();
  }

  /** Our words must not stand inside another answer, nor be taken for that of another request. */
  #broken(): void {
    const exchange = this.#exchange;
    const isInUse = exchange !== undefined && (exchange.isBegun || this.#body?.isDone === true);
    if (isInUse) return void this.socket.destroy();
    exchange?.leave();
    this.#refuse(fault('bad_request', 'this is not an HTTP request that can be read'));
  }

  #refuse(known: Fault): void {
    this.#isOver = true;
    this.#ahead = undefined;
    this.#since = this.#host.turn();
    const body = JSON.stringify({ error: known.toBody() });
    this.#staysOpen = false;
    const method = this.#isHead ? 'HEAD' : '';
    const head: RequestHead = { method, target: '', minor: 1, headers: {} };
    const words = new Exchange(head, {
      socket: this.socket,
      isLast: () => true,
      keepOpen() {},
      answered() {},
    });
    words.send(known.http, { 'content-type': 'application/json' }, body);
    this.socket.end();
  }

  /** Who ends its half does not wait for an answer any more. */
  #ended(): void {
    const isHalf = this.#exchange === undefined && this.#ahead !== undefined && !this.#isOver;
    if (isHalf) return void this.#broken();
    if (this.#exchange?.isFinished === false) this.socket.destroy();
    else this.socket.end();
  }

  #closed(): void {
    this.#isOver = true;
    this.#exchange?.leave();
    this.#host.onClose(this);
  }
}

/** Some clients end a body with an empty line that is not part of it. */
function skipEmptyLines(bytes: Buffer): Buffer {
  let at = 0;
  while (bytes[at] === CR && bytes[at + 1] === LF) at += 2;
  return at === 0 ? bytes : bytes.subarray(at);
}
