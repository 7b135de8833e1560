// An HTTP/1.1 client on plain sockets: connections to one place that stay open between calls, and
// what comes back in pieces, as it comes. Knows no JSON, no deadline and no retry; it only says
// whether a kept connection had ended before it was used.
import type { OnReadOpts, Socket } from 'node:net';
import { BodyReader } from './body.ts';
import { type AnswerHead, answerFraming, NotHttp, readAnswerHead, staysOpen } from './head.ts';

export type Ask = {
  method: string;
  /** The first line and the headers, up to and with the empty line. ASCII. */
  head: string;
  /** Undefined where there is none, or where it follows piece by piece. */
  body: string | undefined;
  /** In UTF-8. A body of as many bytes as characters is ASCII, and cheaper to write. */
  bodyBytes?: number | undefined;
};

/** What becomes of a call. After `end` or `fail` nothing more comes. */
export type Answering = {
  /** There is a connection, and the request is on its way. */
  connected(): void;
  head(head: AnswerHead): void;
  data(chunk: Buffer): void;
  /** What came was not the end. */
  more(): void;
  end(): void;
  /** `isStale`: a kept connection ended without a word, as if just before it was used. */
  fail(cause: NodeJS.ErrnoException, isStale: boolean): void;
};

export type Call = {
  /** A piece of a body whose head said that it comes in chunks. */
  sendChunk(text: string): void;
  pause(): void;
  resume(): void;
  /** Ends it, wherever it is; nothing of it is heard any more. */
  destroy(): void;
};

export type Pool = { ask(ask: Ask, answering: Answering): Call; close(): void };

export type PoolOptions = {
  /** Gives a socket that reads as it is told here. */
  connect(onread: OnReadOpts): Socket;
  /** The event that says that a new socket can be used. */
  readyEvent?: 'connect' | 'secureConnect';
  /** Who asks for more waits. */
  connectionsMax?: number;
  freeMax?: number;
};

const HEAD_END = '\r\n\r\n';
const HEAD_BYTES_MAX = 65_536;
const FREE_MS_MAX = 240_000;

/**
 * Every connection reads into this one, and what came is copied out of it at once: a buffer of this
 * size for each read, and a stream around it, cost more than that.
 */
let readBuffer: Buffer | undefined;
const READ_BYTES_MAX = 65_536;

function readingInto(take: (chunk: Buffer) => void): OnReadOpts {
  readBuffer ??= Buffer.allocUnsafeSlow(READ_BYTES_MAX);
  return {
    buffer: readBuffer,
    callback(size, bytes) {
      const chunk = Buffer.allocUnsafe(size);
      chunk.set(bytes.subarray(0, size));
      take(chunk);
      return true;
    },
  };
}

const codeError = (code: string, words: string): NodeJS.ErrnoException =>
  Object.assign(new Error(words), { code });

class Waiting implements Call {
  readonly ask: Ask;
  readonly answering: Answering;
  line: Line | undefined;
  isOver = false;

  constructor(ask: Ask, answering: Answering) {
    this.ask = ask;
    this.answering = answering;
  }

  sendChunk(text: string): void {
    if (this.isOver) return;
    const bytes = Buffer.byteLength(text);
    const encoding = bytes === text.length ? 'latin1' : 'utf8';
    this.line?.socket.write(`${bytes.toString(16)}\r\n${text}\r\n`, encoding);
  }

  pause(): void {
    if (!this.isOver) this.line?.socket.pause();
  }

  resume(): void {
    if (!this.isOver) this.line?.socket.resume();
  }

  destroy(): void {
    if (this.isOver) return;
    this.isOver = true;
    this.line?.socket.destroy();
  }
}

type LineHost = {
  readyEvent: 'connect' | 'secureConnect';
  onFree(line: Line): void;
  onGone(line: Line): void;
};

/** One connection. */
class Line {
  readonly socket: Socket;
  readonly #host: LineHost;
  #call: Waiting | undefined;
  #isReused = false;
  #hasAnswered = false;
  #head: AnswerHead | undefined;
  #body: BodyReader | undefined;
  #bytes: Buffer | undefined;
  #isGone = false;
  freeUntilMs = 0;

