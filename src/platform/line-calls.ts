// Asking one route of a daemon many times in one exchange: a body a line out, an answer or a fault
// a line in, in the same order. Opened with the first call, and again after it broke; what waited
// then fails, and whoever asked decides whether to ask again.
import { type Fault, fault, faultFromBody } from '../wire/errors.ts';
import { LINES_TYPE } from './http-lines.ts';
import type { ClientCall, HttpPool, ResponseHandler } from './http1/client.ts';
import type { ResponseHead } from './http1/head.ts';

export type LinePlace = {
  /** One that makes a connection for whoever asks. */
  pool: HttpPool;
  socketPath: string;
  path: string;
  headers: string;
  /** Says in our words why there was no answer. */
  translate(cause: NodeJS.ErrnoException): unknown;
};

type PendingReply = {
  resolve(value: unknown): void;
  reject(reason: unknown): void;
  timer: NodeJS.Timeout;
};

const LINE_FEED = 10;

export class LineCalls {
  readonly #place: LinePlace;
  #open: Lines | undefined;

  constructor(place: LinePlace) {
    this.#place = place;
  }

  /** `text` is JSON in one line. */
  ask(text: string, deadlineMs: number): Promise<unknown> {
    if (this.#open === undefined || this.#open.isOver) this.#open = new Lines(this.#place);
    return this.#open.ask(text, deadlineMs);
  }
}

/** One exchange. */
class Lines implements ResponseHandler {
  isOver = false;
  readonly #place: LinePlace;
  readonly #call: ClientCall;
  readonly #waiting: PendingReply[] = [];
  #status = 0;
  /** Of a line that has not ended, or of a refusal. */
  #rest: Buffer | undefined;

  constructor(place: LinePlace) {
    this.#place = place;
    const head = `POST ${place.path} HTTP/1.1\r\nhost: agentd\r\n${place.headers}content-type: ${LINES_TYPE}\r\ntransfer-encoding: chunked\r\n\r\n`;
    this.#call = place.pool.send({ method: 'POST', head, body: undefined, isStreamed: true }, this);
  }

  ask(text: string, deadlineMs: number): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const { socketPath } = this.#place;
      const late = (): void =>
        this.#drop(fault('deadline', `no answer from ${socketPath} in time`));
      this.#waiting.push({ resolve, reject, timer: setTimeout(late, deadlineMs) });
      this.#call.sendChunk(`${text}\n`);
    });
  }

  connected(): void {}

  head({ status }: ResponseHead): void {
    this.#status = status;
  }

  data(chunk: Buffer): void {
    let rest = this.#rest === undefined ? chunk : Buffer.concat([this.#rest, chunk]);
    if (this.#status === 200) {
      for (let end = rest.indexOf(LINE_FEED); end >= 0; end = rest.indexOf(LINE_FEED)) {
        this.#take(rest.toString('utf8', 0, end));
        rest = rest.subarray(end + 1);
      }
    }
    this.#rest = rest.length === 0 ? undefined : rest;
  }

  more(): void {}

  end(): void {
    if (this.#status === 200) this.#fail(this.#closed());
    else this.#fail(this.#refusal());
  }

  fail(cause: NodeJS.ErrnoException): void {
    this.#fail(this.#status === 0 ? this.#place.translate(cause) : this.#closed(cause));
  }

  #take(line: string): void {
    const first = this.#waiting.shift();
    if (first === undefined) return void this.#drop(this.#notJson());
    clearTimeout(first.timer);
    let value: unknown;
    try {
      value = JSON.parse(line);
    } catch (cause) {
      first.reject(this.#notJson(cause));
      return void this.#drop(this.#notJson(cause));
    }
    if (typeof value === 'object' && value !== null && 'error' in value)
      first.reject(faultFromBody(value));
    else first.resolve(value);
  }

  #refusal(): Fault {
    try {
      return faultFromBody(JSON.parse(this.#rest?.toString('utf8') ?? ''));
    } catch (cause) {
      return this.#notJson(cause);
    }
  }

  #notJson(cause?: unknown): Fault {
    return fault('bad_output', `${this.#place.socketPath} did not answer with JSON`, { cause });
  }

  #closed(cause?: unknown): Fault {
    const words = `${this.#place.socketPath} closed in the middle of an answer`;
    return fault('unavailable', words, { cause });
  }

  #drop(reason: unknown): void {
    this.#call.destroy();
    this.#fail(reason);
  }

  #fail(reason: unknown): void {
    this.isOver = true;
    for (const { timer, reject } of this.#waiting.splice(0)) {
      clearTimeout(timer);
      reject(reason);
    }
  }
}
