// Tests that a URL whose host two parsers read differently is rejected.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { parseHost } from '../../../policy/hosts.ts';
import { someHostText, somePort } from '../../../policy/testing/hosts.ts';
import { parseFetchTarget } from './fetch-target.ts';

describe('a URL', () => {
  const placeOf = (text: string): string | undefined => {
    const read = parseFetchTarget(text);
    if ('problem' in read) return undefined;
    const { host, port, pathAndQuery, isTls } = read.value;
    return `${isTls ? 'tls ' : ''}${host.name} ${port} ${pathAndQuery}`;
  };

  it('is parsed once, and rejected where parsers differ', () => {
    assert.equal(placeOf('https://A.example/x/../y?z#w'), 'tls a.example 443 /y?z');
    assert.equal(placeOf('http://[::1]:8080'), '::1 8080 /');
    assert.equal(placeOf('http://a.example./'), 'a.example 80 /');
    for (const text of [
      'ftp://a.example/',
      'a.example',
      '//a.example/',
      'http:a.example',
      'http:///a.example',
      'http://u:p@a.example/',
      'http://good.test@evil.test/',
      'http://good.test\\@evil.test/',
      'http://0x7f.1/',
      'http://127.1/',
      'http://2130706433/',
      'http://%31%32%37.0.0.1/',
      'http://a.exa\tmple/',
      'http://a.example/ x',
      'http://a.example:99999/',
      'http://[::1%25lo]/',
    ])
      assert.equal(placeOf(text), undefined, text);
  });

  it('leads to the host that policy decided about', () => {
    let count = 0;
    fc.assert(
      fc.property(someHostText, somePort, (text, port) => {
        fc.pre(!/[/?#]/.test(text));
        const url = `http://${text}:${port}/`;
        const read = parseFetchTarget(url);
        if ('problem' in read) return;
        count++;
        const decided = parseHost(new URL(url).hostname);
        assert.ok('value' in decided, url);
        assert.equal(decided.value.name, read.value.host.name);
        assert.deepEqual(parseHost(text), { value: read.value.host });
      }),
      { numRuns: 5_000 },
    );
    assert.ok(count > 500, `only ${count} were URLs`);
  });
});
