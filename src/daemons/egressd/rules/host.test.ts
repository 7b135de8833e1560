// One spelling for every host, and none for what two readers could take differently.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { canonicalHost } from '../../../policy/hosts.ts';
import { readAuthority, readHost } from './host.ts';
import { readPlace } from './place.ts';

const nameOf = (text: string): string | undefined => {
  const read = readHost(text);
  return 'value' in read ? read.value.name : undefined;
};

describe('a host', () => {
  it('has one spelling', () => {
    for (const [text, name] of [
      ['GitHub.COM', 'github.com'],
      ['github.com.', 'github.com'],
      ['xn--bcher-kva.example', 'xn--bcher-kva.example'],
      ['bücher.example', 'xn--bcher-kva.example'],
      ['a_b.example', 'a_b.example'],
      ['127.0.0.1', '127.0.0.1'],
      ['[::1]', '::1'],
      ['[0:0:0:0:0:0:0:1]', '::1'],
      ['[::FFFF:127.0.0.1]', '::ffff:7f00:1'],
    ] as const)
      assert.equal(nameOf(text), name, text);
  });

  it('is refused when it is odd', () => {
    for (const text of [
      ...[
        '',
        '.',
        'a..b',
        '.a',
        'a b',
        'a/b',
        'a\\b',
        'a@b',
        'a:b',
        'a%2eb',
        'a\0b',
        'a\r\nb',
        'a?b',
      ],
      ...['-a.example', 'a-.example', `${'a'.repeat(64)}.example`, `${'a.'.repeat(130)}b`],
      ...['0x7f.1', '0x7f000001', '0177.0.0.1', '2130706433', '127.1', '127.0.1', '127.0.0.1.1'],
      ...['127.0.0.01', '256.0.0.1', 'x.0x7f', '１２７.0.0.1', '①.②.③.④', '127。0。0。1'],
      ...['::1', '[::1', '::1]', '[::1%lo]', '[fe80::1%25eth0]', '[127.0.0.1]', '[]', '[::g]'],
      'ex­ample.com:1',
    ])
      assert.equal(nameOf(text), undefined, JSON.stringify(text));
  });

  it('is written as policy writes it, whenever it is one', () => {
    const text = fc.oneof(
      fc.domain(),
      fc.ipV4(),
      fc.ipV6().map((ip) => `[${ip}]`),
      fc.string({ maxLength: 40 }),
      fc.string({ unit: fc.constantFrom(...'aA0x1.-_:[]%@é'), maxLength: 20 }),
    );
    fc.assert(
      fc.property(text, (written) => {
        const name = nameOf(written);
        if (name === undefined) return;
        const other = canonicalHost(written);
        assert.ok(other.ok, written);
        assert.equal(other.host, name);
        assert.equal(nameOf(name.includes(':') ? `[${name}]` : name), name);
      }),
      { numRuns: 5_000 },
    );
  });
});

describe('host:port', () => {
  const portOf = (text: string, usual?: number): number | undefined => {
    const read = readAuthority(text, usual);
    return 'value' in read ? read.value.port : undefined;
  };

  it('names a port, unless there is a usual one', () => {
    assert.equal(portOf('a.example:443'), 443);
    assert.equal(portOf('[::1]:8080'), 8080);
    assert.equal(portOf('a.example', 80), 80);
    for (const text of [
      'a.example',
      'a:0',
      'a:65536',
      'a:080',
      'a:+1',
      'a:1:2',
      '::1:443',
      'u@a:1',
    ])
      assert.equal(portOf(text), undefined, text);
    assert.equal(portOf('a.example:', 80), undefined);
  });
});

describe('a URL', () => {
  const placeOf = (text: string): string | undefined => {
    const read = readPlace(text);
    if ('problem' in read) return undefined;
    const { host, port, pathAndQuery, isTls } = read.value;
    return `${isTls ? 'tls ' : ''}${host.name} ${port} ${pathAndQuery}`;
  };

  it('is read once, and where readers differ not at all', () => {
    assert.equal(placeOf('https://A.example/x/../y?z#w'), 'tls a.example 443 /y?z');
    assert.equal(placeOf('http://[::1]:8080'), '::1 8080 /');
    assert.equal(placeOf('http://a.example./'), 'a.example 80 /');
    for (const text of [
      ...['ftp://a.example/', 'a.example', '//a.example/', 'http:a.example', 'http:///a.example'],
      ...['http://u:p@a.example/', 'http://good.test@evil.test/', 'http://good.test\\@evil.test/'],
      ...['http://0x7f.1/', 'http://127.1/', 'http://2130706433/', 'http://%31%32%37.0.0.1/'],
      ...[
        'http://a.exa\tmple/',
        'http://a.example/ x',
        'http://a.example:99999/',
        'http://[::1%25lo]/',
      ],
    ])
      assert.equal(placeOf(text), undefined, text);
  });
});
