// Generates HTTP/1 messages from a seed: mostly well-formed ones, with one or a few of the
// deviations that parsers are known to read differently.
import type { Seeded } from '../support/seeded.ts';

/** One choice of `odd` in this many. */
const ODD_ONE_IN = 40;
const oddly = <T>(rnd: Seeded, good: readonly T[], odd: readonly T[]): T =>
  rnd.pick(rnd.int(ODD_ONE_IN) === 0 ? odd : good);

/** Values are separated by `¦`, which is in none of them. */
const list = (...rows: string[]): string[] => rows.flatMap((row) => row.split('¦'));

const BYTES = [...'\r\n\0\t :;,="\x0b\x0c\x7f\x80\xff01aAfF/'];
const LINE_END = ['\r\n'];
const ODD_LINE_ENDS = ['\n', '\r', '\r\r\n', '\n\r', '', ' \r\n', '\t\r\n', '\0\r\n'];
const lineEnd = (rnd: Seeded): string => oddly(rnd, LINE_END, ODD_LINE_ENDS);

const METHODS = ['GET', 'GET', 'POST', 'POST', 'PUT', 'DELETE', 'HEAD', 'OPTIONS', 'PATCH'];
const ODD_METHODS = list(
  'get¦Get¦FOO¦PRI¦SOURCE¦CONNECT¦TRACE¦QUERY¦M-SEARCH¦PROPFIND¦¦ GET¦GET ¦G\x00T¦GE\tT¦G(T',
  'GETX¦PURGE¦DESCRIBE¦ANNOUNCE¦\r\nGET',
);
const TARGETS = ['/', '/a', '/a?b=c&d', '/a/../b', '/%41%00?%zz', '//x', "/a;b=!$'()*+,@:~_-."];
const ODD_TARGETS = list(
  '*¦http://a/b¦a:80¦¦/a b¦/a\tb¦/\x80¦/\xff¦/\x7f¦/\x00¦/#a¦#¦/a#b#c¦/"<>[]\\^`{|}¦?',
  '/?a?b#c?d¦https://[::1]/¦/a\x0cb¦/a\rb¦\\a',
);
const VERSIONS = ['HTTP/1.1', 'HTTP/1.1', 'HTTP/1.1', 'HTTP/1.1', 'HTTP/1.0'];
const ODD_VERSIONS = list(
  'HTTP/0.9¦HTTP/2.0¦HTTP/1.2¦http/1.1¦HTTP/1.1 ¦HTTP/01.1¦HTTP/1.10¦¦HTTP/1¦HTTP /1.1',
  'HTTP/1,1¦ICE/1.0¦RTSP/1.0¦HTTP/1.1\t¦ HTTP/1.1¦HTTP/\x00',
);
const STATUSES = list('200 OK¦200¦200 ¦404 Not Found¦500 x¦201 Created¦429 Slow \xff');
const BARE_STATUSES = ['204 No Content', '304 Not Modified', '100 Continue', '103 Hints', '205 x'];
const ODD_STATUSES = list(
  '101 Switching¦101 x\r\nupgrade: h2c\r\nconnection: upgrade¦20¦2000 OK¦20x OK¦000 x¦099 x',
  '600 x¦999 x¦-200 x¦200\tOK¦200OK¦  200 OK¦200  OK¦200 O\x00K¦200 O\tK¦200 O\x7fK¦2 00¦',
);

const CONNECTIONS = ['close', 'keep-alive', 'Close', 'keep-alive, close', 'close, x', 'upgrade'];
const ODD_CONNECTIONS = list(
  'close\t¦\tclose¦closed¦xclose¦x, close ,y¦,close¦close,¦close;x¦¦clo se¦close x¦x close',
  '"close"¦close\x0b¦x,close¦keep-alive,\tclose¦,,¦upgrade, close¦close, upgrade',
  'keep-alive,upgrade¦keep-alivex¦close keep-alive',
);
const ODD_LENGTHS = list(
  '¦+5¦-5¦0x5¦5,5¦5, 5¦5 5¦5\t¦\t5¦05¦0000000000000005¦5.0¦5;¦5\x0b¦1e1¦18446744073709551616',
  "9007199254740993¦99999999999999999999999¦5\x00¦'5'¦\x805¦0¦00¦5_0¦\xb2",
);
const ODD_ENCODINGS = list(
  'Chunked¦CHUNKED¦chunked\t¦\tchunked¦ chunked ¦identity¦gzip¦xchunked¦chunkedx¦gzip, chunked',
  'chunked, gzip¦chunked, chunked¦chunked;q=1¦"chunked"¦chunked,¦,chunked¦chun\tked',
  'chunked\x0b¦chunke¦¦,¦chunked chunked¦x¦identity, chunked¦chunked, identity¦chunked\x00',
  'chunked \t¦chunk ed¦gzip,chunked',
);
const NAMES = list('x-a¦X-A¦accept¦user-agent¦cookie¦x-b¦date¦etag¦x_c¦__proto__');
const ODD_NAMES = list(
  '¦x y¦x(¦ x¦\tx¦x\x80¦x\x00¦x\x7f¦x/y¦"x"¦x{¦x ¦x\t¦x@y¦content-length ¦transfer-encoding\t',
  ' content-length¦content_length¦content-lengt¦content-lengthx¦transfer-encodin¦connectio',
  'connectionx¦proxy-connection¦\x0bx',
);
const VALUES = ['1', 'a b', '', 'a,b;c="d"', 'text/html; q=0.5, */*', 'caf\xe9', 'x'.repeat(300)];
const ODD_VALUES = list(
  'a\x00b¦a\rb¦a\nb¦a\x7fb¦a\x0bb¦a\x01¦\t¦ \t ¦a \t¦\x80\xff¦a\r\n b¦a\r\n\tb¦\r\n b¦a\r¦a\\',
  'a\x1f¦\x08',
);
const SEPARATORS = [': ', ': ', ':', ':  ', ':\t', ': \t '];
const ODD_SEPARATORS = [' : ', '\t:', '', ' ', ':: ', ':\x0b', ':\r\n ', ' :', '=', ':\0', ':\n'];

