// The bytes of one provider answer as they arrive, pulled by the reader so that a slow client slows
// the provider. Watches silence, size and cut connections; what the bytes mean is for others.
import { type Fault, fault } from '../../../wire/errors.ts';

/** The connection they come from. */
export type BodySource = { pause(): void; resume(): void; destroy(): void };

export type UpstreamBodyOptions = {
  provider: string;
  idleTimeoutMs: number;
  sizeBytesMax: number;
  /** Called once when nothing more is wanted or can come. */
  onOver(): void;
};

const DRAIN_MS = 1_000;
/** So much may wait for its reader. */
const WAITING_BYTES_MAX = 65_536;

export class UpstreamBody implements AsyncIterable<Buffer> {
  #source: BodySource;
  #options: UpstreamBodyOptions;
  #waiting: Buffer[] = [];
  #waitingBytes = 0;
  #sizeBytes = 0;
  #fault: Fault | undefined;
  #ended = false;
  #over = false;
  #wake: (() => void) | undefined;
  #idle: NodeJS.Timeout;
  #draining: NodeJS.Timeout | undefined;
  #onFail: ((fault: Fault) => void)[] = [];

  constructor(source: BodySource, options: UpstreamBodyOptions) {
    this.#source = source;
    this.#options = options;
    this.#idle = setTimeout(() => this.#checkIdle(), options.idleTimeoutMs).unref();
  }

  /** From the connection: the next bytes. */
  push(chunk: Buffer): void {
    if (this.#over) return;
    this.#waiting.push(chunk);
    this.#waitingBytes += chunk.length;
    if (this.#waitingBytes > WAITING_BYTES_MAX) this.#source.pause();
    this.#wakeReader();
  }

  /** From the connection: that was all. */
  end(): void {
    this.#ended = true;
    clearTimeout(this.#draining);
    this.#wakeReader();
  }

  /** From the connection: it ended before the answer did. */
  cut(cause: Error): void {
    clearTimeout(this.#draining);
    if (this.#ended) return;
    const { provider } = this.#options;
    const words = `the provider ${provider} cut its answer off in the middle`;
    this.fail(fault('provider_malformed', words, { cause }));
  }

  /** Called once with the fault if reading fails, also when nobody is reading. */
  onFail(fn: (fault: Fault) => void): void {
    if (this.#fault !== undefined) fn(this.#fault);
    else this.#onFail.push(fn);
  }

  fail(reason: Fault): void {
    if (this.#over) return;
    this.#fault = reason;
    this.#finish();
    this.#source.destroy();
    this.#wakeReader();
    for (const fn of this.#onFail) fn(reason);
  }

  /**
   * The answer is whole: the few bytes that may follow are read away so that the socket can be used
   * again.
   */
  complete(): void {
    if (this.#over) return;
    this.#finish();
    if (this.#ended) return;
    this.#draining = setTimeout(() => this.#source.destroy(), DRAIN_MS).unref();
    this.#source.resume();
  }

  async next(): Promise<IteratorResult<Buffer, undefined>> {
    for (;;) {
      if (this.#fault !== undefined) throw this.#fault;
      const chunk = this.#over ? undefined : this.#waiting.shift();
      if (chunk !== undefined) return this.#take(chunk);
      if (this.#ended || this.#over) {
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
    if (!this.#over) {
      this.#finish();
      this.#source.destroy();
    }
    return { done: true, value: undefined };
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  #take(chunk: Buffer): IteratorResult<Buffer, undefined> {
    this.#waitingBytes -= chunk.length;
    if (this.#waitingBytes <= WAITING_BYTES_MAX && !this.#ended) this.#source.resume();
    this.#sizeBytes += chunk.length;
    if (this.#sizeBytes > this.#options.sizeBytesMax) {
      const { provider, sizeBytesMax } = this.#options;
      this.fail(tooLong(provider, sizeBytesMax));
      throw this.#fault;
    }
    return { done: false, value: chunk };
  }

  #checkIdle(): void {
    // Only silence while somebody waits is the provider's; otherwise the reader is slow.
    if (this.#wake === undefined) return void this.#idle.refresh();
    const { provider, idleTimeoutMs } = this.#options;
    this.fail(silent(provider, idleTimeoutMs));
  }

  #wakeReader(): void {
    const wake = this.#wake;
    this.#wake = undefined;
    wake?.();
  }

  #finish(): void {
    if (this.#over) return;
    this.#over = true;
    this.#waiting = [];
    clearTimeout(this.#idle);
    this.#options.onOver();
  }
}

export function tooLong(provider: string, sizeBytesMax: number): Fault {
  return fault(
    'provider_malformed',
    `the provider ${provider} sent more than ${sizeBytesMax} bytes without coming to an end`,
  );
}

export function silent(provider: string, idleTimeoutMs: number): Fault {
  return fault('provider_down', `the provider ${provider} sent nothing for ${idleTimeoutMs} ms`);
}
