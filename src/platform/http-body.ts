// Reads the bodies of requests within the size limit of their route and the memory budgets of the
// socket and the process.
import { type Fault, fault } from '../wire/errors.ts';
import type { BodySink, Exchange } from './http1/exchange.ts';
import { decodeUtf8 } from './json.ts';

/** Limits and counts the bytes of bodies that arrive, and of those whose request is in progress. */
export type ByteBudget = { bytesMax: number; bytes: number };

/** For all sockets of this process together: bodies use memory until their request has ended. */
export const PROCESS_BODIES: ByteBudget = { bytesMax: 256_000_000, bytes: 0 };

/** Up to this much of a refused body is discarded, so that the client reads the response. */
const LINGER_BYTES_MAX = 64_000_000;
const JSON_TYPE = /^application\/([^;]+\+)?json\s*(;|$)/i;

/** `text` is undefined if there is no body. `release` is called when nobody needs it any more. */
export type ReceivedBody = { text: string | undefined; release(): void };

/** Throws a fault for a body that is too large, or not JSON, or more than the budgets allow. */
export function readBody(
  exchange: Exchange,
  sizeBytesMax: number,
  budgets: readonly ByteBudget[],
): Promise<ReceivedBody> {
  const isTooLarge = Number(exchange.headers['content-length'] ?? 0) > sizeBytesMax;
  if (!isTooLarge) exchange.sendContinue();
  return new Promise((resolve, reject) => {
    const collector = new Collector(exchange, sizeBytesMax, budgets, { resolve, reject });
    exchange.readBody(collector);
    // Refused at once, so that the client can stop sending.
    if (isTooLarge) collector.refuse(tooLargeFault(sizeBytesMax));
  });
}

function decodeBody(bytes: Buffer, type: string | undefined): string | undefined {
  if (bytes.length === 0) return undefined;
  if (type !== undefined && type !== 'application/json' && !JSON_TYPE.test(type))
    throw fault('unsupported_media', `the body is ${type.slice(0, 100)}, not JSON`);
  return decodeUtf8(bytes);
}

type BodyPromise = { resolve(body: ReceivedBody): void; reject(reason: unknown): void };

const tooLargeFault = (sizeBytesMax: number): Fault =>
  fault('too_large', `the body is larger than ${sizeBytesMax} bytes`);

class Collector implements BodySink {
  readonly #exchange: Exchange;
  readonly #sizeBytesMax: number;
  readonly #budgets: readonly ByteBudget[];
  readonly #done: BodyPromise;
  #chunks: Buffer[] = [];
  #sizeBytes = 0;
  #bufferedBytes = 0;
  #isRefused = false;

  constructor(
    exchange: Exchange,
    sizeBytesMax: number,
    budgets: readonly ByteBudget[],
    done: BodyPromise,
  ) {
    this.#exchange = exchange;
    this.#sizeBytesMax = sizeBytesMax;
    this.#budgets = budgets;
    this.#done = done;
  }

  data(chunk: Buffer): void {
    this.#sizeBytes += chunk.length;
    if (this.#sizeBytes > this.#sizeBytesMax + LINGER_BYTES_MAX) this.#exchange.destroy();
    else if (this.#isRefused) return;
    else if (this.#sizeBytes > this.#sizeBytesMax) this.refuse(tooLargeFault(this.#sizeBytesMax));
    else if (!this.#budgets.every(({ bytes, bytesMax }) => bytes + chunk.length <= bytesMax))
      this.refuse(
        fault('overloaded', 'too many bodies are arriving at once', { retryAfterMs: 1_000 }),
      );
    else {
      for (const budget of this.#budgets) budget.bytes += chunk.length;
      this.#bufferedBytes += chunk.length;
      this.#chunks.push(chunk);
    }
  }

  end(): void {
    const chunks = this.#chunks;
    this.#chunks = [];
    try {
      const bytes = chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks);
      const text = decodeBody(bytes, this.#exchange.headers['content-type']);
      this.#done.resolve({ text, release: () => this.#discard() });
    } catch (reason) {
      this.refuse(reason);
    }
  }

  abort(): void {
    this.#discard();
    this.#done.reject(fault('canceled', 'the caller disconnected'));
  }

  refuse(why: unknown): void {
    this.#isRefused = true;
    this.#discard();
    this.#done.reject(why);
  }

  #discard(): void {
    for (const budget of this.#budgets) budget.bytes -= this.#bufferedBytes;
    this.#bufferedBytes = 0;
    this.#chunks = [];
  }
}
