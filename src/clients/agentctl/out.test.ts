// Output to a terminal with --json has the same value and no control characters.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { toJsonText } from './out.ts';

test('--json output contains no control characters, and parses to the same value', () => {
  const value = { text: 'a\u009b31mb\u001b[0m\u007f\u202egnp.exe\u2066 é 語' };
  const text = toJsonText(value);
  // biome-ignore lint/suspicious/noControlCharactersInRegex: this pattern matches them
  assert.doesNotMatch(text, /[\u0000-\u001f\u007f-\u009f\u202e\u2066]/);
  assert.deepEqual(JSON.parse(text), value);
  assert.match(text, /é 語/);
});