  constructor(connect: PoolOptions['connect'], host: LineHost) {
    const socket = connect(readingInto((chunk) => this.#take(chunk)));
    this.socket = socket;
    this.#host = host;
    socket.on('end', () => this.#ended());
    socket.on('error', (error) => this.#failed(error));
    socket.on('close', () => this.#ended());
  }

  send(call: Waiting): void {
    this.#call = call;
    call.line = this;
    this.#hasAnswered = false;
    const { ask, answering } = call;
    const { socket } = this;
    if (ask.body === undefined) socket.write(ask.head, 'latin1');
    else {
      const isAscii = ask.bodyBytes === ask.body.length;
      socket.write(ask.head + ask.body, isAscii ? 'latin1' : 'utf8');
    }
    if (this.#isReused) return void answering.connected();
    socket.once(this.#host.readyEvent, () => {
      if (!call.isOver) answering.connected();
    });
  }

  #take(chunk: Buffer): void {
    const call = this.#call;
    // Nobody asked, or the one who did has left.
    if (call === undefined || call.isOver) return void this.#drop();
    this.#hasAnswered = true;
    try {
      this.#read(call, chunk);
    } catch (error) {
      if (!(error instanceof NotHttp)) throw error;
      this.#failed(codeError('HPE_INVALID', `not an HTTP answer: ${error.message}`));
    }
  }

  #read(call: Waiting, chunk: Buffer): void {
    let bytes = this.#bytes === undefined ? chunk : Buffer.concat([this.#bytes, chunk]);
    this.#bytes = undefined;
    while (this.#body === undefined) {
      const end = bytes.indexOf(HEAD_END, 0, 'latin1');
      if (end < 0) return void this.#keep(bytes);
      const size = end + HEAD_END.length;
      const head = readAnswerHead(bytes.toString('latin1', 0, size));
      bytes = bytes.subarray(size);
      if (head.status === 101) throw new NotHttp('another protocol, unasked');
      if (head.status >= 200) this.#begin(call, head);
    }
    const { answering } = call;
    const used = this.#body.read(bytes, (piece) => {
      if (!call.isOver) answering.data(piece);
    });
    if (call.isOver) return;
    if (this.#body.isDone) this.#finish(call, used === bytes.length);
    else answering.more();
  }

  #keep(bytes: Buffer): void {
    if (bytes.length > HEAD_BYTES_MAX) throw new NotHttp('the head does not end');
    if (bytes.length > 0) this.#bytes = bytes;
  }

  #begin(call: Waiting, head: AnswerHead): void {
    this.#head = head;
    this.#body = new BodyReader(answerFraming(head, call.ask.method));
    call.answering.head(head);
  }

  #finish(call: Waiting, isClean: boolean): void {
    const head = this.#head!;
    call.isOver = true;
    this.#call = undefined;
    this.#head = undefined;
    this.#body = undefined;
    const isSent = this.socket.writableLength === 0;
    if (isClean && isSent && staysOpen(head) && !this.#isGone) this.#free(head);
    else this.#drop();
    call.answering.end();
  }

  #free(head: AnswerHead): void {
    const said = /timeout=(\d{1,6})/.exec(head.headers['keep-alive'] ?? '')?.[1];
    // A second early: the other side's clock started when it sent, ours when this arrived.
    const ms = said === undefined ? FREE_MS_MAX : Number(said) * 1000 - 1_000;
    this.freeUntilMs = performance.now() + Math.min(ms, FREE_MS_MAX);
    this.#isReused = true;
    this.#host.onFree(this);
  }

  #drop(): void {
    this.socket.destroy();
    this.#gone();
  }

  #gone(): void {
    if (this.#isGone) return;
    this.#isGone = true;
    this.#host.onGone(this);
  }

  #ended(): void {
    const call = this.#call;
    if (call !== undefined && !call.isOver && this.#body?.end() === true) {
      this.#isGone = true;
      this.#host.onGone(this);
      return void this.#finish(call, true);
    }
    this.#failed(codeError('ECONNRESET', 'the connection was closed'));
  }

  #failed(error: NodeJS.ErrnoException): void {
    this.#drop();
    const call = this.#call;
    this.#call = undefined;
    if (call === undefined || call.isOver) return;
    call.isOver = true;
    const isReset = error.code === 'ECONNRESET' || error.code === 'EPIPE';
    call.answering.fail(error, this.#isReused && !this.#hasAnswered && isReset);
  }
}

export function makePool(options: PoolOptions): Pool {
  const { connectionsMax = Number.POSITIVE_INFINITY, freeMax = 256 } = options;
  const lines = new Set<Line>();
  const free: Line[] = [];
  const queue = new Set<Waiting>();

  const host: LineHost = {
    readyEvent: options.readyEvent ?? 'connect',
    onFree(line) {
      const next = takeNext();
      if (next !== undefined) return line.send(next);
      if (free.length >= freeMax) return void line.socket.destroy();
      line.socket.unref();
      free.push(line);
    },
    onGone(line) {
      lines.delete(line);
      const at = free.lastIndexOf(line);
      if (at >= 0) free.splice(at, 1);
      if (lines.size >= connectionsMax) return;
      const next = takeNext();
      if (next !== undefined) open().send(next);
    },
  };

  const takeNext = (): Waiting | undefined => {
    for (const waiting of queue) {
      queue.delete(waiting);
      if (!waiting.isOver) return waiting;
    }
    return undefined;
  };

  /** The one used last: it is the least likely to have been closed. */
  const takeFree = (): Line | undefined => {
    for (let line = free.pop(); line !== undefined; line = free.pop()) {
      if (performance.now() < line.freeUntilMs) {
        line.socket.ref();
        return line;
      }
      lines.delete(line);
      line.socket.destroy();
    }
    return undefined;
  };

  const open = (): Line => {
    const line = new Line(options.connect, host);
    lines.add(line);
    return line;
  };

  return {
    ask(ask, answering) {
      const call = new Waiting(ask, answering);
      const line = takeFree() ?? (lines.size < connectionsMax ? open() : undefined);
      if (line === undefined) queue.add(call);
      else line.send(call);
      return call;
    },
    close() {
      for (const waiting of queue) waiting.isOver = true;
      queue.clear();
      for (const { socket } of lines) socket.destroy();
    },
  };
}
