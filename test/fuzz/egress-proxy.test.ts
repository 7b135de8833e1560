// Whatever bytes a box sends to the egress proxy, only allowed requests leave it, complete and in
// canonical form. 4,000 cases, with FUZZ=long a million; FUZZ_SEED=… repeats a run,
// FUZZ_ONLY=number one case.
import assert from 'node:assert/strict';
import net from 'node:net';
import { after, before, describe, it } from 'node:test';
import { type EgressdTestHost, startHost } from '../../src/daemons/egressd/testing/host.ts';
import { exchange, startTcp, type WirePosition } from '../../src/daemons/egressd/testing/wires.ts';
import { type Seeded, seeded } from '../support/seeded.ts';

const seed = process.env.FUZZ_SEED ?? String(Date.now());
const count = process.env.FUZZ === 'long' ? 1_000_000 : 4_000;
const AT_ONCE = 8;
const RUNS = 16;
const WAIT_MS = 2_000;

/** Fragments that parsers are known to read differently. */
const PIECES = [
  '\r\n',
  '\n',
  '\r',
  '\r\n\r\n',
  '\0',
  ' ',
  '\t',
  '\x0b',
  '\x0c',
  '\x80',
  '%0d%0a',
  '%00',
  'GET ',
  'POST ',
  'CONNECT ',
  'TRACE ',
  'OPTIONS * ',
  ' HTTP/1.1',
  ' HTTP/1.0',
  ' HTTP/2.0',
  'Host: evil.test\r\n',
  'Host:\r\n',
  'Connection: close, host\r\n',
  'Upgrade: h2c\r\n',
  'Content-Length: 5\r\n',
  'Content-Length: 0\r\n',
  'Content-Length : 3\r\n',
  'Transfer-Encoding: chunked\r\n',
  'Transfer-Encoding:\x0bchunked\r\n',
  'TE: trailers\r\n',
  'Expect: 100-continue\r\n',
  '5\r\nhello\r\n',
  '0\r\n\r\n',
  'ffffffffffffffff\r\n',
  '5;x=y\r\n',
  'http://evil.test/',
  'https://',
  '//',
  '@evil.test',
  '#x',
  '/../',
  '/%2e%2e/',
  '\\',
  ':80',
  '[::1]',
  'GET /closed HTTP/1.1\r\nHost: good.test\r\n\r\n',
  'X: y\r\n z\r\n',
  'X'.repeat(9_000),
];

function requestOf(at: string, random: Seeded): string {
  const path = random.pick(['/open', '/open?x', '/closed', '/open/../closed', '/', '']);
  const method = random.pick(['GET', 'POST', 'HEAD', 'PUT', 'DELETE', 'OPTIONS']);
  const more = random.pick(['', 'Content-Length: 5\r\n', 'Transfer-Encoding: chunked\r\n']);
  const body = more === '' ? '' : random.pick(['hello', '5\r\nhello\r\n0\r\n\r\n', '']);
  const where = random.chance(0.9) ? `http://${at}${path}` : path;
  return `${method} ${where} HTTP/1.1\r\nHost: ${at}\r\n${more}\r\n${body}`;
}

function caseOf(at: string, index: number): Buffer {
  const random = seeded(seed, index);
  const head = random.chance(0.2) ? `CONNECT ${at} HTTP/1.1\r\nHost: ${at}\r\n\r\n` : '';
  let text = head;
  for (let i = 0; i <= random.int(3); i++) text += requestOf(at, random);
  for (let i = 0; i < random.int(5); i++) {
    const where = random.int(text.length);
    const piece = random.chance(0.8) ? random.pick(PIECES) : random.bytes(3).toString('latin1');
    const cut = random.chance(0.5) ? random.int(12) : 0;
    text = text.slice(0, where) + piece + text.slice(where + cut);
  }
  return Buffer.from(text, 'latin1');
}

