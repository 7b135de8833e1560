// Parses Server-Sent Events incrementally, keeping each block's bytes, and writes them. Dialects
// interpret the data. Format: the HTML standard, section 9.2.
import { fault } from '../../../wire/errors.ts';

/** One block of a stream. `data` is null for a block without data, such as a comment. */
export type SseBlock = { event: string; data: string | null; raw: Buffer };

const LF = 10;
const CR = 13;
const BLOCK_BYTES_MAX = 4 * 1024 * 1024;
const EMPTY = Buffer.alloc(0);

export class SseParser {
  #blockBytesMax: number;
  #lineParts: Buffer[] = [];
  #rawParts: Buffer[] = [];
  #rawBytes = 0;
  #event = '';
  #data: string[] = [];
  #afterCr = false;
  #atStart = true;

  constructor(options: { blockBytesMax?: number } = {}) {
    this.#blockBytesMax = options.blockBytesMax ?? BLOCK_BYTES_MAX;
  }

  push(chunk: Buffer): SseBlock[] {
    const blocks: SseBlock[] = [];
    if (chunk.length === 0) return blocks;
    let rawFrom = 0;
    let at = this.#afterCr && chunk[0] === LF ? 1 : 0;
    this.#afterCr = false;
    let lf = chunk.indexOf(LF, at);
    let cr = chunk.indexOf(CR, at);
    for (;;) {
      if (lf !== -1 && lf < at) lf = chunk.indexOf(LF, at);
      if (cr !== -1 && cr < at) cr = chunk.indexOf(CR, at);
      const end = cr === -1 || (lf !== -1 && lf < cr) ? lf : cr;
      if (end === -1) break;
      const line = this.#readLine(chunk, at, end);
      at = end + 1;
      if (end === cr) {
        if (at === chunk.length) this.#afterCr = true;
        else if (chunk[at] === LF) at++;
      }
      if (line === '') {
        blocks.push(this.#readBlock(chunk.subarray(rawFrom, at)));
        rawFrom = at;
      } else this.#readField(line);
    }
    if (at < chunk.length) this.#lineParts.push(chunk.subarray(at));
    if (rawFrom < chunk.length) this.#keepRaw(chunk.subarray(rawFrom));
    return blocks;
  }

  /** Returns the rest of a stream without a final blank line, which some servers omit. */
  end(): SseBlock | null {
    if (this.#lineParts.length > 0) this.#readField(this.#readLine(EMPTY, 0, 0));
    if (this.#rawBytes === 0) return null;
    return this.#readBlock(EMPTY);
  }

  #keepRaw(part: Buffer): void {
    this.#rawParts.push(part);
    this.#rawBytes += part.length;
    if (this.#rawBytes > this.#blockBytesMax) {
      throw fault(
        'provider_malformed',
        `the provider sent one stream event of more than ${this.#blockBytesMax} bytes`,
      );
    }
  }

  #readLine(chunk: Buffer, from: number, to: number): string {
    let line: string;
    if (this.#lineParts.length === 0) line = chunk.toString('utf8', from, to);
    else {
      // Joined before decoding: a character may be split between two chunks.
      line = Buffer.concat([...this.#lineParts, chunk.subarray(from, to)]).toString('utf8');
      this.#lineParts = [];
    }
    if (this.#atStart) {
      this.#atStart = false;
      if (line.charCodeAt(0) === 0xfeff) return line.slice(1);
    }
    return line;
  }

  #readField(line: string): void {
    const colon = line.indexOf(':');
    if (colon === 0) return;
    const name = colon === -1 ? line : line.slice(0, colon);
    const from = line.charCodeAt(colon + 1) === 32 ? colon + 2 : colon + 1;
    const value = colon === -1 ? '' : line.slice(from);
    if (name === 'data') this.#data.push(value);
    else if (name === 'event') this.#event = value;
  }

  #readBlock(last: Buffer): SseBlock {
    const raw = this.#rawParts.length === 0 ? last : Buffer.concat([...this.#rawParts, last]);
    const data =
      this.#data.length === 0
        ? null
        : this.#data.length === 1
          ? this.#data[0]!
          : this.#data.join('\n');
    const block = { event: this.#event, data, raw };
    this.#rawParts = [];
    this.#rawBytes = 0;
    this.#event = '';
    this.#data = [];
    return block;
  }
}

/** Line ends inside `data` become several data lines, as the format requires. */
export function writeSse(block: { event?: string; data: string }): string {
  const head = block.event === undefined ? '' : `event: ${block.event}\n`;
  if (!/[\r\n]/.test(block.data)) return `${head}data: ${block.data}\n\n`;
  const lines = block.data.split(/\r\n|\r|\n/).map((line) => `data: ${line}\n`);
  return `${head}${lines.join('')}\n`;
}
