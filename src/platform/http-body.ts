// Reading the body of a request: as much as its route takes, and no more at a time than this
// process and this socket can hold. What is done with the text is http-server's.
import { type Fault, fault } from '../wire/errors.ts';
import type { BodySink, Exchange } from './http1/exchange.ts';
import { decodeUtf8 } from './json.ts';

/** How many bytes of bodies that are still arriving may be held, and how many are. */
export type ByteBudget = { bytesMax: number; bytes: number };

/** All sockets of this process together: a caller that sends halves of bodies holds memory. */
export const PROCESS_BODIES: ByteBudget = { bytesMax: 256_000_000, bytes: 0 };

/**
 * So much of a refused body is read and thrown away, so that an ordinary client gets to the answer.
 */
const LINGER_BYTES_MAX = 64_000_000;
const JSON_TYPE = /^application\/([^;]+\+)?json\s*(;|$)/i;

/** The text of the body, or undefined when there is none. */
export function readBody(
  exchange: Exchange,
  sizeBytesMax: number,
  budgets: readonly ByteBudget[],
): Promise<string | undefined> {
  const isTooLarge = Number(exchange.headers['content-length'] ?? 0) > sizeBytesMax;
  if (!isTooLarge) exchange.askForBody();
  return new Promise((resolve, reject) => {
    const collector = new Collector(exchange, sizeBytesMax, budgets, { resolve, reject });
    exchange.readBody(collector);
    // Said at once: who is told before it has sent everything can stop.
    if (isTooLarge) collector.refuse(tooLarge(sizeBytesMax));
  });
}

function textOf(bytes: Buffer, type: string | undefined): string | undefined {
  if (bytes.length === 0) return undefined;
  if (type !== undefined && type !== 'application/json' && !JSON_TYPE.test(type))
    throw fault('unsupported_media', `the body is ${type.slice(0, 100)}, not JSON`);
  return decodeUtf8(bytes);
}

type Done = { resolve(text: string | undefined): void; reject(reason: unknown): void };

const tooLarge = (sizeBytesMax: number): Fault =>
  fault('too_large', `the body is larger than ${sizeBytesMax} bytes`);

class Collector implements BodySink {
  readonly #exchange: Exchange;
  readonly #sizeBytesMax: number;
  readonly #budgets: readonly ByteBudget[];
  readonly #done: Done;
  #chunks: Buffer[] = [];
  #sizeBytes = 0;
  #heldBytes = 0;
  #isRefused = false;

  constructor(
    exchange: Exchange,
    sizeBytesMax: number,
    budgets: readonly ByteBudget[],
    done: Done,
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
    else if (this.#sizeBytes > this.#sizeBytesMax) this.refuse(tooLarge(this.#sizeBytesMax));
    else if (!this.#budgets.every((one) => one.bytes + chunk.length <= one.bytesMax))
      this.refuse(
        fault('overloaded', 'too many bodies are arriving at once', { retryAfterMs: 1_000 }),
      );
    else {
      for (const budget of this.#budgets) budget.bytes += chunk.length;
      this.#heldBytes += chunk.length;
      this.#chunks.push(chunk);
    }
  }

  end(): void {
    const chunks = this.#chunks;
    this.#letGo();
    try {
      const bytes = chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks);
      this.#done.resolve(textOf(bytes, this.#exchange.headers['content-type']));
    } catch (reason) {
      this.#done.reject(reason);
    }
  }

  cut(): void {
    this.#letGo();
    this.#done.reject(fault('canceled', 'the caller went away'));
  }

  refuse(why: Fault): void {
    this.#isRefused = true;
    this.#letGo();
    this.#done.reject(why);
  }

  #letGo(): void {
    for (const budget of this.#budgets) budget.bytes -= this.#heldBytes;
    this.#heldBytes = 0;
    this.#chunks = [];
  }
}