function headerLine(rnd: Seeded, name: string, value: string): string {
  const cased = rnd.chance(0.2) ? name.toUpperCase() : name;
  return `${cased}${oddly(rnd, SEPARATORS, ODD_SEPARATORS)}${value}${lineEnd(rnd)}`;
}

function ordinaryHeaders(rnd: Seeded): string[] {
  return Array.from({ length: rnd.int(4) }, () =>
    headerLine(rnd, oddly(rnd, NAMES, ODD_NAMES), oddly(rnd, VALUES, ODD_VALUES)),
  );
}

const EXTENSIONS = ['', '', '', '', ';a', ';a=b', ';a=b;c=d'];
const ODD_EXTENSIONS = list(
  ';¦ ;a¦; a¦;a =b¦;a= b¦;=¦;a=¦;a="q"¦;a="q;\\""¦;a="¦;\x80¦ ¦\t¦;a=\x00¦;a\x7f¦;a=b\x80¦;a b',
  ';;¦;a;¦;a=b;¦;a="q"x¦;(¦;a=(¦x¦;a=b=c¦; ¦;a="\n"¦;a="\r\n"¦;a\t¦;a=b ',
  `;${'a'.repeat(120)}`,
);
const ODD_SIZES = list(
  '¦-1¦+1¦0x1¦g¦ 1¦1 0¦1_0¦1.¦\x00¦ffffffffffffffff¦\t1¦1\x0b¦10000000000000000¦100000001¦1,',
  '01x¦0000000000000000001',
);
const TRAILERS = ['', '', '', 'x: y\r\n', 'X-A: b\r\nc: d\r\n'];
const ODD_TRAILERS = list(
  'content-length: 5\r\n¦transfer-encoding: chunked\r\n¦connection: close\r\n¦x\r\n¦x : y\r\n',
  ' x: y\r\n¦x: y\n¦x: y\r¦x: a\r\n b\r\n¦: y\r\n¦x: \x00\r\n¦\n',
  'upgrade: x\r\nconnection: upgrade\r\n¦content-length: x\r\n¦host: a\r\n¦x:\r\n¦\r',
  'transfer-encoding: gzip\r\n¦content-length:\r\n¦x: \x7f\r\n¦connection: x\x0b\r\n',
);

function chunkedBody(rnd: Seeded, text: string): string {
  let made = '';
  for (let at = 0; at < text.length; ) {
    const data = text.slice(at, at + 1 + rnd.int(text.length - at));
    at += data.length;
    const hex = data.length.toString(16).padStart(rnd.pick([0, 0, 0, 3]), '0');
    const size = oddly(rnd, [hex, hex.toUpperCase()], ODD_SIZES);
    made += `${size}${oddly(rnd, EXTENSIONS, ODD_EXTENSIONS)}${lineEnd(rnd)}${data}${lineEnd(rnd)}`;
  }
  const last = oddly(rnd, ['0', '0', '000', '0;a=b'], ['', '00x', '0 ', '-0', '0;', '0x0', '0\0']);
  return `${made}${last}${lineEnd(rnd)}${oddly(rnd, TRAILERS, ODD_TRAILERS)}${lineEnd(rnd)}`;
}

const BODIES = [
  '',
  'hello',
  'x',
  'GET /in HTTP/1.1\r\n\r\n',
  'HTTP/1.1 200 OK\r\n\r\n',
  'a'.repeat(40),
];
const CONTRADICTION_CHANCE = 0.02;

