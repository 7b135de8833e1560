// Where the body of an HTTP/1 message ends, and what is in it: bytes go in as they arrive, the
// body's own come out as slices of them.
import { type Framing, NotHttp } from './head.ts';

const CHUNK_LINE_BYTES_MAX = 256;
const TRAILER_BYTES_MAX = 16_384;
const SIZE_LINE =
  /^([0-9a-fA-F]{1,8})(?:;[!#$%&'*+.^_`|~0-9A-Za-z-]+(?:=[!#$%&'*+.^_`|~0-9A-Za-z-]+)?)*$/;
const TRAILER_LINE = /^([!#$%&'*+.^_`|~0-9A-Za-z-]+):[\t\x20-\x7e\x80-\xff]*$/;
/** Headers that say how a message ends: some readers obey them in a trailer too. */
const FRAMING = /^(?:content-length|transfer-encoding|connection|proxy-connection|upgrade)$/i;
const CR = 13;
const LF = 10;

type ParserState = 'size' | 'data' | 'after-data' | 'trailer';

export class BodyReader {
  #framing: Framing;
  /** Bytes left: of the body, or of the chunk that is being read. */
  #left: number;
  #state: ParserState = 'size';
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
   * Passes the body's bytes to `take` and returns how many of `bytes` belong to this message; those
   * may be overwritten. Throws if they are not what the head announced.
   */
  read(bytes: Buffer, take: (chunk: Buffer) => void): number {
    if (this.#isDone) return 0;
    if (this.#framing === 'close') {
      if (bytes.length > 0) take(bytes);
      return bytes.length;
    }
    if (this.#framing === 'chunked') return this.#readChunks(bytes, take);
    const size = Math.min(this.#left, bytes.length);
    this.#left -= size;
    this.#isDone = this.#left === 0;
    if (size > 0) take(size === bytes.length ? bytes : bytes.subarray(0, size));
    return size;
  }

  /** The connection ended. True when that is an end of this body. */
  end(): boolean {
    if (this.#framing === 'close') this.#isDone = true;
    return this.#isDone;
  }

  /** Joins the data of all chunks in place: tiny chunks must not cost a slice each. */
  #readChunks(bytes: Buffer, take: (chunk: Buffer) => void): number {
    let at = 0;
    let dataFrom = 0;
    let dataTo = 0;
    while (at < bytes.length && !this.#isDone) {
      if (this.#state === 'data') {
        const size = Math.min(this.#left, bytes.length - at);
        if (dataTo === 0) dataFrom = dataTo = at;
        else bytes.copyWithin(dataTo, at, at + size);
        dataTo += size;
        at += size;
        this.#left -= size;
        if (this.#left === 0) this.#state = 'after-data';
        continue;
      }
      const end = bytes.indexOf(LF, at);
      this.#keepLine(bytes, at, end < 0 ? bytes.length : end);
      at = end < 0 ? bytes.length : end + 1;
      if (end >= 0) this.#takeLine();
    }
    if (dataTo > dataFrom) take(bytes.subarray(dataFrom, dataTo));
    return at;
  }

  #keepLine(bytes: Buffer, from: number, to: number): void {
    const most = this.#state === 'trailer' ? TRAILER_BYTES_MAX : CHUNK_LINE_BYTES_MAX;
    if (this.#line.length + to - from > most) throw new NotHttp('a line in a body does not end');
    this.#line += bytes.toString('latin1', from, to);
  }

  #takeLine(): void {
    const text = this.#line;
    this.#line = '';
    if (text.charCodeAt(text.length - 1) !== CR) throw new NotHttp('a line ends without CR');
    const line = text.slice(0, -1);
    if (this.#state === 'size') this.#takeSize(line);
    else if (this.#state === 'after-data') {
      if (line !== '') throw new NotHttp('a chunk is longer than it said');
      this.#state = 'size';
    } else this.#takeTrailer(line);
  }

  #takeSize(line: string): void {
    const size = SIZE_LINE.exec(line)?.[1];
    if (size === undefined) throw new NotHttp('a chunk without a size');
    this.#left = Number.parseInt(size, 16);
    this.#state = this.#left === 0 ? 'trailer' : 'data';
  }

  /** Trailers are nobody's here; they only have to end. */
  #takeTrailer(line: string): void {
    this.#trailerBytes += line.length;
    if (line === '') {
      this.#isDone = true;
      return;
    }
    const name = TRAILER_LINE.exec(line)?.[1];
    if (name === undefined || FRAMING.test(name) || this.#trailerBytes > TRAILER_BYTES_MAX)
      throw new NotHttp('a trailer cannot be read');
  }
}
