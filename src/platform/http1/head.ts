// The heads of HTTP/1 messages: read strictly, so that nobody in between can understand one
// differently, and written. What stands in a body is body.ts's.

/** Names in lower case. What comes several times is joined by commas, where that is allowed. */
export type Headers = Record<string, string | undefined>;

export type RequestHead = { method: string; target: string; minor: 0 | 1; headers: Headers };
export type ResponseHead = { status: number; minor: 0 | 1; headers: Headers };

/** How a message's body ends. `close`: only an answer's can, with its connection. */
export type Framing = number | 'chunked' | 'close';

/** Something that is not HTTP, or HTTP that two readers could take for different things. */
export class NotHttp extends Error {}

const METHODS = 'GET|HEAD|POST|PUT|DELETE|CONNECT|OPTIONS|TRACE|PATCH|QUERY';
const REQUEST_LINE = new RegExp(`(${METHODS}) ([\\x21-\\x7e]+) HTTP/1\\.([01])\\r\\n`, 'y');
const STATUS_LINE = /HTTP\/1\.([01]) ([1-5]\d\d)(?: [\t\x20-\x7e\x80-\xff]*)?\r\n/y;
const HEADER = /([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([\t\x20-\x7e\x80-\xff]*)\r\n/y;
const HEADERS_MAX = 200;
const SPACE = 32;
const TAB = 9;

/** Who says one of these twice wants one reader to believe the first and another the second. */
const ONCE = new Set([
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

/** Names as they are usually spelled → in lower case: most need no new string. */
const lowered = new Map<string, string>();
const LOWERED_MAX = 512;

function lower(name: string): string {
  const found = lowered.get(name);
  if (found !== undefined) return found;
  const made = name.toLowerCase();
  if (lowered.size < LOWERED_MAX) lowered.set(name, made);
  return made;
}

/** Removes trailing spaces. Readers disagree about tabs, as in `chunked\t`: refused. */
function withoutEnd(value: string): string {
  let end = value.length;
  while (end > 0 && value.charCodeAt(end - 1) === SPACE) end--;
  if (value.charCodeAt(end - 1) === TAB) throw new NotHttp('a header ends with a tab');
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
    if (found === null || ++count > HEADERS_MAX) throw new NotHttp('a header cannot be read');
    const name = lower(found[1]!);
    const value = withoutEnd(found[2]!);
    const before = headers[name];
    if (before === undefined) headers[name] = value;
    else if (ONCE.has(name)) throw new NotHttp(`${name} is said twice`);
    else headers[name] = `${before}, ${value}`;
  }
  if (HEADER.lastIndex !== end) throw new NotHttp('a header cannot be read');
  return headers;
}

export function readRequestHead(text: string): RequestHead {
  REQUEST_LINE.lastIndex = 0;
  const line = REQUEST_LINE.exec(text);
  if (line === null) throw new NotHttp('not the first line of a request');
  const headers = readHeaders(text, REQUEST_LINE.lastIndex);
  return { method: line[1]!, target: line[2]!, minor: line[3] === '1' ? 1 : 0, headers };
}

export function readResponseHead(text: string): ResponseHead {
  STATUS_LINE.lastIndex = 0;
  const line = STATUS_LINE.exec(text);
  if (line === null) throw new NotHttp('not the first line of an answer');
  const headers = readHeaders(text, STATUS_LINE.lastIndex);
  return { status: Number(line[2]), minor: line[1] === '1' ? 1 : 0, headers };
}

/** How the body ends as its head says, undefined when it does not say. */
function saidFraming({ headers, minor }: { headers: Headers; minor: 0 | 1 }): Framing | undefined {
  const length = headers['content-length'];
  const encoding = headers['transfer-encoding'];
  if (encoding !== undefined) {
    if (length !== undefined) throw new NotHttp('a length and an encoding');
    if (minor === 0 || encoding.toLowerCase() !== 'chunked')
      throw new NotHttp('an encoding that is not known');
    return 'chunked';
  }
  if (length === undefined) return undefined;
  if (!/^\d{1,15}$/.test(length)) throw new NotHttp('a length that is no number');
  return Number(length);
}

export function requestFraming(head: RequestHead): number | 'chunked' {
  return (saidFraming(head) as number | 'chunked' | undefined) ?? 0;
}

/** An answer to HEAD, and some statuses, never have a body, whatever they say. */
export function responseFraming(head: ResponseHead, method: string): Framing {
  const said = saidFraming(head);
  if (method === 'HEAD' || head.status < 200 || head.status === 204 || head.status === 304)
    return 0;
  return said ?? 'close';
}

const saysClose = (value: string | undefined): boolean =>
  value !== undefined && value !== 'keep-alive' && /(^|,)\s*close\s*(,|$)/i.test(value);

/** Whether the connection can carry another message after this one. */
export function staysOpen({ headers, minor }: { headers: Headers; minor: 0 | 1 }): boolean {
  return minor === 1 && !saysClose(headers.connection) && !saysClose(headers['proxy-connection']);
}

const NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
/** Not a printable ASCII character or a tab: nothing that could end the line. */
const UNSENDABLE = /[^\t\x20-\x7e]/;

export function isSendable(value: string): boolean {
  return !UNSENDABLE.test(value);
}

export type SentHeaders = Record<string, string | number | undefined>;

/** As lines. Throws rather than let a value write a line of its own. */
export function writeHeaders(headers: SentHeaders): string {
  let text = '';
  for (const name in headers) {
    const value = headers[name];
    if (value === undefined) continue;
    if (typeof value === 'string' && UNSENDABLE.test(value))
      throw new NotHttp(`the header ${name} has characters that cannot be sent`);
    if (!lowered.has(name) && !NAME.test(name)) throw new NotHttp(`${name} is no header's name`);
    text += `${name}: ${value}\r\n`;
  }
  return text;
}

const UNSENDABLE_TARGET = /[^\x21-\x7e]/;

export function assertTarget(target: string): void {
  if (UNSENDABLE_TARGET.test(target)) throw new NotHttp('the path cannot be sent');
}
