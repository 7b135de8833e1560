// One request and its answer on a server's connection: the body as it comes, the answer as it is
// written, and whether the other side is still there. Which request is next is connection.ts's.
import { STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import type { Headers, RequestHead, SentHeaders } from './head.ts';
import { writeHeaders } from './head.ts';

export type BodySink = {
  data(chunk: Buffer): void;
  end(): void;
  /** The other side went away before the end. */
  abort(): void;
};

/** What an exchange needs of its connection. */
export type ConnectionHandle = {
  socket: Socket;
  /** No other request will be taken after this one. */
  isLast(): boolean;
  /** The request may go on for as long as both sides like, and is the last. */
  keepOpen(): void;
  answered(): void;
};

const COPY_BYTES_MAX = 65_536;
const NO_BODY = (status: number): boolean => status < 200 || status === 204 || status === 304;

let dateSecond = 0;
let dateLine = '';
function dateHeader(): string {
  const second = Math.floor(Date.now() / 1000);
  if (second !== dateSecond) {
    dateSecond = second;
    dateLine = `date: ${new Date(second * 1000).toUTCString()}\r\n`;
  }
  return dateLine;
}

const statusLines = new Map<number, string>();
function statusLine(status: number): string {
  let line = statusLines.get(status);
  if (line === undefined) {
    line = `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? 'Unknown'}\r\n`;
    statusLines.set(status, line);
  }
  return line;
}

export class Exchange {
  readonly method: string;
  readonly target: string;
  readonly headers: Headers;
  readonly #minor: 0 | 1;
  readonly #line: ConnectionHandle;
  #sink: BodySink | undefined;
  #isBodyOver = false;
  #waitsToSend: boolean;
  #isBegun = false;
  #isFinished = false;
  #isGone = false;
  #isChunked = false;
  #extra = '';
  #onGone: (() => void) | undefined;
  #onDrain: (() => void) | undefined;
  #onClosing: (() => void) | undefined;

  constructor(head: RequestHead, line: ConnectionHandle) {
    this.method = head.method;
    this.target = head.target;
    this.headers = head.headers;
    this.#minor = head.minor;
    this.#line = line;
    this.#waitsToSend = head.headers.expect !== undefined;
  }

  get isBegun(): boolean {
    return this.#isBegun;
  }

  get isFinished(): boolean {
    return this.#isFinished;
  }

  /** The other side has gone, or this side gave the exchange up. */
  get isGone(): boolean {
    return this.#isGone;
  }

  /** The client waits to be asked for its body and has not been. */
  get waitsToSend(): boolean {
    return this.#waitsToSend;
  }

  /** From within the request's own turn; what nobody reads is thrown away. */
  readBody(sink: BodySink): void {
    this.#sink = sink;
  }

  /** No more of the body until `resumeBody`. */
  pauseBody(): void {
    if (!this.#isBodyOver) this.#line.socket.pause();
  }

  resumeBody(): void {
    if (!this.#isGone) this.#line.socket.resume();
  }

  /** Tells a client that waits with its body to send it. */
  askForBody(): void {
    if (!this.#waitsToSend) return;
    this.#waitsToSend = false;
    if (!this.#isBodyOver && !this.#isBegun && !this.#isGone)
      this.#line.socket.write('HTTP/1.1 100 Continue\r\n\r\n', 'latin1');
  }

  onGone(listener: () => void): void {
    if (this.#isGone) listener();
    else this.#onGone = listener;
  }

  onDrain(listener: () => void): void {
    this.#onDrain = listener;
  }

  /** For a request without an end of its own: the listener ends it when the server closes. */
  keepOpen(onClosing: () => void): void {
    this.#onClosing = onClosing;
    this.#line.keepOpen();
  }

  /** For the connection: nothing more is taken. */
  closing(): void {
    this.#onClosing?.();
  }

  /** A header of whatever answer will be given. */
  addHeader(name: string, value: string): void {
    this.#extra += writeHeaders({ [name]: value });
  }

  /** The whole answer. */
  send(status: number, headers: SentHeaders, body: string | Uint8Array): void {
    if (this.#isBegun || this.#isGone) return;
    const sizeBytes = typeof body === 'string' ? Buffer.byteLength(body) : body.length;
    const length = NO_BODY(status) ? '' : `content-length: ${sizeBytes}\r\n`;
    const head = `${this.#head(status, headers)}${length}\r\n`;
    this.#isBegun = true;
    const { socket } = this.#line;
    if (this.method === 'HEAD' || NO_BODY(status) || sizeBytes === 0) socket.write(head, 'latin1');
    else if (typeof body === 'string')
      socket.write(head + body, sizeBytes === body.length ? 'latin1' : 'utf8');
    else if (sizeBytes <= COPY_BYTES_MAX) socket.write(joined(head, body));
    else {
      socket.cork();
      socket.write(head, 'latin1');
      socket.write(body);
      socket.uncork();
    }
    this.#finish();
  }

  /** The head of an answer whose pieces follow. */
  begin(status: number, headers: SentHeaders): void {
    if (this.#isBegun || this.#isGone) return;
    const hasBody = this.method !== 'HEAD' && !NO_BODY(status);
    const isSized = headers['content-length'] !== undefined;
    this.#isChunked = hasBody && !isSized && this.#minor === 1;
    const chunked = this.#isChunked ? 'transfer-encoding: chunked\r\n' : '';
    const head = `${this.#head(status, headers)}${chunked}\r\n`;
    this.#isBegun = true;
    this.#line.socket.write(head, 'latin1');
  }

  /** False when it is better to wait for `onDrain`. */
  write(piece: string | Uint8Array): boolean {
    if (this.#isGone || this.#isFinished || piece.length === 0) return true;
    if (this.method === 'HEAD') return true;
    const { socket } = this.#line;
    if (!this.#isChunked) return socket.write(piece);
    if (typeof piece === 'string')
      return socket.write(`${Buffer.byteLength(piece).toString(16)}\r\n${piece}\r\n`, 'utf8');
    socket.cork();
    socket.write(`${piece.length.toString(16)}\r\n`, 'latin1');
    socket.write(piece);
    const isRoom = socket.write('\r\n', 'latin1');
    socket.uncork();
    return isRoom;
  }

  end(): void {
    if (this.#isGone || this.#isFinished) return;
    if (this.#isChunked) this.#line.socket.write('0\r\n\r\n', 'latin1');
    this.#finish();
  }

  /** Gives the connection up: an answer that has begun cannot be mended. */
  destroy(): void {
    this.#line.socket.destroy();
    this.leave();
  }

  /** For the connection: bytes of the body. */
  takeBody(chunk: Buffer): void {
    this.#waitsToSend = false;
    this.#sink?.data(chunk);
  }

  endBody(): void {
    if (this.#isBodyOver) return;
    this.#isBodyOver = true;
    this.#sink?.end();
  }

  /** For the connection: the other side is not there any more. */
  leave(): void {
    if (this.#isGone) return;
    this.#isGone = true;
    if (!this.#isBodyOver) this.#sink?.abort();
    const [gone, drain] = [this.#onGone, this.#onDrain];
    if (!this.#isFinished) gone?.();
    drain?.();
  }

  drained(): void {
    this.#onDrain?.();
  }

  #head(status: number, headers: SentHeaders): string {
    const isLast = this.#line.isLast();
    const open = isLast ? 'connection: close\r\n' : 'keep-alive: timeout=60\r\n';
    return `${statusLine(status)}${this.#extra}${writeHeaders(headers)}${dateHeader()}${open}`;
  }

  #finish(): void {
    this.#isFinished = true;
    this.#line.answered();
  }
}

function joined(head: string, body: Uint8Array): Buffer {
  const bytes = Buffer.allocUnsafe(head.length + body.length);
  bytes.write(head, 0, 'latin1');
  bytes.set(body, head.length);
  return bytes;
}
