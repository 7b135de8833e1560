// Sends many requests of one route in one HTTP exchange (see http-lines.ts). Opened by the first
// call, and again after a failure, which fails all pending calls; their callers decide on a retry.
import { type Fault, fault, faultFromBody } from '../wire/errors.ts';
import { LINES_TYPE } from './http-lines.ts';
import type { ClientCall, HttpPool, ResponseHandler } from './http1/client.ts';
import type { ResponseHead } from './http1/head.ts';

export type LineTarget = {
  /** Without a limit of connections: each exchange keeps one. */
  pool: HttpPool;
  socketPath: string;
  path: string;
  headers: string;
  /** Returns the fault for a connection error. */
  translate(cause: NodeJS.ErrnoException): unknown;
};

type PendingReply = {
  resolve(value: unknown): void;
  reject(reason: unknown): void;
  timer: NodeJS.Timeout;
};

const LINE_FEED = 10;

export class LineCalls {
  readonly #target: LineTarget;
  #open: Lines | undefined;

  constructor(target: LineTarget) {
    this.#target = target;
  }

  /** `text` is JSON on one line. Resolves to the response, or rejects with its fault. */
  send(text: string, deadlineMs: number): Promise<unknown> {
    if (this.#open === undefined || this.#open.isOver) this.#open = new Lines(this.#target);
    return this.#open.send(text, deadlineMs);
  }
}

/** One exchange. */
class Lines implements ResponseHandler {
  isOver = false;
  readonly #target: LineTarget;
  readonly #call: ClientCall;
  readonly #pending: PendingReply[] = [];
  #status = 0;
  /** An incomplete line, or the body of an error response. */
  #rest: Buffer | undefined;

  constructor(target: LineTarget) {
    this.#target = target;
    const head = `POST ${target.path} HTTP/1.1\r\nhost: agentd\r\n${target.headers}content-type: ${LINES_TYPE}\r\ntransfer-encoding: chunked\r\n\r\n`;
    this.#call = target.pool.send(
      { method: 'POST', head, body: undefined, isStreamed: true },
      this,
    );
  }

  send(text: string, deadlineMs: number): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const { socketPath } = this.#target;
      const late = (): void =>
        this.#drop(fault('deadline', `no response from ${socketPath} in time`));
      this.#pending.push({ resolve, reject, timer: setTimeout(late, deadlineMs) });
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
        this.#receiveLine(rest.toString('utf8', 0, end));
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
    this.#fail(this.#status === 0 ? this.#target.translate(cause) : this.#closed(cause));
  }

  #receiveLine(line: string): void {
    const first = this.#pending.shift();
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
    return fault('bad_output', `the response of ${this.#target.socketPath} is not JSON`, { cause });
  }

  #closed(cause?: unknown): Fault {
    const { socketPath } = this.#target;
    const message = `${socketPath} closed the connection in the middle of a response`;
    return fault('unavailable', message, { cause });
  }

  #drop(reason: unknown): void {
    this.#call.destroy();
    this.#fail(reason);
  }

  #fail(reason: unknown): void {
    this.isOver = true;
    for (const { timer, reject } of this.#pending.splice(0)) {
      clearTimeout(timer);
      reject(reason);
    }
  }
}
