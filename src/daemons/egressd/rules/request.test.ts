// Tests that a request is forwarded in one canonical form, or not at all.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { parseHost } from '../../../policy/hosts.ts';
import { type ForwardedRequest, readRequest } from './request.ts';

const at = (url: string, headers: string[] = [], method = 'GET') =>
  readRequest({ method, url, httpVersion: '1.1', rawHeaders: ['Host', 'a.test', ...headers] });
const good = (read: ReturnType<typeof at>): ForwardedRequest => {
  assert.ok('value' in read, JSON.stringify(read));
  return read.value;
};
const bound = { host: (parseHost('a.test') as { value: never }).value, port: 8080 };

describe('a request', () => {
  it('is sent to its target, in origin form, with Host first', () => {
    const { target, url, path, headers } = good(at('http://A.test/x/y?z=1', ['Accept', '*/*']));
    assert.deepEqual(
      [target.host.name, target.port, url, path],
      ['a.test', 80, '/x/y?z=1', '/x/y'],
    );
    assert.deepEqual(headers, ['Host', 'a.test', 'Accept', '*/*']);
    assert.equal(good(at('http://a.test')).url, '/');
    assert.equal(good(at('http://a.test?q')).url, '/?q');
  });

  it('drops hop-by-hop headers', () => {
    const { headers } = good(
      at('http://a.test/', [
        'Proxy-Authorization',
        'Basic x',
        'Proxy-Connection',
        'keep-alive',
        'TE',
        'trailers',
        'Connection',
        'close, X-Mine',
        'X-Mine',
        '1',
        'Keep-Alive',
        '5',
        'X-Theirs',
        '2',
      ]),
    );
    assert.deepEqual(headers, ['Host', 'a.test', 'X-Theirs', '2']);
  });

  it('in a tunnel may have only a path', () => {
    const raw = { method: 'GET', httpVersion: '1.1', rawHeaders: ['Host', 'a.test:8080'] };
    assert.equal(good(readRequest({ ...raw, url: '/x' }, bound)).url, '/x');
    assert.equal(good(readRequest({ ...raw, url: 'http://a.test:8080/x' }, bound)).url, '/x');
    assert.ok('problem' in readRequest({ ...raw, url: 'http://b.test:8080/x' }, bound));
    assert.ok(
      'problem' in readRequest({ ...raw, url: '/x', rawHeaders: ['Host', 'b.test'] }, bound),
    );
  });

  it('is rejected when it is ambiguous', () => {
    const url = 'http://a.test/';
    const bad: [string, ReturnType<typeof at>][] = [
      ['another Host', at('http://b.test/')],
      ['another port', at('http://a.test:81/')],
      ['two Hosts', at(url, ['Host', 'a.test'])],
      ['no Host', readRequest({ method: 'GET', url, httpVersion: '1.1', rawHeaders: [] })],
      ['a user', at('http://x@a.test/')],
      ['https', at('https://a.test/')],
      ['a path alone', at('/x')],
      ['an authority alone', at('a.test:80')],
      ['a star', at('*', [], 'OPTIONS')],
      ['a fragment', at('http://a.test/#x')],
      ['a backslash', at('http://a.test\\@b.test/')],
      ['a space', at('http://a.test/ x')],
      ['TRACE', at(url, [], 'TRACE')],
      ['TRACK', at(url, [], 'TRACK')],
      ['lower case', at(url, [], 'get')],
      ['Upgrade', at(url, ['Upgrade', 'websocket', 'Connection', 'Upgrade'])],
      ['both lengths', at(url, ['Content-Length', '1', 'Transfer-Encoding', 'chunked'])],
      ['two lengths', at(url, ['Content-Length', '1', 'Content-Length', '1'])],
      ['an odd length', at(url, ['Content-Length', '+1'])],
      ['an odd coding', at(url, ['Transfer-Encoding', 'xchunked'])],
      ['two codings', at(url, ['Transfer-Encoding', 'gzip, chunked'])],
      ['a named Host', at(url, ['Connection', 'Host'])],
      ['a named length', at(url, ['Connection', 'content-length', 'Content-Length', '1'])],
    ];
    for (const [what, read] of bad) assert.ok('problem' in read, what);
  });
});
