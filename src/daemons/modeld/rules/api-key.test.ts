// Rules of API keys: when a secret works, and which models a pattern allows.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { findKeyEnd, isModelAllowed, readKeyStatus } from './api-key.ts';

test('a pattern allows exactly what it says', () => {
  const cases: [string, string[], string[]][] = [
    ['gpt-5', ['gpt-5'], ['gpt-55', 'xgpt-5', 'GPT-5', 'gpt.5', '']],
    ['gpt-*', ['gpt-', 'gpt-5', 'gpt-*'], ['gp', 'agpt-5']],
    ['*', ['', 'anything', 'a/b'], []],
    ['*-mini', ['-mini', 'gpt-5-mini'], ['gpt-5-mini2', 'mini']],
    ['a*b*c', ['abc', 'aXbYc', 'abbc', 'abcbc'], ['acb', 'ab', 'abcd', 'ac']],
    ['ab*ba', ['abba', 'abXba'], ['aba', 'ab', 'ba']],
    ['a.c', ['a.c'], ['abc']],
    ['a**b', ['ab', 'axb'], ['a', 'b']],
  ];
  for (const [pattern, allowed, refused] of cases) {
    for (const name of allowed) assert.ok(isModelAllowed([pattern], name), `${pattern}: ${name}`);
    for (const name of refused) assert.ok(!isModelAllowed([pattern], name), `${pattern}: ${name}`);
  }
  assert.ok(isModelAllowed(['x', 'gpt-*'], 'gpt-5'), 'one of several is enough');
  assert.ok(isModelAllowed(null, 'gpt-5'), 'without patterns every model');
  assert.ok(!isModelAllowed([], 'gpt-5'));
  const many = `${'a*'.repeat(60)}b`;
  assert.ok(!isModelAllowed([many], 'a'.repeat(128)), 'and is decided without backtracking');
});

test('a secret ends with its key, or when a rotation says so', () => {
  const key = { name: 'ci', expiresMs: 100, revokedMs: null };
  const secret = { endsMs: 50 };
  assert.equal(findKeyEnd(key, secret, 49), undefined);
  assert.equal(findKeyEnd(key, secret, 50), 'rotated');
  assert.equal(findKeyEnd(key, { endsMs: null }, 99), undefined);
  assert.equal(findKeyEnd(key, { endsMs: null }, 100), 'expired');
  assert.equal(findKeyEnd({ ...key, revokedMs: 10 }, secret, 200), 'revoked');
  assert.equal(readKeyStatus({ ...key, expiresMs: null }, 1e15), 'active');
});
