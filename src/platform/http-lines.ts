// Serves many requests of one route in one HTTP exchange: one body per line, and one response or
// fault per line, in the same order. Only the first request pays for HTTP.
import type { Caller } from '../wire/caller.ts';
import { Fault, fault } from '../wire/errors.ts';
import { type Dispatch, RawReply } from './dispatch.ts';
import type { ByteBudget } from './http-body.ts';
import type { BodySink, Exchange } from './http1/exchange.ts';
import { decodeUtf8, parseJson } from './json.ts';
import type { RouteMatch } from './match.ts';

export const LINES_TYPE = 'application/x-ndjson';
const LINE_FEED = 10;

type LineRequest = { path: string; caller: Caller; matched: RouteMatch; sizeBytesMax: number };

/** Serves the lines of an authenticated exchange until its caller disconnects. */
export function answerLines(
  exchange: Exchange,
  request: LineRequest,
  options: { dispatch: Dispatch; budgets: readonly ByteBudget[]; log(error: unknown): void },
): void {
  const reader = new LineReader(exchange, request, options);
  exchange.keepOpen(() => reader.close());
  exchange.sendContinue();
  exchange.readBody(reader);
  exchange.begin(200, { 'content-type': LINES_TYPE });
}

class LineReader implements BodySink {
  readonly #exchange: Exchange;
  readonly #request: LineRequest;
  readonly #options: Parameters<typeof answerLines>[2];
  /** An incomplete line, and lines that wait for the one before. */
  #ahead: Buffer[] = [];
  #aheadBytes = 0;
  #hasLine = false;
  #isBusy = false;
  #isEnded = false;
  #onClose: (() => void) | undefined;

  constructor(
    exchange: Exchange,
    request: LineRequest,
    options: Parameters<typeof answerLines>[2],
  ) {
    this.#exchange = exchange;
    this.#request = request;
    this.#options = options;
    exchange.onGone(() => this.#onClose?.());
  }

  data(chunk: Buffer): void {
    if (this.#isEnded) return;
    // The common case: a client that waits for each response sends one whole line.
    const isWhole = chunk.indexOf(LINE_FEED) === chunk.length - 1;
    const isAlone = !this.#isBusy && this.#aheadBytes === 0;
    if (isWhole && isAlone && chunk.length <= this.#request.sizeBytesMax)
      return void this.#serve(chunk.subarray(0, -1));
    this.#keep(chunk);
    if (!this.#isBusy && !this.#isEnded) this.#next();
  }

  end(): void {
    this.#isEnded = true;
    if (!this.#isBusy) this.#next();
  }

  abort(): void {
    this.#discard();
  }

  /** The line in progress is the last. */
  close(): void {
    this.#discard();
    this.end();
  }

  #keep(chunk: Buffer): void {
    const { budgets } = this.#options;
    const { sizeBytesMax } = this.#request;
    if (this.#aheadBytes + chunk.length > sizeBytesMax)
      return void this.#refuse(fault('too_large', `the line is larger than ${sizeBytesMax} bytes`));
    if (!budgets.every(({ bytes, bytesMax }) => bytes + chunk.length <= bytesMax))
      return void this.#refuse(fault('overloaded', 'too many bodies are arriving at once'));
    for (const budget of budgets) budget.bytes += chunk.length;
    this.#aheadBytes += chunk.length;
    this.#ahead.push(chunk);
    this.#hasLine ||= chunk.includes(LINE_FEED);
  }

  /** While a line is in progress, the fault would be mistaken for its response. */
  #refuse(why: Fault): void {
    if (!this.#isBusy) this.#sendFault(why);
    this.close();
  }

  #discard(): void {
    for (const budget of this.#options.budgets) budget.bytes -= this.#aheadBytes;
    this.#aheadBytes = 0;
    this.#ahead = [];
    this.#hasLine = false;
  }

  #next(): void {
    const line = this.#shiftLine();
    if (line !== undefined) void this.#serve(line);
    else if (this.#isEnded) this.#exchange.end();
  }

  #shiftLine(): Buffer | undefined {
    if (!this.#hasLine) return undefined;
    const all = this.#ahead.length === 1 ? this.#ahead[0]! : Buffer.concat(this.#ahead);
    const end = all.indexOf(LINE_FEED);
    this.#discard();
    this.#isBusy = true;
    if (end + 1 < all.length) this.#keep(all.subarray(end + 1));
    return all.subarray(0, end);
  }

  async #serve(line: Buffer): Promise<void> {
    this.#isBusy = true;
    try {
      this.#exchange.write(`${JSON.stringify(await this.#dispatch(line))}\n`);
    } catch (error) {
      this.#sendFault(error);
    }
    this.#isBusy = false;
    this.#onClose = undefined;
    if (this.#aheadBytes > 0 || this.#isEnded) this.#next();
  }

  async #dispatch(line: Buffer): Promise<unknown> {
    const { path, caller, matched } = this.#request;
    const value = await this.#options.dispatch.run({
      method: matched.route.method,
      path,
      query: {},
      body: parseJson(decodeUtf8(line)),
      caller,
      matched,
      onClose: (listener) => {
        this.#onClose = listener;
      },
    });
    if (value instanceof RawReply) throw new Error('the response to a line is a stream');
    return value;
  }

  #sendFault(error: unknown): void {
    if (!(error instanceof Fault)) this.#options.log(error);
    const known = error instanceof Fault ? error : fault('internal', 'internal error');
    this.#exchange.write(`${JSON.stringify({ error: known.toBody() })}\n`);
  }
}
