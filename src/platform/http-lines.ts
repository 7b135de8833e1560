// Many requests of one route in one exchange: a body a line, and an answer or a fault a line, in
// the same order. Spares every request but the first what HTTP costs; each is dispatched like any
// other.
import type { Caller } from '../wire/caller.ts';
import { Fault, fault } from '../wire/errors.ts';
import { type Dispatch, RawAnswer } from './dispatch.ts';
import type { ByteBudget } from './http-body.ts';
import type { BodySink, Exchange } from './http1/exchange.ts';
import { decodeUtf8, parseJson } from './json.ts';
import type { Matched } from './match.ts';

export const LINES_TYPE = 'application/x-ndjson';
const LINE_FEED = 10;

type LineRequest = { path: string; caller: Caller; matched: Matched; sizeBytesMax: number };

/** Reads the lines of an exchange whose head was found good, until its caller goes. */
export function answerLines(
  exchange: Exchange,
  asked: LineRequest,
  how: { dispatch: Dispatch; budgets: readonly ByteBudget[]; log(error: unknown): void },
): void {
  const reader = new LineReader(exchange, asked, how);
  exchange.keepOpen(() => reader.close());
  exchange.askForBody();
  exchange.readBody(reader);
  exchange.begin(200, { 'content-type': LINES_TYPE });
}

class LineReader implements BodySink {
  readonly #exchange: Exchange;
  readonly #asked: LineRequest;
  readonly #how: Parameters<typeof answerLines>[2];
  /** Of a line that has not ended, and of lines whose turn has not come. */
  #ahead: Buffer[] = [];
  #aheadBytes = 0;
  #hasLine = false;
  #isBusy = false;
  #isEnded = false;
  #leave: (() => void) | undefined;

  constructor(exchange: Exchange, asked: LineRequest, how: Parameters<typeof answerLines>[2]) {
    this.#exchange = exchange;
    this.#asked = asked;
    this.#how = how;
    exchange.onGone(() => this.#leave?.());
  }

  data(chunk: Buffer): void {
    if (this.#isEnded) return;
    // What one who waits for each answer sends: a whole line, and nothing waits.
    const isWhole = chunk.indexOf(LINE_FEED) === chunk.length - 1;
    const isAlone = !this.#isBusy && this.#aheadBytes === 0;
    if (isWhole && isAlone && chunk.length <= this.#asked.sizeBytesMax)
      return void this.#answer(chunk.subarray(0, -1));
    this.#keep(chunk);
    if (!this.#isBusy && !this.#isEnded) this.#next();
  }

  end(): void {
    this.#isEnded = true;
    if (!this.#isBusy) this.#next();
  }

  cut(): void {
    this.#letGo();
  }

  /** The server closes: the line that is being answered is the last. */
  close(): void {
    this.#letGo();
    this.end();
  }

  #keep(chunk: Buffer): void {
    const { budgets } = this.#how;
    const { sizeBytesMax } = this.#asked;
    if (this.#aheadBytes + chunk.length > sizeBytesMax)
      return void this.#refuse(fault('too_large', `the line is larger than ${sizeBytesMax} bytes`));
    if (!budgets.every((one) => one.bytes + chunk.length <= one.bytesMax))
      return void this.#refuse(fault('overloaded', 'too many bodies are arriving at once'));
    for (const budget of budgets) budget.bytes += chunk.length;
    this.#aheadBytes += chunk.length;
    this.#ahead.push(chunk);
    this.#hasLine ||= chunk.includes(LINE_FEED);
  }

  /** While a line is being answered, ours would be taken for its answer. */
  #refuse(why: Fault): void {
    if (!this.#isBusy) this.#tell(why);
    this.close();
  }

  #letGo(): void {
    for (const budget of this.#how.budgets) budget.bytes -= this.#aheadBytes;
    this.#aheadBytes = 0;
    this.#ahead = [];
    this.#hasLine = false;
  }

  #next(): void {
    const line = this.#takeLine();
    if (line !== undefined) void this.#answer(line);
    else if (this.#isEnded) this.#exchange.end();
  }

  #takeLine(): Buffer | undefined {
    if (!this.#hasLine) return undefined;
    const all = this.#ahead.length === 1 ? this.#ahead[0]! : Buffer.concat(this.#ahead);
    const end = all.indexOf(LINE_FEED);
    this.#letGo();
    this.#isBusy = true;
    if (end + 1 < all.length) this.#keep(all.subarray(end + 1));
    return all.subarray(0, end);
  }

  async #answer(line: Buffer): Promise<void> {
    this.#isBusy = true;
    try {
      this.#exchange.write(`${JSON.stringify(await this.#ask(line))}\n`);
    } catch (error) {
      this.#tell(error);
    }
    this.#isBusy = false;
    this.#leave = undefined;
    if (this.#aheadBytes > 0 || this.#isEnded) this.#next();
  }

  async #ask(line: Buffer): Promise<unknown> {
    const { path, caller, matched } = this.#asked;
    const value = await this.#how.dispatch.run({
      method: matched.route.method,
      path,
      query: {},
      body: parseJson(decodeUtf8(line)),
      caller,
      matched,
      onGone: (listener) => {
        this.#leave = listener;
      },
    });
    if (value instanceof RawAnswer) throw new Error('a line was answered with a stream');
    return value;
  }

  #tell(error: unknown): void {
    if (!(error instanceof Fault)) this.#how.log(error);
    const known = error instanceof Fault ? error : fault('internal', 'something went wrong here');
    this.#exchange.write(`${JSON.stringify({ error: known.toBody() })}\n`);
  }
}
