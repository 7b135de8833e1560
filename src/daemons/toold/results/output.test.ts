// Output for a model shows hidden characters and leaves harmless text unchanged.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { neutralise, showResult, truncateText } from './output.ts';

const table: [string, string][] = [
  ['plain text\n\twith lines\r\n', 'plain text\n\twith lines\r\n'],
  ['naïve 日本語 👩‍👩‍👧', 'naïve 日本語 👩‍👩‍👧'],
  ['a\u202eb', 'a[U+202E]b'],
  ['\u2066x\u2069', '[U+2066]x[U+2069]'],
  ['\u001b[31mred', '[U+001B][31mred'],
  ['nul\u0000', 'nul[U+0000]'],
  ['c1\u009b', 'c1[U+009B]'],
  ['tag\u{e0041}', 'tag[U+E0041]'],
  ['line\u2028sep', 'line[U+2028]sep'],
];

describe('neutralise', () => {
  for (const [given, shown] of table)
    it(JSON.stringify(shown), () => assert.equal(neutralise(given), shown));
});

describe('showResult', () => {
  it('[R96] finds secrets anywhere in a result, keys included, and names their kind', () => {
    const key = `ghp_${'a7Kq2ZxP9mB4'.repeat(3)}`;
    const { value, text, redacted } = showResult({ lines: [{ [key]: 1, text: `x ${key}\u0007` }] });
    assert.ok(!text.includes(key));
    assert.deepEqual(redacted, ['GitHub token']);
    assert.deepEqual(value, {
      lines: [{ '[redacted GitHub token]': 1, text: 'x [redacted GitHub token][U+0007]' }],
    });
  });

  it('shows hidden characters by name, and of very many only that they exist', () => {
    const of = (text: string) => showResult({ text }).value.text as string;
    const few = '\u0000'.repeat(65_536);
    assert.equal(of(few), '[U+0000]'.repeat(65_536));
    const many = of(`${few}\u0001\u202e\u0007a\u001b[31m`.repeat(2));
    assert.equal(many, `${'[U+0000]'.repeat(65_536)}\ufffda\ufffd[31m\ufffda\ufffd[31m`);
    const secret = `${few}ghp_${'a1B2'.repeat(9)}\u0001`;
    assert.equal(of(secret), `${'[U+0000]'.repeat(65_536)}[redacted GitHub token]\ufffd`);
  });

  it('[R401] covers every string and key, and nothing else', () => {
    const { value } = showResult({ a: ['x\u202e', { 'k\u0007': 1, deep: null }], n: 2, t: true });
    assert.deepEqual(value, { a: ['x[U+202E]', { 'k[U+0007]': 1, deep: null }], n: 2, t: true });
  });

  it('keeps a member named __proto__', () => {
    const given = JSON.parse('{"__proto__":{"x":"\\u0007"}}') as Record<string, unknown>;
    const { value, text } = showResult(given);
    assert.equal(Object.getPrototypeOf(value), Object.prototype);
    assert.equal(text, '{"__proto__":{"x":"[U+0007]"}}');
  });

  it('leaves safe values unchanged, and no unsafe character in any', () => {
    const words = fc.string({ unit: 'binary' });
    const tree = fc.dictionary(words, fc.jsonValue({ stringUnit: 'binary' }));
    fc.assert(
      fc.property(tree, (given) => {
        const { value, text } = showResult(given);
        assert.equal(text, JSON.stringify(value));
        assert.equal(stringsOf(value).join(''), neutralise(stringsOf(given).join('')));
      }),
    );
  });
});

function stringsOf(value: unknown): string[] {
  if (typeof value === 'string') return [value];
  if (value === null || typeof value !== 'object') return [];
  return Object.entries(value).flatMap(([key, member]) => [key, ...stringsOf(member)]);
}

describe('previewOf', () => {
  it('never ends in half a character', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme' }), fc.integer({ min: 1, max: 20 }), (text, max) => {
        const preview = truncateText(text, max);
        assert.ok(preview.isWellFormed() || !text.isWellFormed());
        if (text.length <= max) assert.equal(preview, text);
        else assert.ok(preview.length <= max + 1);
      }),
    );
  });
});
