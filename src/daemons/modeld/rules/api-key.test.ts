// Rules of API keys: when a secret works, and which models a pattern allows.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { findKeyEnd, isModelAllowed, readKeyStatus } from './api-key.ts';

test('one pattern of several is enough, and without patterns every model is allowed', () => {
  assert.ok(isModelAllowed(['x', 'gpt-*'], 'gpt-5'));
  assert.ok(isModelAllowed(null, 'gpt-5'));
  assert.ok(!isModelAllowed([], 'gpt-5'));
  assert.ok(!isModelAllowed(['x'], 'gpt-5'));
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