/** Headers and body as they belong together, now and then with one that contradicts. */
function framed(rnd: Seeded, isBare: boolean): string {
  const text = rnd.pick(BODIES);
  const lines = ordinaryHeaders(rnd);
  const insert = (line: string): void => void lines.splice(rnd.int(lines.length + 1), 0, line);
  const addLength = () =>
    insert(headerLine(rnd, 'content-length', oddly(rnd, [`${text.length}`], ODD_LENGTHS)));
  const addEncoding = () =>
    insert(headerLine(rnd, 'transfer-encoding', oddly(rnd, ['chunked'], ODD_ENCODINGS)));
  const kind = rnd.int(isBare ? 8 : 3);
  if (kind === 0) addLength();
  if (kind === 1) addEncoding();
  if (rnd.chance(CONTRADICTION_CHANCE)) addLength();
  if (rnd.chance(CONTRADICTION_CHANCE)) addEncoding();
  if (rnd.chance(0.15))
    insert(
      headerLine(
        rnd,
        oddly(rnd, ['connection'], ['proxy-connection']),
        oddly(rnd, CONNECTIONS, ODD_CONNECTIONS),
      ),
    );
  if (rnd.chance(0.03)) insert(headerLine(rnd, 'upgrade', 'websocket'));
  if (rnd.chance(0.03))
    insert(headerLine(rnd, 'expect', oddly(rnd, ['100-continue'], ['100', 'a', '100-Continue '])));
  if (rnd.chance(0.7)) insert(headerLine(rnd, 'host', 'a'));
  const body = kind === 1 ? chunkedBody(rnd, text) : kind === 0 ? text : '';
  return `${lines.join('')}${lineEnd(rnd)}${body}`;
}

function changedBytes(rnd: Seeded, text: string): string {
  let result = text;
  for (let left = rnd.chance(0.15) ? 1 + rnd.int(3) : 0; left > 0; left--) {
    const at = rnd.int(result.length + 1);
    const byte = rnd.chance(0.8) ? rnd.pick(BYTES) : String.fromCharCode(rnd.int(256));
    const kind = rnd.int(4);
    const rest = result.slice(kind === 0 ? at : at + 1 + (kind === 3 ? rnd.int(6) : 0));
    result = `${result.slice(0, at)}${kind === 3 ? '' : byte}${rest}`;
  }
  return result;
}

/** One to three requests on a connection, then one that shows whether the end was found. */
export function requestBytes(rnd: Seeded): Buffer {
  let text = '';
  for (let left = rnd.pick([1, 1, 1, 2, 3]); left > 0; left--) {
    const method = oddly(rnd, METHODS, ODD_METHODS);
    const target = oddly(rnd, TARGETS, ODD_TARGETS);
    const version = oddly(rnd, VERSIONS, ODD_VERSIONS);
    const space = oddly(rnd, [' '], ['  ', '\t', '', ' \t']);
    text += `${method}${space}${target}${space}${version}${lineEnd(rnd)}${framed(rnd, false)}`;
    text += oddly(rnd, ['', '', '', '\r\n'], ['\n', '\r', '\r\n\r\n\r\n', ' ', '\0', '\r\r\n']);
  }
  return Buffer.from(`${changedBytes(rnd, text)}GET /last HTTP/1.1\r\nhost: z\r\n\r\n`, 'latin1');
}

/** Zero to two interim responses, one response, and sometimes bytes after it. */
export function responseBytes(rnd: Seeded): Buffer {
  let text = '';
  for (let left = rnd.pick([0, 0, 0, 0, 1, 2]); left >= 0; left--) {
    const isBare = left > 0 || rnd.chance(0.1);
    const status = oddly(rnd, isBare ? BARE_STATUSES : STATUSES, ODD_STATUSES);
    const space = oddly(rnd, [' '], ['  ', '\t', '']);
    text += `${oddly(rnd, VERSIONS, ODD_VERSIONS)}${space}${status}${lineEnd(rnd)}`;
    text += framed(rnd, isBare);
  }
  const extra = rnd.chance(0.1)
    ? rnd.pick(['\r\n', 'x', 'HTTP/1.1 200 OK\r\n\r\n', '\n', '0'])
    : '';
  const whole = changedBytes(rnd, `${text}${extra}`);
  return Buffer.from(rnd.chance(0.05) ? whole.slice(0, rnd.int(whole.length)) : whole, 'latin1');
}

/** The same bytes in up to six pieces. */
export function cutUp(rnd: Seeded, bytes: Buffer): Buffer[] {
  const at = Array.from({ length: rnd.pick([0, 0, 1, 2, 5]) }, () => rnd.int(bytes.length + 1));
  const ends = [...at.sort((a, b) => a - b), bytes.length];
  const pieces = ends.map((end, i) => Buffer.from(bytes.subarray(ends[i - 1] ?? 0, end)));
  return pieces.filter(({ length }) => length > 0);
}