/** Accepts only a request line, known headers and a body of the stated length. */
function problemOf(text: string, at: string): string | undefined {
  let rest = text;
  while (rest !== '') {
    const end = rest.indexOf('\r\n\r\n');
    if (end < 0) return undefined; // Aborted while it was sent; the server never saw a request.
    const [line = '', ...headers] = rest.slice(0, end).split('\r\n');
    if (!/^(?!TRACE|CONNECT)[A-Z]+ \/open(\?[\x21-\x7e]*)? HTTP\/1\.1$/.test(line)) return line;
    const named = headers.map((header) => /^([!-9;-~]+): ?(.*)$/.exec(header));
    if (named.includes(null)) return `a header that is none: ${headers.join(' | ')}`;
    const values = (name: string) =>
      named.flatMap((one) => (one?.[1]?.toLowerCase() === name ? [one[2]!] : []));
    if (values('host').join() !== at) return `the Host is ${values('host').join()}`;
    const lengths = values('content-length');
    const codings = values('transfer-encoding');
    if (lengths.length + codings.length > 1) return 'two lengths';
    rest = rest.slice(end + 4);
    if (codings.length > 0) {
      const whole = /^(?:[0-9a-f]+\r\n[\s\S]*?\r\n)*?0\r\n\r\n/.exec(rest)?.[0];
      if (whole === undefined) return undefined;
      rest = rest.slice(whole.length);
    } else rest = rest.slice(Number(lengths[0] ?? 0));
  }
  return undefined;
}

describe(`bytes to the egress proxy (FUZZ_SEED=${seed})`, () => {
  let origin: WirePosition;
  let host: EgressdTestHost;
  /** Several runs, because the connection rate of each is limited. */
  const sockets: string[] = [];
  let at: string;
  const forwarded = new Set<{ text: string }>();

  before(async () => {
    origin = await startTcp((client) => {
      const one = { text: '' };
      forwarded.add(one);
      client.on('data', (chunk: Buffer) => {
        one.text += chunk.toString('latin1');
        if (/\r\n\r\n/.test(chunk.toString('latin1')))
          client.write('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok');
      });
      client.on('end', () => client.end());
    });
    at = `good.test:${origin.port}`;
    host = await startHost({
      config: { hosts: { 'good.test': '127.0.0.1' }, allow_private: [at], head_timeout_ms: 500 },
    });
    const rule = { host: 'good.test', port: origin.port, paths: ['/open'] };
    for (let i = 0; i < RUNS; i++) {
      const more = { bytes_max: Number.MAX_SAFE_INTEGER };
      sockets.push((await host.open(`fuzz ${i}`, [rule], more)).socket);
    }
  });
  after(async () => {
    await host.stop();
    await origin.close();
  });

  const send = (bytes: Buffer, index: number): Promise<void> =>
    new Promise((resolve) => {
      const client = net.connect(sockets[index % RUNS]!, () => client.end(bytes));
      const timer = setTimeout(() => client.destroy(), WAIT_MS);
      client.on('error', () => undefined);
      client.on('close', () => {
        clearTimeout(timer);
        resolve();
      });
      client.resume();
    });

  const only = process.env.FUZZ_ONLY;
  it('forwards allowed requests only', { timeout: 6 * 3_600_000 }, async () => {
    let next = only === undefined ? 0 : Number(only);
    const last = only === undefined ? count : next + 1;
    const worker = async (): Promise<void> => {
      while (next < last) {
        const index = next++;
        await send(caseOf(at, index), index);
      }
    };
    await Promise.all(Array.from({ length: only === undefined ? AT_ONCE : 1 }, worker));
    const wrong = [...forwarded].flatMap(({ text }) => {
      const problem = problemOf(text, at);
      return problem === undefined ? [] : [`${problem}\n${JSON.stringify(text.slice(0, 2_000))}`];
    });
    assert.deepEqual(wrong.slice(0, 2), [], `FUZZ_SEED=${seed}`);
    if (only === undefined)
      assert.ok(forwarded.size > count / 100, `${forwarded.size} connections came out`);
  });

  it('the proxy still works afterwards', async () => {
    const get = (path: string) =>
      exchange(
        sockets[0]!,
        `GET http://${at}${path} HTTP/1.1\r\nHost: ${at}\r\nConnection: close\r\n\r\n`,
      );
    assert.equal((await get('/open')).status, 200);
    assert.equal((await get('/closed')).status, 403);
    const { egress } = await host.operator.getEgress({
      params: { id: (await host.open('x', [])).id },
    });
    assert.equal(egress.open, 0);
  });
});
