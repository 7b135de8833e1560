// Reads and writes the heads of HTTP/1 messages. Reading is strict, so that no other reader of the
// same bytes can understand them differently.

/** Names are in lower case. Repeated headers are joined by commas, where that is allowed. */
export type Headers = Record<string, string | undefined>;

export type RequestHead = { method: string; target: string; minor: 0 | 1; headers: Headers };
export type ResponseHead = { status: number; minor: 0 | 1; headers: Headers };

/** How a body ends: after this many bytes, by chunks, or (only responses) with the connection. */
export type Framing = number | 'chunked' | 'close';

/** Input that is not HTTP, or that two readers could understand differently. */
export class NotHttpError extends Error {}

const METHODS = 'GET|HEAD|POST|PUT|DELETE|CONNECT|OPTIONS|TRACE|PATCH|QUERY';
const REQUEST_LINE = new RegExp(`(${METHODS}) ([\\x21-\\x7e]+) HTTP/1\\.([01])\\r\\n`, 'y');
const STATUS_LINE = /HTTP\/1\.([01]) ([1-5]\d\d)(?: [\t\x20-\x7e\x80-\xff]*)?\r\n/y;
const HEADER = /([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([\t\x20-\x7e\x80-\xff]*)\r\n/y;
const HEADERS_MAX = 200;
const SPACE = 32;
const TAB = 9;

/** Repeating one of these would make one reader use the first and another the second. */
const SINGLE_HEADERS = new Set([
  'host',
  'content-length',
  'transfer-encoding',
  'content-type',
  'authorization',
  'x-api-key',
  'expect',
  'origin',
  'idempotency-key',
  'traceparent',
  'x-request-id',
  'agentd-person',
  'agentd-deadline-ms',
]);

/** Caches names in lower case: most need no new string. */
const lowered = new Map<string, string>();
const LOWERED_MAX = 512;

function toLowerCase(name: string): string {
  const found = lowered.get(name);
  if (found !== undefined) return found;
  const result = name.toLowerCase();
  if (lowered.size < LOWERED_MAX) lowered.set(name, result);
  return result;
}

/** Removes trailing spaces. Readers disagree about tabs, as in `chunked\t`: refused. */
function trimEnd(value: string): string {
  let end = value.length;
  while (end > 0 && value.charCodeAt(end - 1) === SPACE) end--;
  if (value.charCodeAt(end - 1) === TAB) throw new NotHttpError('a header ends with a tab');
  return end === value.length ? value : value.slice(0, end);
}

/** `text` is latin1 and ends with the empty line. */
function readHeaders(text: string, from: number): Headers {
  const headers: Headers = Object.create(null) as Headers;
  const end = text.length - 2;
  let count = 0;
  HEADER.lastIndex = from;
  while (HEADER.lastIndex < end) {
    const found = HEADER.exec(text);
    if (found === null || ++count > HEADERS_MAX) throw new NotHttpError('a header cannot be read');
    const name = toLowerCase(found[1]!);
    const value = trimEnd(found[2]!);
    const before = headers[name];
    if (before === undefined) headers[name] = value;
    else if (SINGLE_HEADERS.has(name)) throw new NotHttpError(`${name} is repeated`);
    else headers[name] = `${before}, ${value}`;
  }
  if (HEADER.lastIndex !== end) throw new NotHttpError('a header cannot be read');
  return headers;
}

export function readRequestHead(text: string): RequestHead {
  REQUEST_LINE.lastIndex = 0;
  const line = REQUEST_LINE.exec(text);
  if (line === null) throw new NotHttpError('not the first line of a request');
  const headers = readHeaders(text, REQUEST_LINE.lastIndex);
  return { method: line[1]!, target: line[2]!, minor: line[3] === '1' ? 1 : 0, headers };
}

export function readResponseHead(text: string): ResponseHead {
  STATUS_LINE.lastIndex = 0;
  const line = STATUS_LINE.exec(text);
  if (line === null) throw new NotHttpError('not the first line of a response');
  const headers = readHeaders(text, STATUS_LINE.lastIndex);
  return { status: Number(line[2]), minor: line[1] === '1' ? 1 : 0, headers };
}

/** Returns undefined if the head does not announce a body. */
function readFraming({ headers, minor }: { headers: Headers; minor: 0 | 1 }): Framing | undefined {
  const length = headers['content-length'];
  const encoding = headers['transfer-encoding'];
  if (encoding !== undefined) {
    if (length !== undefined) throw new NotHttpError('both a length and an encoding');
    if (minor === 0 || encoding.toLowerCase() !== 'chunked')
      throw new NotHttpError('an unknown encoding');
    return 'chunked';
  }
  if (length === undefined) return undefined;
  if (!/^\d{1,15}$/.test(length)) throw new NotHttpError('a length that is not a number');
  return Number(length);
}

export function readRequestFraming(head: RequestHead): number | 'chunked' {
  return (readFraming(head) as number | 'chunked' | undefined) ?? 0;
}

/** A response to HEAD, and some statuses, never have a body, whatever the head announces. */
export function readResponseFraming(head: ResponseHead, method: string): Framing {
  const framing = readFraming(head);
  if (method === 'HEAD' || head.status < 200 || head.status === 204 || head.status === 304)
    return 0;
  return framing ?? 'close';
}

const hasClose = (value: string | undefined): boolean =>
  value !== undefined && value !== 'keep-alive' && /(^|,)\s*close\s*(,|$)/i.test(value);

/** True if another message can follow on this connection. */
export function isKeptAlive({ headers, minor }: { headers: Headers; minor: 0 | 1 }): boolean {
  return minor === 1 && !hasClose(headers.connection) && !hasClose(headers['proxy-connection']);
}

const NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
/** Everything but printable ASCII and tabs: it could end the line. */
const UNSENDABLE = /[^\t\x20-\x7e]/;

export function isSendable(value: string): boolean {
  return !UNSENDABLE.test(value);
}

export type SentHeaders = Record<string, string | number | undefined>;

/** Returns header lines. Throws if a name or value could start a line of its own. */
export function writeHeaders(headers: SentHeaders): string {
  let text = '';
  for (const name in headers) {
    const value = headers[name];
    if (value === undefined) continue;
    if (typeof value === 'string' && UNSENDABLE.test(value))
      throw new NotHttpError(`the header ${name} has characters that cannot be sent`);
    if (!lowered.has(name) && !NAME.test(name))
      throw new NotHttpError(`${name} is not a header name`);
    text += `${name}: ${value}\r\n`;
  }
  return text;
}

const UNSENDABLE_TARGET = /[^\x21-\x7e]/;

export function assertTarget(target: string): void {
  if (UNSENDABLE_TARGET.test(target)) throw new NotHttpError('the path cannot be sent');
}
