// Streams the bytes of one provider response with backpressure, so that a slow client slows the
// provider. Detects silence, excessive size and aborted connections.
import { type Fault, fault } from '../../../wire/errors.ts';

export type BodySource = { pause(): void; resume(): void; destroy(): void };

export type UpstreamBodyOptions = {
  provider: string;
  idleTimeoutMs: number;
  sizeBytesMax: number;
  /** Called once, when no more bytes are needed or possible. */
  onEnd(): void;
};

const DRAIN_TIMEOUT_MS = 1_000;
/** Above this the connection is paused. */
const BUFFERED_BYTES_MAX = 65_536;

export class UpstreamBody implements AsyncIterable<Buffer> {
  #source: BodySource;
  #options: UpstreamBodyOptions;
  #buffered: Buffer[] = [];
  #bufferedBytes = 0;
  #sizeBytes = 0;
  #fault: Fault | undefined;
  #ended = false;
  #isOver = false;
  #wake: (() => void) | undefined;
  #idle: NodeJS.Timeout;
  #draining: NodeJS.Timeout | undefined;
  #onFail: ((fault: Fault) => void)[] = [];

  constructor(source: BodySource, options: UpstreamBodyOptions) {
    this.#source = source;
    this.#options = options;
    this.#idle = setTimeout(() => this.#checkIdle(), options.idleTimeoutMs).unref();
  }

  push(chunk: Buffer): void {
    if (this.#isOver) return;
    this.#buffered.push(chunk);
    this.#bufferedBytes += chunk.length;
    if (this.#bufferedBytes > BUFFERED_BYTES_MAX) this.#source.pause();
    this.#wakeReader();
  }

  /** The connection delivered the whole response. */
  end(): void {
    this.#ended = true;
    clearTimeout(this.#draining);
    this.#wakeReader();
  }

  /** The connection ended before the response. */
  abort(cause: Error): void {
    clearTimeout(this.#draining);
    if (this.#ended) return;
    const { provider } = this.#options;
    const message = `the provider ${provider} closed the connection during its response`;
    this.fail(fault('provider_malformed', message, { cause }));
  }

  /** Calls `fn` once if reading fails, also when there is no reader. */
  onFail(fn: (fault: Fault) => void): void {
    if (this.#fault !== undefined) fn(this.#fault);
    else this.#onFail.push(fn);
  }

  fail(reason: Fault): void {
    if (this.#isOver) return;
    this.#fault = reason;
    this.#finish();
    this.#source.destroy();
    this.#wakeReader();
    for (const fn of this.#onFail) fn(reason);
  }

  /** Ends a complete response. Remaining bytes are drained so that the socket can be reused. */
  complete(): void {
    if (this.#isOver) return;
    this.#finish();
    if (this.#ended) return;
    this.#draining = setTimeout(() => this.#source.destroy(), DRAIN_TIMEOUT_MS).unref();
    this.#source.resume();
  }

  async next(): Promise<IteratorResult<Buffer, undefined>> {
    for (;;) {
      if (this.#fault !== undefined) throw this.#fault;
      const chunk = this.#isOver ? undefined : this.#buffered.shift();
      if (chunk !== undefined) return this.#consume(chunk);
      if (this.#ended || this.#isOver) {
        this.#finish();
        return { done: true, value: undefined };
      }
      this.#idle.refresh();
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }

  async return(): Promise<IteratorResult<Buffer, undefined>> {
    if (!this.#isOver) {
      this.#finish();
      this.#source.destroy();
    }
    return { done: true, value: undefined };
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  #consume(chunk: Buffer): IteratorResult<Buffer, undefined> {
    this.#bufferedBytes -= chunk.length;
    if (this.#bufferedBytes <= BUFFERED_BYTES_MAX && !this.#ended) this.#source.resume();
    this.#sizeBytes += chunk.length;
    if (this.#sizeBytes > this.#options.sizeBytesMax) {
      const { provider, sizeBytesMax } = this.#options;
      this.fail(tooLongFault(provider, sizeBytesMax));
      throw this.#fault;
    }
    return { done: false, value: chunk };
  }

  #checkIdle(): void {
    // Silence counts only while a reader waits; otherwise the reader is slow.
    if (this.#wake === undefined) return void this.#idle.refresh();
    const { provider, idleTimeoutMs } = this.#options;
    this.fail(silentFault(provider, idleTimeoutMs));
  }

  #wakeReader(): void {
    const wake = this.#wake;
    this.#wake = undefined;
    wake?.();
  }

  #finish(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#buffered = [];
    clearTimeout(this.#idle);
    this.#options.onEnd();
  }
}

export function tooLongFault(provider: string, sizeBytesMax: number): Fault {
  return fault(
    'provider_malformed',
    `the provider ${provider} sent more than ${sizeBytesMax} bytes`,
  );
}

export function silentFault(provider: string, idleTimeoutMs: number): Fault {
  return fault('provider_down', `the provider ${provider} sent nothing for ${idleTimeoutMs} ms`);
}
