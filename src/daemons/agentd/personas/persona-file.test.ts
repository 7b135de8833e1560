// Reading one persona: front matter, body, and broken ones.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readPersona } from './persona-file.ts';

const read = (text: string) => readPersona(text, 'operator', 'p.md');

test('a file without front matter is a persona', () => {
  const result = read('\n\nBe kind.\n');
  assert.ok(result.ok);
  assert.equal(result.persona.body, 'Be kind.');
  assert.equal(result.persona.bodyLine, 3);
  const windows = read('\ufeff---\r\nrole: Coder\r\n---\r\nCode.\r\n');
  assert.ok(windows.ok);
  assert.equal(windows.persona.front.role, 'Coder');
});

test('broken ones are refused with a line', () => {
  const cases: [text: string, line: number | null, message: RegExp][] = [
    ['---\nrole: Coder\n', 1, /not closed/],
    ['---\nrole: [\n---\nx', 2, /./],
    ['---\nrole: Coder\nrolle: x\n---\nx', 3, /unknown key rolle/],
    ["---\nrole: 'a:b'\n---\nx", 2, /without a colon/],
    ['---\nextends: [Bad]\n---\nx', 2, /must be a persona/],
    ['---\nrole: Coder\n---\n\n  \n', 4, /no text/],
    ['', 1, /no text/],
  ];
  for (const [text, line, message] of cases) {
    const result = read(text);
    assert.ok(!result.ok, text);
    assert.equal(result.problems[0]!.line, line, text);
    assert.match(result.problems[0]!.message, message);
    assert.equal(result.problems[0]!.file, 'p.md');
  }
});
