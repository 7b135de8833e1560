// Heads and bodies are read strictly, and the same way wherever the bytes are split.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { BodyReader } from './body.ts';
import {
  isKeptAlive,
  NotHttpError,
  readRequestFraming,
  readRequestHead,
  readResponseFraming,
  readResponseHead,
  writeHeaders,
} from './head.ts';

const request = (lines: string) => readRequestHead(`POST /a HTTP/1.1\r\n${lines}\r\n`);
const answer = (lines: string, status = 200) =>
  readResponseHead(`HTTP/1.1 ${status} OK\r\n${lines}\r\n`);

describe('heads', () => {
  it('reads names in any case, values without the spaces around them', () => {
    const { method, target, headers } = request('Host:\t a  \r\nX-Odd:\r\nx-odd: b\r\n');
    assert.deepEqual([method, target], ['POST', '/a']);
    assert.deepEqual({ ...headers }, { host: 'a', 'x-odd': ', b' });
    assert.equal(Object.getPrototypeOf(headers), null, 'a header may be called __proto__');
  });

  const refused: [string, string][] = [
    ['a folded line', 'a: b\r\n c\r\n'],
    ['a space before the colon', 'a : b\r\n'],
    ['no name', ': b\r\n'],
    ['no colon', 'abc\r\n'],
    ['a lone LF', 'a: b\nc: d\r\n'],
    ['a lone CR', 'a: b\rc: d\r\n'],
    ['a NUL', 'a: b\0\r\n'],
    ['a tab after a value', 'transfer-encoding: chunked\t\r\n'],
    ['two lengths', 'content-length: 1\r\ncontent-length: 1\r\n'],
    ['two hosts', 'host: a\r\nHost: b\r\n'],
    ['two keys', 'authorization: a\r\nauthorization: b\r\n'],
    ['two encodings', 'transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n'],
  ];
  for (const [what, lines] of refused)
    it(`refuses ${what}`, () => assert.throws(() => request(lines), NotHttpError));

  it('refuses invalid first lines', () => {
    for (const line of [
      'GET  / HTTP/1.1',
      'GET / HTTP/1.2',
      'GET /\x7f HTTP/1.1',
      'G(T / HTTP/1.1',
      'get / HTTP/1.1',
      'BREW / HTTP/1.1',
    ])
      assert.throws(() => readRequestHead(`${line}\r\n\r\n`), NotHttpError, line);
    for (const line of ['HTTP/2 200', 'HTTP/1.1 20', 'HTTP/1.1 600 x', 'ICY 200 OK'])
      assert.throws(() => readResponseHead(`${line}\r\n\r\n`), NotHttpError, line);
  });

  it('knows how a body ends, and refuses ambiguous framing', () => {
    assert.equal(readRequestFraming(request('')), 0);
    assert.equal(readRequestFraming(request('content-length: 12\r\n')), 12);
    assert.equal(readRequestFraming(request('transfer-encoding: Chunked\r\n')), 'chunked');
    for (const lines of [
      'content-length: 1\r\ntransfer-encoding: chunked\r\n',
      'transfer-encoding: gzip, chunked\r\n',
      'transfer-encoding: identity\r\n',
      'content-length: 0x1\r\n',
      'content-length: +1\r\n',
      'content-length: 1, 1\r\n',
      'content-length:\r\n',
    ])
      assert.throws(() => readRequestFraming(request(lines)), NotHttpError, lines);
    const old = readRequestHead('POST / HTTP/1.0\r\ntransfer-encoding: chunked\r\n\r\n');
    assert.throws(() => readRequestFraming(old), NotHttpError);
    assert.equal(readResponseFraming(answer(''), 'GET'), 'close');
    assert.equal(readResponseFraming(answer('content-length: 5\r\n'), 'HEAD'), 0);
    assert.equal(readResponseFraming(answer('content-length: 5\r\n', 304), 'GET'), 0);
  });

  it('knows when a connection ends', () => {
    assert.equal(isKeptAlive(request('')), true);
    assert.equal(isKeptAlive(request('connection: keep-alive, Close\r\n')), false);
    assert.equal(isKeptAlive(request('proxy-connection: close\r\n')), false);
    assert.equal(isKeptAlive(request('connection: not-close\r\n')), true);
    assert.equal(isKeptAlive(readRequestHead('GET / HTTP/1.0\r\n\r\n')), false);
  });

  it('writes no header that could inject another', () => {
    assert.equal(writeHeaders({ a: 'b', c: 1, d: undefined }), 'a: b\r\nc: 1\r\n');
    for (const value of ['a\r\nb: c', 'a\n', 'é', '\0'])
      assert.throws(() => writeHeaders({ a: value }), NotHttpError);
    assert.throws(() => writeHeaders({ 'a: b\r\nc': 'd' }), NotHttpError);
  });

  it('an accepted head contains no line end, NUL or invalid name', () => {
    const odd = fc.constantFrom('\r\n', '\n', '\r', ' ', '\t', ':', ',', '\0', 'a', 'host', '\xff');
    fc.assert(
      fc.property(fc.array(odd, { maxLength: 12 }), (parts) => {
        try {
          const { headers } = request(parts.join(''));
          for (const [name, value] of Object.entries(headers)) {
            assert.match(name, /^[!-9;-~]+$/);
            assert.match(value!, /^[^\r\n\0]*$/);
          }
        } catch (error) {
          assert.ok(error instanceof NotHttpError, String(error));
        }
      }),
    );
  });
});

