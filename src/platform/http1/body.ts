// Where the body of an HTTP/1 message ends, and what is in it: bytes go in as they arrive, the
// body's own come out as slices of them.
import { type Framing, NotHttp } from './head.ts';

const CHUNK_LINE_BYTES_MAX = 256;
const TRAILER_BYTES_MAX = 16_384;
const SIZE_LINE = /^([0-9a-fA-F]{1,8})[ \t]*(?:;[\t\x20-\x7e\x80-\xff]*)?$/;
const TRAILER_LINE = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+:[\t\x20-\x7e\x80-\xff]*$/;
const CR = 13;
const LF = 10;

type Place = 'size' | 'data' | 'after-data' | 'trailer';

export class BodyReader {
  #framing: Framing;
  /** Bytes left: of the body, or of the chunk that is being read. */
  #left: number;
  #place: Place = 'size';
  /** A line of which only the beginning has come. */
  #line = '';
  #trailerBytes = 0;
  #isDone: boolean;

  constructor(framing: Framing) {
    this.#framing = framing;
    this.#left = typeof framing === 'number' ? framing : 0;
    this.#isDone = framing === 0;
  }

  get isDone(): boolean {
    return this.#isDone;
  }

  /**
   * Gives the body's bytes to `take` and says how many of the given ones belong to this message.
   * Throws when they are not what the head promised.
   */
  read(bytes: Buffer, take: (chunk: Buffer) => void): number {
    if (this.#isDone) return 0;
    if (this.#framing === 'close') {
      if (bytes.length > 0) take(bytes);
      return bytes.length;
    }
    if (this.#framing === 'chunked') return this.#readChunks(bytes, take);
    const size = this.#readData(bytes, 0, take);
    this.#isDone = this.#left === 0;
    return size;
  }

  /** The connection ended. True when that is an end of this body. */
  end(): boolean {
    if (this.#framing === 'close') this.#isDone = true;
    return this.#isDone;
  }

  #readData(bytes: Buffer, from: number, take: (chunk: Buffer) => void): number {
    const size = Math.min(this.#left, bytes.length - from);
    if (size === 0) return 0;
    this.#left -= size;
    take(from === 0 && size === bytes.length ? bytes : bytes.subarray(from, from + size));
    return size;
  }

  #readChunks(bytes: Buffer, take: (chunk: Buffer) => void): number {
    let at = 0;
    while (at < bytes.length && !this.#isDone) {
      if (this.#place === 'data') {
        at += this.#readData(bytes, at, take);
        if (this.#left === 0) this.#place = 'after-data';
        continue;
      }
      const end = bytes.indexOf(LF, at);
      this.#keepLine(bytes, at, end < 0 ? bytes.length : end);
      if (end < 0) return bytes.length;
      at = end + 1;
      this.#takeLine();
    }
    return at;
  }

  #keepLine(bytes: Buffer, from: number, to: number): void {
    const most = this.#place === 'trailer' ? TRAILER_BYTES_MAX : CHUNK_LINE_BYTES_MAX;
    if (this.#line.length + to - from > most) throw new NotHttp('a line in a body does not end');
    this.#line += bytes.toString('latin1', from, to);
  }

  #takeLine(): void {
    const text = this.#line;
    this.#line = '';
    if (text.charCodeAt(text.length - 1) !== CR) throw new NotHttp('a line ends without CR');
    const line = text.slice(0, -1);
    if (this.#place === 'size') this.#takeSize(line);
    else if (this.#place === 'after-data') {
      if (line !== '') throw new NotHttp('a chunk is longer than it said');
      this.#place = 'size';
    } else this.#takeTrailer(line);
  }

  #takeSize(line: string): void {
    const size = SIZE_LINE.exec(line)?.[1];
    if (size === undefined) throw new NotHttp('a chunk without a size');
    this.#left = Number.parseInt(size, 16);
    this.#place = this.#left === 0 ? 'trailer' : 'data';
  }

  /** Trailers are nobody's here; they only have to end. */
  #takeTrailer(line: string): void {
    this.#trailerBytes += line.length;
    if (line === '') this.#isDone = true;
    else if (!TRAILER_LINE.test(line) || this.#trailerBytes > TRAILER_BYTES_MAX)
      throw new NotHttp('a trailer cannot be read');
  }
}
