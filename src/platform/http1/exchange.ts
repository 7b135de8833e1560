// One request and its response on a server's connection: passes the body on as it arrives, writes
// the response, and reports when the client disconnects.
import { STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import type { Headers, RequestHead, SentHeaders } from './head.ts';
import { writeHeaders } from './head.ts';

export type BodySink = {
  data(chunk: Buffer): void;
  end(): void;
  /** The client disconnected before the end. */
  abort(): void;
};

/** An exchange's view of its connection. */
export type ConnectionHandle = {
  socket: Socket;
  /** True if no other request is accepted after this one. */
  isLast(): boolean;
  /** The request has no time limit, and is the last. */
  keepOpen(): void;
  responseEnded(): void;
  detach(): Socket;
};

const COPY_BYTES_MAX = 65_536;
const hasNoBody = (status: number): boolean => status < 200 || status === 204 || status === 304;

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
  readonly #connection: ConnectionHandle;
  #sink: BodySink | undefined;
  #isBodyOver = false;
  #awaitsContinue: boolean;
  #isBegun = false;
  #isFinished = false;
  #isGone = false;
  #isChunked = false;
  #extra = '';
  #onGone: (() => void) | undefined;
  #onDrain: (() => void) | undefined;
  #onClosing: (() => void) | undefined;

  constructor(head: RequestHead, connection: ConnectionHandle) {
    this.method = head.method;
    this.target = head.target;
    this.headers = head.headers;
    this.#minor = head.minor;
    this.#connection = connection;
    this.#awaitsContinue = head.headers.expect !== undefined;
  }

  get isBegun(): boolean {
    return this.#isBegun;
  }

  get isFinished(): boolean {
    return this.#isFinished;
  }

  /** The client has disconnected, or the exchange was aborted. */
  get isGone(): boolean {
    return this.#isGone;
  }

  /** The client waits for `100 Continue` before it sends its body. */
  get awaitsContinue(): boolean {
    return this.#awaitsContinue;
  }

  /** Call it within the tick of the request; an unread body is discarded. */
  readBody(sink: BodySink): void {
    this.#sink = sink;
  }

  pauseBody(): void {
    if (!this.#isBodyOver) this.#connection.socket.pause();
  }

  resumeBody(): void {
    if (!this.#isGone) this.#connection.socket.resume();
  }

  /** Lets a client that waits for `100 Continue` send its body. */
  sendContinue(): void {
    if (!this.#awaitsContinue) return;
    this.#awaitsContinue = false;
    if (!this.#isBodyOver && !this.#isBegun && !this.#isGone)
      this.#connection.socket.write('HTTP/1.1 100 Continue\r\n\r\n', 'latin1');
  }

  onGone(listener: () => void): void {
    if (this.#isGone) listener();
    else this.#onGone = listener;
  }

  onDrain(listener: () => void): void {
    this.#onDrain = listener;
  }

  /** For a request without an end: `onClosing` ends it when the server closes. */
  keepOpen(onClosing: () => void): void {
    this.#onClosing = onClosing;
    this.#connection.keepOpen();
  }

  /** For the connection: the server is closing. */
  closing(): void {
    this.#onClosing?.();
  }

  /** Adds a header to the response. */
  addHeader(name: string, value: string): void {
    this.#extra += writeHeaders({ [name]: value });
  }

  /** Sends the whole response. */
  send(status: number, headers: SentHeaders, body: string | Uint8Array): void {
    if (this.#isBegun || this.#isGone) return;
    const sizeBytes = typeof body === 'string' ? Buffer.byteLength(body) : body.length;
    const length = hasNoBody(status) ? '' : `content-length: ${sizeBytes}\r\n`;
    const head = `${this.#head(status, headers)}${length}\r\n`;
    this.#isBegun = true;
    const { socket } = this.#connection;
    if (this.method === 'HEAD' || hasNoBody(status) || sizeBytes === 0)
      socket.write(head, 'latin1');
    else if (typeof body === 'string')
      socket.write(head + body, sizeBytes === body.length ? 'latin1' : 'utf8');
    else if (sizeBytes <= COPY_BYTES_MAX) socket.write(joinBytes(head, body));
    else {
      socket.cork();
      socket.write(head, 'latin1');
      socket.write(body);
      socket.uncork();
    }
    this.#finish();
  }

  /** Sends the head of a response whose body follows with `write`. */
  begin(status: number, headers: SentHeaders): void {
    if (this.#isBegun || this.#isGone) return;
    const hasBody = this.method !== 'HEAD' && !hasNoBody(status);
    const isSized = headers['content-length'] !== undefined;
    this.#isChunked = hasBody && !isSized && this.#minor === 1;
    const chunked = this.#isChunked ? 'transfer-encoding: chunked\r\n' : '';
    const head = `${this.#head(status, headers)}${chunked}\r\n`;
    this.#isBegun = true;
    this.#connection.socket.write(head, 'latin1');
  }

  /** Returns false if the writer should wait for `onDrain`. */
  write(piece: string | Uint8Array): boolean {
    if (this.#isGone || this.#isFinished || piece.length === 0) return true;
    if (this.method === 'HEAD') return true;
    const { socket } = this.#connection;
    if (!this.#isChunked) return socket.write(piece);
    if (typeof piece === 'string')
      return socket.write(`${Buffer.byteLength(piece).toString(16)}\r\n${piece}\r\n`, 'utf8');
    socket.cork();
    socket.write(`${piece.length.toString(16)}\r\n`, 'latin1');
    socket.write(piece);
    const canWrite = socket.write('\r\n', 'latin1');
    socket.uncork();
    return canWrite;
  }

  end(): void {
    if (this.#isGone || this.#isFinished) return;
    if (this.#isChunked) this.#connection.socket.write('0\r\n\r\n', 'latin1');
    this.#finish();
  }

  /**
   * Agrees to speak another protocol, and returns the socket, paused, with its errors handled;
   * undefined when the client is gone. The request's body must have been read.
   */
  upgrade(protocol: string): Socket | undefined {
    if (this.#isBegun || this.#isGone) return undefined;
    this.#isBegun = true;
    this.#isFinished = true;
    const socket = this.#connection.detach();
    const lines = `${this.#extra}connection: upgrade\r\nupgrade: ${protocol}\r\n\r\n`;
    socket.write(`${statusLine(101)}${lines}`, 'latin1');
    return socket;
  }

  /** Closes the connection: a response that has begun cannot be corrected. */
  destroy(): void {
    this.#connection.socket.destroy();
    this.abort();
  }

  /** For the connection: passes bytes of the body on. */
  receiveBody(chunk: Buffer): void {
    this.#awaitsContinue = false;
    this.#sink?.data(chunk);
  }

  endBody(): void {
    if (this.#isBodyOver) return;
    this.#isBodyOver = true;
    this.#sink?.end();
  }

  /** For the connection: the client has disconnected. */
  abort(): void {
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
    const isLast = this.#connection.isLast();
    const open = isLast ? 'connection: close\r\n' : 'keep-alive: timeout=60\r\n';
    return `${statusLine(status)}${this.#extra}${writeHeaders(headers)}${dateHeader()}${open}`;
  }

  #finish(): void {
    this.#isFinished = true;
    this.#connection.responseEnded();
  }
}

function joinBytes(head: string, body: Uint8Array): Buffer {
  const bytes = Buffer.allocUnsafe(head.length + body.length);
  bytes.write(head, 0, 'latin1');
  bytes.set(body, head.length);
  return bytes;
}