describe('bodies', () => {
  const readAll = (framing: number | 'chunked', pieces: Buffer[]) => {
    const reader = new BodyReader(framing);
    let body = '';
    let used = 0;
    for (const piece of pieces)
      used += reader.read(piece, (chunk) => {
        body += chunk.toString('latin1');
      });
    return { body, used, isDone: reader.isDone };
  };
  const cut = (bytes: Buffer, at: number[]): Buffer[] => {
    const places = [
      0,
      ...at.map((n) => n % (bytes.length + 1)).sort((a, b) => a - b),
      bytes.length,
    ];
    return places.slice(1).map((end, i) => bytes.subarray(places[i], end));
  };

  it('are the same however they are split, and end where they end', () => {
    const parts = fc.array(fc.string({ unit: 'binary-ascii', minLength: 1 }), { maxLength: 6 });
    fc.assert(
      fc.property(parts, fc.array(fc.nat(500), { maxLength: 20 }), (texts, at) => {
        const chunks = texts.map((text) => `${text.length.toString(16)};x=y\r\n${text}\r\n`);
        const message = `${chunks.join('')}0\r\ntrailer: x\r\n\r\n`;
        const bytes = Buffer.from(`${message}GET / next`, 'latin1');
        const read = readAll('chunked', cut(bytes, at));
        assert.deepEqual(read, { body: texts.join(''), used: message.length, isDone: true });
        const sized = readAll(texts.join('').length, cut(Buffer.from(`${texts.join('')}GET`), at));
        assert.equal(sized.body, texts.join(''));
      }),
    );
  });

  it('that do not match their framing are refused', () => {
    for (const text of [
      'x\r\n',
      '-1\r\n',
      '0x1\r\na\r\n',
      '1\na\r\n',
      '1\r\nab\r\n0\r\n\r\n',
      '1\r\na\n0\r\n\r\n',
      '123456789\r\n',
      ' 1\r\na\r\n',
      '1 \r\na\r\n',
      '1;\r\na\r\n',
      '1;a="b"\r\na\r\n',
      '0\r\nno trailer\r\n\r\n',
      '0\r\nContent-Length: 1\r\n\r\n',
      '0\r\nconnection: close\r\n\r\n',
      `1${';'.repeat(300)}`,
      `0\r\n${'a: b\r\n'.repeat(5_000)}`,
    ])
      assert.throws(() => readAll('chunked', [Buffer.from(text)]), NotHttpError, text.slice(0, 20));
  });
});
