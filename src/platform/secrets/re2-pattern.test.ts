// A pattern of RE2 means the same after its conversion.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { convertRe2 } from './re2-pattern.ts';

const cases: [re2: string, js: string][] = [
  ['(?i)a(b)c', '(?i:a(b)c)'],
  ['X(?i)y', 'X(?i:y)'],
  ['(X(?i)y)Z', '(X(?i:y))Z'],
  ['(?i)a(?i)b', '(?i:a(?i:b))'],
  ['(?-i:A)(?i:b)', '(?-i:A)(?i:b)'],
  ['(?P<name>a)', '(?:a)'],
  ['a\\z', 'a(?![\\s\\S])'],
  ['[](?i)]', '[](?i)]'],
  ['\\((?i)a', '\\((?i:a)'],
];

describe('converting a pattern', () => {
  for (const [re2, js] of cases) it(re2, () => assert.equal(convertRe2(re2), js));
});
