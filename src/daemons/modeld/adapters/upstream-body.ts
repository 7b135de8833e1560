// The bytes of one provider answer as they arrive, pulled by the reader so that a slow client slows
// the provider. Watches silence, size and cut connections; what the bytes mean is for others.
import type { IncomingMessage } from 'node:http';
import { type Fault, fault } from '../../../wire/errors.ts';

export type UpstreamBodyOptions = {
  provider: string;
  idleTimeoutMs: number;
  sizeBytesMax: number;
  /** Called once when nothing more is wanted or can come. */
  onOver(): void;
};

const DRAIN_MS = 1_000;

export class UpstreamBody implements AsyncIterable<Buffer> {
  #response: IncomingMessage;
  #options: UpstreamBodyOptions;
  #sizeBytes = 0;
  #fault: Fault | undefined;
  #ended = false;
  #over = false;
  #wake: (() => void) | undefined;
  #idle: NodeJS.Timeout;
  #onFail: ((fault: Fault) => void)[] = [];

  constructor(response: IncomingMessage, options: UpstreamBodyOptions) {
    this.#response = response;
    this.#options = options;
    this.#idle = setTimeout(() => this.#checkIdle(), options.idleTimeoutMs).unref();
    response.on('readable', () => this.#wakeReader());
    response.on('end', () => {
      this.#ended = true;
      this.#wakeReader();
    });
    response.on('error', (cause) => this.#cut(cause));
    response.on('close', () => this.#cut(undefined));
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
    this.#response.destroy();
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
    const response = this.#response;
    const timer = setTimeout(() => response.destroy(), DRAIN_MS).unref();
    response.once('close', () => clearTimeout(timer));
    response.removeAllListeners('readable');
    response.resume();
  }

  async next(): Promise<IteratorResult<Buffer, undefined>> {
    for (;;) {
      if (this.#fault !== undefined) throw this.#fault;
      const chunk = this.#over ? null : (this.#response.read() as Buffer | null);
      if (chunk !== null) return this.#take(chunk);
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
      this.#response.destroy();
    }
    return { done: true, value: undefined };
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  #take(chunk: Buffer): IteratorResult<Buffer, undefined> {
    this.#sizeBytes += chunk.length;
    if (this.#sizeBytes > this.#options.sizeBytesMax) {
      const { provider, sizeBytesMax } = this.#options;
      this.fail(
        fault(
          'provider_malformed',
          `the provider ${provider} sent more than ${sizeBytesMax} bytes without coming to an end`,
        ),
      );
      throw this.#fault;
    }
    return { done: false, value: chunk };
  }

  #checkIdle(): void {
    // Only silence while somebody waits is the provider's; otherwise the reader is slow.
    if (this.#wake === undefined) return void this.#idle.refresh();
    const { provider, idleTimeoutMs } = this.#options;
    this.fail(
      fault('provider_down', `the provider ${provider} sent nothing for ${idleTimeoutMs} ms`),
    );
  }

  #cut(cause: Error | undefined): void {
    if (this.#ended) return;
    const { provider } = this.#options;
    this.fail(
      fault('provider_malformed', `the provider ${provider} cut its answer off in the middle`, {
        cause,
      }),
    );
  }

  #wakeReader(): void {
    const wake = this.#wake;
    this.#wake = undefined;
    wake?.();
  }

  #finish(): void {
    if (this.#over) return;
    this.#over = true;
    clearTimeout(this.#idle);
    this.#options.onOver();
  }
}
