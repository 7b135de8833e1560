// Hosts have one canonical form, and all decisions use the same match.
import assert from 'node:assert/strict';
import { isIP } from 'node:net';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import {
  formatAuthority,
  type Host,
  type HostPattern,
  matchesHost,
  matchingSuffixes,
  overlap,
  type ParseOutcome,
  parseAllowedHost,
  parseAuthority,
  parseHost,
  parseHostPattern,
  parseHostRule,
  parseIp,
} from './hosts.ts';
import { someHostText, somePatternAndHost, twoPatterns } from './testing/hosts.ts';

const parsed = <T>(result: ParseOutcome<T>): T => {
  assert.ok('value' in result, JSON.stringify(result));
  return result.value;
};
const isRejected = (result: ParseOutcome<unknown>): boolean => 'problem' in result;

describe('a host', () => {
  it('has one spelling: lower case, A-labels, no dot at the end', () => {
    for (const [text, name] of [
      ['GitHub.COM', 'github.com'],
      ['github.com.', 'github.com'],
      ['xn--bcher-kva.example', 'xn--bcher-kva.example'],
      ['bücher.example', 'xn--bcher-kva.example'],
      ['BÜCHER.example', 'xn--bcher-kva.example'],
      ['ΑΣ.example', new URL('http://ασ.example').hostname],
      ['_dmarc.example.com', '_dmarc.example.com'],
      ['a_b.example', 'a_b.example'],
      ['localhost', 'localhost'],
      [`${'a.'.repeat(126)}b.`, `${'a.'.repeat(126)}b`],
    ] as const)
      assert.deepEqual(parseHost(text), { value: { name, ip: undefined } }, text);
  });

  it('that is an address is recognized as one', () => {
    for (const [text, name, family] of [
      ['127.0.0.1', '127.0.0.1', 4],
      ['10.0.0.1.', '10.0.0.1', 4],
      ['[::1]', '::1', 6],
      ['0:0:0:0:0:0:0:1', '::1', 6],
      ['[::FFFF:127.0.0.1]', '::ffff:7f00:1', 6],
    ] as const) {
      const { ip, ...host } = parsed(parseHost(text));
      assert.deepEqual([host.name, ip?.text, ip?.family], [name, name, family], text);
    }
  });

  it('is rejected when two parsers could read it differently', () => {
    for (const text of [
      '',
      '.',
      '..',
      'a..b',
      '.a',
      'a b',
      'a/b',
      'a\\b',
      'a@b',
      'a:b',
      'a:80',
      'a%2eb',
      'a\0b',
      'a\r\nb',
      'a?b',
      'a#b',
      '*.a.com',
      'a.com..',
      'a=\u0338b.com',
      '-a.example',
      'a-.example',
      `${'a'.repeat(64)}.example`,
      `${'a.'.repeat(127)}b`,
      'xn--.example',
      'xn--a.é.example',
      '0x7f.1',
      '0x7f000001',
      '0177.0.0.1',
      '2130706433',
      '127.1',
      '127.0.1',
      '127.0.0.1.1',
      '127.0.0.01',
      '256.0.0.1',
      'x.0x7f',
      '１２７.0.0.1',
      '２１３０７０６４３３',
      '127。0。0。1',
      '[::1',
      '::1]',
      '[::1%lo]',
      'fe80::1%eth0',
      '[127.0.0.1]',
      '[]',
      '[::g]',
      '::1:443:',
    ])
      assert.ok(isRejected(parseHost(text)), JSON.stringify(text));
  });

  it('is stable, and is the form of the URL standard', () => {
    fc.assert(
      fc.property(someHostText, (text) => {
        const host = parseHost(text);
        if ('problem' in host) return;
        const { name, ip } = host.value;
        assert.deepEqual(parseHost(name), host);
        const inUrl = ip?.family === 6 ? `[${name}]` : name;
        assert.equal(URL.parse(`http://${inUrl}/`)?.hostname, inUrl);
      }),
      { numRuns: 20_000 },
    );
  });
});

describe('an address', () => {
  it('is what Node accepts as one, in its plain form only', () => {
    const text = fc.oneof(fc.ipV4(), fc.ipV6(), fc.string({ maxLength: 20 }));
    fc.assert(
      fc.property(text, (written) => {
        const ip = parseIp(written);
        if (ip !== undefined) assert.equal(isIP(written), ip.family, written);
        else if (isIP(written) === 4) assert.fail(written);
      }),
      { numRuns: 5_000 },
    );
    for (const odd of ['01.2.3.4', '1.2.3', '1.2.3.4.5', '0x1.2.3.4', '1.2.3.256', ' 1.2.3.4'])
      assert.equal(parseIp(odd), undefined, odd);
  });

  it('has sixteen bytes in IPv6', () => {
    fc.assert(
      fc.property(fc.ipV6(), (text) => {
        const ip = parseIp(text)!;
        assert.equal(ip.bytes.length, 16);
        assert.ok(ip.bytes.every((byte) => Number.isInteger(byte) && byte >= 0 && byte <= 255));
        assert.deepEqual(parseIp(ip.text)?.bytes, ip.bytes);
      }),
      { numRuns: 5_000 },
    );
  });
});

