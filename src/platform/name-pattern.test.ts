// Patterns fit exactly what they say, and are compared without backtracking.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fitsPattern } from './name-pattern.ts';

test('a pattern fits exactly what it says', () => {
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
  for (const [pattern, fitting, others] of cases) {
    for (const name of fitting) assert.ok(fitsPattern(pattern, name), `${pattern}: ${name}`);
    for (const name of others) assert.ok(!fitsPattern(pattern, name), `${pattern}: ${name}`);
  }
  assert.ok(!fitsPattern(`${'a*'.repeat(60)}b`, 'a'.repeat(128)));
});
