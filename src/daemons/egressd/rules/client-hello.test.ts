// Tests ClientHello messages from a real client, in pieces of any size, truncated, and corrupted.
import assert from 'node:assert/strict';
import { Duplex } from 'node:stream';
import { before, describe, it } from 'node:test';
import tls from 'node:tls';
import fc from 'fast-check';
import { parseClientHello } from './client-hello.ts';

function helloOf(options: tls.ConnectionOptions): Promise<Buffer> {
  return new Promise((resolve) => {
    const wire = new Duplex({
      read() {},
      write(chunk: Buffer, _, done) {
        resolve(chunk);
        done();
      },
    });
    tls.connect({ ...options, socket: wire }).on('error', () => undefined);
  });
}

/** The same message in records of at most `size` bytes. */
function inRecords(hello: Buffer, size: number): Buffer {
  const message = hello.subarray(5);
  const records: Buffer[] = [];
  for (let at = 0; at < message.length; at += size) {
    const part = message.subarray(at, at + size);
    records.push(Buffer.from([0x16, 3, 1, part.length >> 8, part.length & 255]), part);
  }
  return Buffer.concat(records);
}

describe('a hello', () => {
  let hello: Buffer;
  before(async () => {
    hello = await helloOf({ servername: 'good.test' });
  });

  it('names its server, however it is split into records', async () => {
    const expected = { state: 'hello', serverName: 'good.test' };
    assert.deepEqual(parseClientHello(hello), expected);
    for (const size of [1, 2, 7, 100, 1_000])
      assert.deepEqual(parseClientHello(inRecords(hello, size)), expected);
    assert.deepEqual(parseClientHello(Buffer.concat([hello, Buffer.from('more')])), expected);
    const bare = await helloOf({ host: '127.0.0.1' });
    assert.deepEqual(parseClientHello(bare), { state: 'hello', serverName: undefined });
    const old = await helloOf({ servername: 'good.test', maxVersion: 'TLSv1.2' });
    assert.deepEqual(parseClientHello(old), expected);
  });

  it('is not decided on before all of it has arrived', () => {
    for (const whole of [hello, inRecords(hello, 50)])
      for (let i = 1; i < whole.length; i++)
        assert.equal(parseClientHello(whole.subarray(0, i)).state, 'more', `${i} bytes`);
  });

  it('is not confused with other protocols', () => {
    for (const text of [
      'GET / HTTP/1.1\r\n',
      'SSH-2.0-x\r\n',
      'PRI * HTTP/2.0',
      '\x16\x02',
      '\x16\x03\x01\0\0',
    ])
      assert.equal(parseClientHello(Buffer.from(text, 'latin1')).state, 'not-tls', text);
    const endless = Buffer.alloc(72_000, 0);
    for (let at = 0; at < endless.length; at += 6) endless.set([0x16, 3, 1, 0, 1, 1], at);
    assert.equal(parseClientHello(endless).state, 'not-tls');
  });

  it('with two names has none', () => {
    const at = hello.indexOf('good.test') - 9;
    const extension = hello.subarray(at, at + 9 + 'good.test'.length);
    const twice = Buffer.concat([hello.subarray(0, at), extension, hello.subarray(at)]);
    const grow = (offset: number): void => {
      twice.writeUInt16BE(twice.readUInt16BE(offset) + extension.length, offset);
    };
    grow(3);
    grow(7);
    // The length of all extensions precedes the first one.
    const session = twice[43]!;
    const ciphers = twice.readUInt16BE(44 + session);
    grow(44 + session + 2 + ciphers + 2);
    assert.equal(parseClientHello(twice).state, 'not-tls');
  });

  it('never crashes the parser, whatever it is', () => {
    fc.assert(
      fc.property(
        fc.array(fc.record({ at: fc.nat(600), to: fc.nat(255) }), { maxLength: 8 }),
        fc.nat(600),
        (changes, cut) => {
          const spoilt = Buffer.from(hello.subarray(0, Math.max(1, hello.length - cut)));
          for (const { at, to } of changes) if (at < spoilt.length) spoilt[at] = to;
          const { state } = parseClientHello(spoilt);
          assert.ok(['more', 'not-tls', 'hello'].includes(state));
        },
      ),
      { numRuns: 3_000 },
    );
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => void parseClientHello(bytes)),
    );
  });
});