describe('host:port', () => {
  it('names a port, unless there is a default', () => {
    for (const [text, portDefault, authority] of [
      ['A.example:443', undefined, 'a.example:443'],
      ['[0::1]:8080', undefined, '[::1]:8080'],
      ['a.example', 80, 'a.example:80'],
    ] as const)
      assert.equal(formatAuthority(parsed(parseAuthority(text, portDefault))), authority);
    for (const text of [
      'a.example',
      'a:0',
      'a:65536',
      'a:080',
      'a:+1',
      'a:1:2',
      'u@a:1',
      '::1:443',
    ])
      assert.ok(isRejected(parseAuthority(text)), text);
    for (const text of ['a.example:', '::1', 'a b'])
      assert.ok(isRejected(parseAuthority(text, 80)), text);
  });
});

describe('a pattern', () => {
  const pattern = (text: string) => parsed(parseHostPattern(text));
  const matches = (text: string, name: string) =>
    matchesHost(pattern(text), parsed(parseHost(name)));

  it('without a star is one host', () => {
    assert.ok(matches('GitHub.com', 'github.com.'));
    assert.ok(matches('[2a00::1]', '2A00:0::1'));
    for (const other of ['api.github.com', 'notgithub.com', 'github.co', 'github.com.evil.test'])
      assert.ok(!matches('github.com', other), other);
  });

  it('with a star is every name below, at any depth, and not the name itself', () => {
    assert.ok(matches('*.GitHub.com.', 'api.github.com'));
    assert.ok(matches('*.github.com', 'a.b.github.com'));
    for (const other of ['github.com', 'evilgithub.com', 'a.github.com.evil.test', '10.0.0.1'])
      assert.ok(!matches('*.github.com', other), other);
  });

  it('is rejected when nothing would match it, or when it is ambiguous', () => {
    for (const text of ['', '*', '*.', '*.*.a.com', '*a.com', 'a.*.com', '*.10.0.0.1', '*.[::1]'])
      assert.ok(isRejected(parseHostPattern(text)), text);
    assert.ok('value' in parseHostPattern('*.com'), 'a rule may forbid a top-level domain');
    assert.ok(isRejected(parseAllowedHost('*.com')), 'and none may allow it');
    assert.ok('value' in parseAllowedHost('*.example.com'));
  });

  it('matches like a Cedar entity', () => {
    assert.deepEqual(matchingSuffixes(parsed(parseHost('a.b.org'))), ['*.b.org', '*.org']);
    assert.deepEqual(matchingSuffixes(parsed(parseHost('10.0.0.1'))), []);
    let count = 0;
    fc.assert(
      fc.property(somePatternAndHost, ([text, name]) => {
        const [pattern, host] = [parseHostPattern(text), parseHost(name)];
        if ('problem' in pattern || 'problem' in host) return;
        const entities = [host.value.name, ...matchingSuffixes(host.value)];
        const isMatch = matchesHost(pattern.value, host.value);
        assert.equal(isMatch, entities.includes(pattern.value.text));
        if (isMatch) count++;
        assert.deepEqual(parseHostPattern(pattern.value.text), pattern, 'its form is stable');
      }),
      { numRuns: 20_000 },
    );
    assert.ok(count > 500, `only ${count} matched`);
  });

  it('overlaps another exactly when some host matches both', () => {
    /** A host that matches, but that no pattern names. */
    const someMatch = ({ host, isSuffix }: HostPattern): Host =>
      isSuffix ? { name: `witness.${host.name}`, ip: undefined } : host;
    let count = 0;
    fc.assert(
      fc.property(twoPatterns, ([first, second]) => {
        const [a, b] = [parseHostPattern(first), parseHostPattern(second)];
        if ('problem' in a || 'problem' in b) return;
        const both = [a.value, b.value].map(someMatch);
        const isShared = both.some(
          (host) => matchesHost(a.value, host) && matchesHost(b.value, host),
        );
        assert.equal(overlap(a.value, b.value), isShared, `${first} ${second}`);
        assert.equal(overlap(b.value, a.value), isShared);
        if (isShared) count++;
      }),
      { numRuns: 20_000 },
    );
    assert.ok(count > 500, `only ${count} overlapped`);
  });
});

describe('a rule in a manifest', () => {
  it('is a pattern and a port, or the default web ports', () => {
    const rule = (text: string) => {
      const { pattern, ports } = parsed(parseHostRule(text));
      return [pattern.text, ...ports];
    };
    assert.deepEqual(rule('GitHub.com'), ['github.com', 443, 80]);
    assert.deepEqual(rule('*.Mirror.example:5000'), ['*.mirror.example', 5000]);
    assert.deepEqual(rule('[2A00::1]:443'), ['2a00::1', 443]);
    assert.deepEqual(rule('[2a00::1:2]'), ['2a00::1:2', 443, 80]);
    for (const odd of [
      '*.10.0.0.1',
      '*.com',
      '*',
      '0x7f.1',
      'a:0',
      'a:70000',
      'a:0443',
      'a:',
      'a:b',
      'u@a:1',
      '2a00::1',
      '2a00::1:2',
      '::1:443',
      '[2a00::1',
      'https://a.com',
    ])
      assert.ok(isRejected(parseHostRule(odd)), odd);
  });
});
