// Raw HTTP: sends the bytes of a test as they are and parses responses strictly, so that a
// malformed response is noticed. Knows nothing of routes.
import net from 'node:net';

export type RawResponse = { status: number; headers: Record<string, string>; body: Buffer };
export type RawTarget = { path: string } | { host: string; port: number };

export type ResponseReader = {
  responses: RawResponse[];
  /** Describes the defect in the bytes, if any. */
  broken(): string | undefined;
  push(chunk: Buffer): void;
  /** The connection has ended: a body without a length ends, a partial response is broken. */
  end(): void;
};

const STATUS_LINE = /^HTTP\/1\.1 ([1-5]\d\d) [\x20-\x7e]*$/;
const HEADER_LINE = /^([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([\x20-\x7e\t\x80-\xff]*)$/;
const EMPTY = Buffer.alloc(0);

type Head = { status: number; headers: Record<string, string>; size: number };

function readHead(bytes: Buffer): Head | undefined | string {
  const end = bytes.indexOf('\r\n\r\n');
  if (end < 0) return bytes.length > 65_536 ? 'the head of an answer does not end' : undefined;
  const [first, ...lines] = bytes.subarray(0, end).toString('latin1').split('\r\n');
  const status = STATUS_LINE.exec(first!)?.[1];
  if (status === undefined) return `not a status line: ${JSON.stringify(first)}`;
  const headers: Record<string, string> = {};
  for (const line of lines) {
    const [, name, value] = HEADER_LINE.exec(line) ?? [];
    if (name === undefined) return `not a header: ${JSON.stringify(line)}`;
    headers[name.toLowerCase()] = value!;
  }
  return { status: Number(status), headers, size: end + 4 };
}

/** Returns the body and the bytes it took, or undefined if it is incomplete. */
function readChunked(bytes: Buffer): { body: Buffer; size: number } | undefined | string {
  const parts: Buffer[] = [];
  let at = 0;
  for (;;) {
    const end = bytes.indexOf('\r\n', at);
    if (end < 0) return undefined;
    const line = bytes.subarray(at, end).toString('latin1');
    if (!/^[0-9a-f]+$/i.test(line)) return `not a chunk size: ${JSON.stringify(line)}`;
    const size = Number.parseInt(line, 16);
    at = end + 2;
    if (bytes.length < at + size + 2) return undefined;
    if (bytes.toString('latin1', at + size, at + size + 2) !== '\r\n') return 'a chunk runs over';
    if (size === 0) return { body: Buffer.concat(parts), size: at + 2 };
    parts.push(bytes.subarray(at, at + size));
    at += size + 2;
  }
}

/** `isHead(i)`: the i-th request was HEAD, so its response has no body, whatever its headers. */
export function makeResponseReader(
  isHead: (index: number) => boolean = () => false,
): ResponseReader {
  let waiting: Buffer = EMPTY;
  let broken: string | undefined;
  const responses: RawResponse[] = [];

  const take = (head: Head, body: Buffer, size: number): void => {
    waiting = waiting.subarray(head.size + size);
    if (head.status >= 200) responses.push({ status: head.status, headers: head.headers, body });
  };

  const readOne = (isLast: boolean): boolean => {
    const head = readHead(waiting);
    if (typeof head === 'string') broken = head;
    if (head === undefined || typeof head === 'string') return false;
    const rest = waiting.subarray(head.size);
    const length = head.headers['content-length'];
    const hasNone = head.status < 200 || head.status === 204 || isHead(responses.length);
    if (hasNone) take(head, EMPTY, 0);
    else if (head.headers['transfer-encoding'] === 'chunked') {
      const chunked = readChunked(rest);
      if (typeof chunked === 'string') broken = chunked;
      if (chunked === undefined || typeof chunked === 'string') return false;
      take(head, chunked.body, chunked.size);
    } else if (length !== undefined) {
      if (rest.length < Number(length)) return false;
      take(head, Buffer.from(rest.subarray(0, Number(length))), Number(length));
    } else if (isLast) take(head, Buffer.from(rest), rest.length);
    else return false;
    return true;
  };

  return {
    responses,
    broken: () => broken,
    push(chunk) {
      waiting = waiting.length === 0 ? chunk : Buffer.concat([waiting, chunk]);
      while (broken === undefined && waiting.length > 0 && readOne(false));
    },
    end() {
      while (broken === undefined && waiting.length > 0 && readOne(true));
      if (broken === undefined && waiting.length > 0)
        broken = `the connection ended inside an answer: ${waiting.toString('latin1', 0, 200)}`;
    },
  };
}

export type RawExchange = {
  responses: RawResponse[];
  /** The other side closed the connection. */
  closed: boolean;
  broken: string | undefined;
};

export type ExchangeOptions = {
  /** Stops after this many responses. */
  answers?: number;
  /** Stops after this time in any case. */
  waitMs?: number;
  isHead?: (index: number) => boolean;
  /** Half-close after sending. */
  endAfter?: boolean;
};

/** Opens a connection, sends the bytes, and resolves with the responses. */
export function exchange(
  where: RawTarget,
  bytes: Buffer | string | (Buffer | string)[],
  { answers = 1, waitMs = 20_000, isHead, endAfter = false }: ExchangeOptions = {},
): Promise<RawExchange> {
  return new Promise((resolve, reject) => {
    const socket = net.connect(where as net.NetConnectOpts);
    const reader = makeResponseReader(isHead);
    let closed = false;
    const done = (): void => {
      clearTimeout(timer);
      socket.destroy();
      resolve({ responses: reader.responses, closed, broken: reader.broken() });
    };
    const timer = setTimeout(done, waitMs);
    const onClose = (): void => {
      closed = true;
      reader.end();
      done();
    };
    socket.on('data', (chunk: Buffer) => {
      reader.push(chunk);
      if (reader.broken() !== undefined || reader.responses.length >= answers) done();
    });
    socket.on('end', onClose);
    socket.on('close', onClose);
    socket.on('error', (error: NodeJS.ErrnoException) => {
      // The other side may close while we still write: what it sent before counts.
      if (error.code === 'EPIPE' || error.code === 'ECONNRESET') return;
      clearTimeout(timer);
      reject(error);
    });
    for (const part of Array.isArray(bytes) ? bytes : [bytes])
      socket.write(typeof part === 'string' ? Buffer.from(part, 'latin1') : part);
    if (endAfter) socket.end();
  });
}

/** A request as text, with Content-Length. */
export function requestText(
  method: string,
  path: string,
  headers: Record<string, string> = {},
  body: string | Buffer = '',
): Buffer {
  const bytes = typeof body === 'string' ? Buffer.from(body, 'utf8') : body;
  const all: Record<string, string> = {
    host: 'agentd',
    ...(bytes.length === 0 ? {} : { 'content-length': String(bytes.length) }),
    ...headers,
  };
  const head = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`);
  return Buffer.concat([
    Buffer.from(`${method} ${path} HTTP/1.1\r\n${head.join('')}\r\n`, 'latin1'),
    bytes,
  ]);
}

export function jsonOf(response: RawResponse): unknown {
  return JSON.parse(response.body.toString('utf8'));
}

export function errorCode(response: RawResponse): string | undefined {
  return (jsonOf(response) as { error?: { code?: string } }).error?.code;
}
