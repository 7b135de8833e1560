// Reads the body of an HTTP/1 message from bytes as they arrive, and finds its end.
import { type Framing, NotHttpError } from './head.ts';

const CHUNK_LINE_BYTES_MAX = 256;
const TRAILER_BYTES_MAX = 16_384;
const SIZE_LINE =
  /^([0-9a-fA-F]{1,8})(?:;[!#$%&'*+.^_`|~0-9A-Za-z-]+(?:=[!#$%&'*+.^_`|~0-9A-Za-z-]+)?)*$/;
const TRAILER_LINE = /^([!#$%&'*+.^_`|~0-9A-Za-z-]+):[\t\x20-\x7e\x80-\xff]*$/;
/** Headers that define how a message ends: some readers obey them in a trailer too. */
const FRAMING = /^(?:content-length|transfer-encoding|connection|proxy-connection|upgrade)$/i;
const CR = 13;
const LF = 10;

type ParserState = 'size' | 'data' | 'after-data' | 'trailer';

export class BodyReader {
  #framing: Framing;
  /** Remaining bytes of the body, or of the current chunk. */
  #remaining: number;
  #state: ParserState = 'size';
  /** The start of an incomplete line. */
  #line = '';
  #trailerBytes = 0;
  #isDone: boolean;

  constructor(framing: Framing) {
    this.#framing = framing;
    this.#remaining = typeof framing === 'number' ? framing : 0;
    this.#isDone = framing === 0;
  }

  get isDone(): boolean {
    return this.#isDone;
  }

  /**
   * Passes the body's bytes to `onData` and returns how many of `bytes` belong to this message;
   * those may be overwritten. Throws if they are not what the head announced.
   */
  read(bytes: Buffer, onData: (chunk: Buffer) => void): number {
    if (this.#isDone) return 0;
    if (this.#framing === 'close') {
      if (bytes.length > 0) onData(bytes);
      return bytes.length;
    }
    if (this.#framing === 'chunked') return this.#readChunks(bytes, onData);
    const size = Math.min(this.#remaining, bytes.length);
    this.#remaining -= size;
    this.#isDone = this.#remaining === 0;
    if (size > 0) onData(size === bytes.length ? bytes : bytes.subarray(0, size));
    return size;
  }

  /** The connection ended. True if that completes the body. */
  end(): boolean {
    if (this.#framing === 'close') this.#isDone = true;
    return this.#isDone;
  }

  /** Joins the data of all chunks in place: tiny chunks must not cost a slice each. */
  #readChunks(bytes: Buffer, onData: (chunk: Buffer) => void): number {
    let at = 0;
    let dataFrom = 0;
    let dataTo = 0;
    while (at < bytes.length && !this.#isDone) {
      if (this.#state === 'data') {
        const size = Math.min(this.#remaining, bytes.length - at);
        if (dataTo === 0) dataFrom = dataTo = at;
        else bytes.copyWithin(dataTo, at, at + size);
        dataTo += size;
        at += size;
        this.#remaining -= size;
        if (this.#remaining === 0) this.#state = 'after-data';
        continue;
      }
      const end = bytes.indexOf(LF, at);
      this.#addToLine(bytes, at, end < 0 ? bytes.length : end);
      at = end < 0 ? bytes.length : end + 1;
      if (end >= 0) this.#endLine();
    }
    if (dataTo > dataFrom) onData(bytes.subarray(dataFrom, dataTo));
    return at;
  }

  #addToLine(bytes: Buffer, from: number, to: number): void {
    const max = this.#state === 'trailer' ? TRAILER_BYTES_MAX : CHUNK_LINE_BYTES_MAX;
    if (this.#line.length + to - from > max)
      throw new NotHttpError('a line in a body does not end');
    this.#line += bytes.toString('latin1', from, to);
  }

  #endLine(): void {
    const text = this.#line;
    this.#line = '';
    if (text.charCodeAt(text.length - 1) !== CR) throw new NotHttpError('a line ends without CR');
    const line = text.slice(0, -1);
    if (this.#state === 'size') this.#readSize(line);
    else if (this.#state === 'after-data') {
      if (line !== '') throw new NotHttpError('a chunk is longer than its size');
      this.#state = 'size';
    } else this.#readTrailer(line);
  }

  #readSize(line: string): void {
    const size = SIZE_LINE.exec(line)?.[1];
    if (size === undefined) throw new NotHttpError('a chunk without a size');
    this.#remaining = Number.parseInt(size, 16);
    this.#state = this.#remaining === 0 ? 'trailer' : 'data';
  }

  /** Trailers are checked and discarded. */
  #readTrailer(line: string): void {
    this.#trailerBytes += line.length;
    if (line === '') {
      this.#isDone = true;
      return;
    }
    const name = TRAILER_LINE.exec(line)?.[1];
    if (name === undefined || FRAMING.test(name) || this.#trailerBytes > TRAILER_BYTES_MAX)
      throw new NotHttpError('a trailer cannot be read');
  }
}
