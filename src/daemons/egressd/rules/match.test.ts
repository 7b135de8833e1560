// Tests rule matching: exact names, suffixes, ports, methods and paths, and nothing unlisted.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { parseHost } from '../../../policy/hosts.ts';
import type { GrantedRule } from '../../../wire/egressd.ts';
import {
  type Destination,
  type MatchResult,
  matchRules,
  type ParsedEgressRule,
  parseRule,
} from './match.ts';

const rule = (given: GrantedRule): ParsedEgressRule => {
  const read = parseRule(given);
  assert.ok('value' in read, JSON.stringify(read));
  return read.value;
};
const host = (text: string) => {
  const read = parseHost(text);
  assert.ok('value' in read, text);
  return read.value;
};
const tunnel = (name: string, port = 443): Destination => ({
  host: host(name),
  port,
  how: 'tunnel',
});
const get = (name: string, path = '/', method = 'GET', port = 80): Destination => ({
  host: host(name),
  port,
  how: 'http',
  method,
  path,
  hasBody: false,
  isOverridden: false,
});
const match = (rules: GrantedRule[], dest: Destination, nowMs = 0): string => {
  const verdict: MatchResult = matchRules(rules.map(rule), dest, nowMs);
  return verdict.allowed ? 'allowed' : verdict.reason;
};

describe('a rule', () => {
  it('none: nothing is allowed', () => assert.equal(match([], tunnel('a.example')), 'host'));

  it("for a name matches that name, on the web's ports", () => {
    const rules = [{ host: 'Example.COM' }];
    assert.equal(match(rules, tunnel('example.com')), 'allowed');
    assert.equal(match(rules, get('EXAMPLE.com.')), 'allowed');
    for (const other of ['notexample.com', 'example.com.evil.test', 'a.example.com', 'example.co'])
      assert.equal(match(rules, tunnel(other)), 'host', other);
    for (const port of [22, 25, 8443])
      assert.equal(match(rules, tunnel('example.com', port)), 'port');
  });

  it('for a suffix matches everything below it, at any depth, and not itself', () => {
    const rules = [{ host: '*.example.com', port: 443 }];
    assert.equal(match(rules, tunnel('a.example.com')), 'allowed');
    assert.equal(match(rules, tunnel('a.b.example.com')), 'allowed');
    for (const other of ['example.com', 'notexample.com', 'a.example.com.evil.test'])
      assert.equal(match(rules, tunnel(other)), 'host', other);
    assert.equal(match([{ host: '*.0.0.1x' }], tunnel('127.0.0.1')), 'host');
  });

  it('for an address matches only that address', () => {
    assert.equal(match([{ host: '8.8.8.8' }], tunnel('8.8.8.8')), 'allowed');
    assert.equal(match([{ host: '2a00::1' }], tunnel('[2a00:0::1]')), 'allowed');
    assert.equal(match([{ host: 'example.com' }], tunnel('8.8.8.8')), 'host');
    for (const bad of ['*.8.8.8.8', '0x7f.1', 'a b', '*', '*.'])
      assert.ok('problem' in parseRule({ host: bad }), bad);
  });

  it('with methods and paths applies to readable requests, and allows no tunnel', () => {
    const rules = [{ host: 'a.example', methods: ['GET'], paths: ['/api/*', '/exact'] }];
    assert.equal(match(rules, get('a.example', '/api/x')), 'allowed');
    assert.equal(match(rules, get('a.example', '/exact')), 'allowed');
    assert.equal(match(rules, get('a.example', '/api/x', 'POST')), 'method');
    const full = { ...get('a.example', '/api/x'), hasBody: true } as Destination;
    assert.equal(match(rules, full), 'method', 'a read-only request sends no body');
    assert.equal(match([{ host: 'a.example' }], full), 'allowed');
    const other = { ...get('a.example', '/api/x'), isOverridden: true } as Destination;
    assert.equal(match(rules, other), 'method');
    assert.equal(match([{ host: 'a.example', paths: ['/api/*'] }], other), 'path');
    assert.equal(match([{ host: 'a.example' }], other), 'allowed');
    for (const path of ['/', '/apix', '/exact/more', '/API/x', '/api'])
      assert.equal(match(rules, get('a.example', path)), 'path', path);
    for (const path of [
      '/api/../secret',
      '/api/%2e%2e/secret',
      '/api/%2E%2e/secret',
      '/api//x',
      '/api/..;/x',
      '/api/%2fsecret',
      '/api/x%5c..',
      '/api/./x',
      '/api/..',
      '/api/%252e%252e/x',
      '/api/%00',
    ])
      assert.equal(match(rules, get('a.example', path)), 'path', path);
    assert.equal(match(rules, tunnel('a.example')), 'unreadable');
  });

  it('with an expiry ends then', () => {
    const rules = [{ host: 'a.example', expires_at: '2026-01-01T00:00:00Z' }];
    const end = Date.parse('2026-01-01T00:00:00Z');
    assert.equal(match(rules, tunnel('a.example'), end - 1), 'allowed');
    assert.equal(match(rules, tunnel('a.example'), end), 'host');
  });
});

it('added never allows less, and removed never allows more', () => {
  const name = fc.constantFrom('a.test', 'b.a.test', '*.a.test', 'c.test');
  const one = fc.record(
    {
      host: name,
      port: fc.constantFrom(80, 443, 22),
      methods: fc.constant(['GET']),
      paths: fc.constant(['/x*']),
      plain: fc.boolean(),
    },
    { requiredKeys: ['host'] },
  ) as fc.Arbitrary<GrantedRule>;
  const dest = fc.oneof(
    fc
      .record({
        name: fc.constantFrom('a.test', 'b.a.test', 'c.test'),
        port: fc.constantFrom(80, 22),
      })
      .map((w) => tunnel(w.name, w.port)),
    fc
      .record({ name: fc.constantFrom('a.test', 'b.a.test'), path: fc.constantFrom('/x', '/y') })
      .map((w) => get(w.name, w.path)),
  );
  fc.assert(
    fc.property(fc.array(one, { maxLength: 5 }), one, dest, (rules, more, what) => {
      const before = match(rules, what);
      const after = match([...rules, more], what);
      if (before === 'allowed') assert.equal(after, 'allowed');
      if (after !== 'allowed') assert.notEqual(before, 'allowed');
    }),
  );
});
