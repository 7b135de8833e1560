// API keys as text: their form, their randomness, and what is refused without a lookup.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test } from 'node:test';
import { Fault } from '../wire/errors.ts';
import { isApiKey, isSameHash, makeApiKey, readApiKey, writeKeyPrefix } from './api-key.ts';

const isMalformed = (error: unknown): boolean =>
  error instanceof Fault &&
  error.code === 'unauthenticated' &&
  error.details?.reason === 'malformed';

test('a key has a prefix, 256 bits and a checksum, and is read back', () => {
  const seen = new Set<string>();
  for (let i = 0; i < 1_000; i++) {
    const { text, id, hash } = makeApiKey(randomBytes);
    assert.match(text, /^agentd_[0-9A-Za-z]{61}$/);
    assert.ok(isApiKey(text));
    assert.ok(text.startsWith(writeKeyPrefix(id)));
    const read = readApiKey(text);
    assert.equal(read.id, id);
    assert.ok(isSameHash(read.hash, hash));
    seen.add(text);
  }
  assert.equal(seen.size, 1_000);
  assert.ok(62 ** 43 >= 2 ** 256, 'the secret part alone has 256 bits');
});

test('every digit is equally likely', () => {
  const counts = new Map<string, number>();
  for (let i = 0; i < 4_000; i++)
    for (const digit of makeApiKey(randomBytes).text.slice(7, -6))
      counts.set(digit, (counts.get(digit) ?? 0) + 1);
  assert.equal(counts.size, 62);
  // The rest of a byte divided by 62 would draw the first eight digits a quarter more often.
  const mean = (4_000 * 55) / 62;
  for (const [digit, count] of counts)
    assert.ok(Math.abs(count - mean) < mean * 0.12, `${digit}: ${count} of about ${mean}`);
});

test('one wrong, missing, added or swapped character is noticed', () => {
  const { text } = makeApiKey(randomBytes);
  assert.doesNotThrow(() => readApiKey(text), 'control');
  const at = (i: number, letter: string) => text.slice(0, i) + letter + text.slice(i + 1);
  for (let i = 7; i < text.length; i++)
    assert.throws(() => readApiKey(at(i, text[i] === 'a' ? 'b' : 'a')), isMalformed, String(i));
  for (const bad of [text.slice(0, -1), `${text}a`, `${text} `, 'agentd_', text.toUpperCase()])
    assert.throws(() => readApiKey(bad), isMalformed, bad);
  assert.ok(!isApiKey('sk-abc') && !isApiKey('AGENTD_abc') && !isApiKey(''));
});
