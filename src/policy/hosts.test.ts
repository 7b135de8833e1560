// Hosts: one spelling per name, odd spellings of addresses refused.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { canonicalHost, hostMatches, readHostRule, suffixesOf } from './hosts.ts';

test('names have one spelling: lower case, A-labels, no dot at the end', () => {
  const same: [string, string][] = [
    ['GitHub.COM', 'github.com'],
    ['github.com.', 'github.com'],
    ['bücher.example', 'xn--bcher-kva.example'],
    ['BÜCHER.example', 'xn--bcher-kva.example'],
    ['_dmarc.example.com', '_dmarc.example.com'],
    ['localhost', 'localhost'],
  ];
  for (const [written, host] of same)
    assert.deepEqual(canonicalHost(written), { ok: true, host, isAddress: false }, written);
});

test('addresses are told apart from names, in every spelling they could be smuggled in', () => {
  for (const [written, host] of [
    ['10.0.0.1', '10.0.0.1'],
    ['[::1]', '::1'],
    ['0:0:0:0:0:0:0:1', '::1'],
    ['::ffff:10.0.0.1', '::ffff:a00:1'],
    ['１２７.０.０.１', '127.0.0.1'],
    ['２１３０７０６４３３', '127.0.0.1'],
  ] as const)
    assert.deepEqual(canonicalHost(written), { ok: true, host, isAddress: true }, written);
  for (const odd of ['2130706433', '0x7f000001', '127.1', '0177.0.0.1', '127.0.0.0x1'])
    assert.equal(canonicalHost(odd).ok, false, odd);
  assert.equal(canonicalHost('256.1.1.1').ok, false);
  assert.equal(canonicalHost('fe80::1%eth0').ok, false);
});

test('what is no host is refused', () => {
  for (const odd of [
    ...['', '.', '..', 'a..b', '-a.com', 'a-.com', 'a b.com', 'a@b.com', 'a/b', 'a\\b', 'a?b'],
    ...['a#b', 'a%2eb', 'a:80', 'a\0.com', 'a\n.com', '*.a.com', `${'a'.repeat(64)}.com`],
  ])
    assert.equal(canonicalHost(odd).ok, false, JSON.stringify(odd));
});

test('a rule is a name, a suffix or a port of one; without a port those of the web', () => {
  const rule = (written: string) => {
    const read = readHostRule(written);
    assert.ok(read.ok, written);
    return read.rule;
  };
  assert.ok(hostMatches(rule('github.com'), 'github.com', 443));
  assert.ok(!hostMatches(rule('github.com'), 'github.com', 22));
  assert.ok(!hostMatches(rule('github.com'), 'api.github.com', 443));
  assert.ok(hostMatches(rule('*.github.com'), 'api.github.com', 443));
  assert.ok(!hostMatches(rule('*.github.com'), 'github.com', 443));
  assert.ok(!hostMatches(rule('*.github.com'), 'evilgithub.com', 443));
  assert.ok(hostMatches(rule('registry.local:5000'), 'registry.local', 5000));
  assert.ok(!hostMatches(rule('registry.local:5000'), 'registry.local', 443));
  assert.deepEqual(rule('GitHub.com:22'), { host: 'github.com', ports: [22] });
  for (const odd of ['*.10.0.0.1', '*.com', '*', 'a:0', 'a:70000', '0x7f.1'])
    assert.equal(readHostRule(odd).ok, false, odd);
});

test('a name lies in each of its suffixes, an address in none', () => {
  assert.deepEqual(suffixesOf('a.b.org', false), ['*.b.org', '*.org']);
  assert.deepEqual(suffixesOf('10.0.0.1', true), []);
});
