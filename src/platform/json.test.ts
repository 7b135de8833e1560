// JSON at boundaries: invalid input is refused, and the canonical form is unique.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import type { Fault } from '../wire/errors.ts';
import { canonicalJson, decodeUtf8, hashJson, parseJson, sha256Hex } from './json.ts';

const code = (wanted: string) => (error: Fault) => error.code === wanted;

describe('json: bytes to text', () => {
  it('refuses invalid UTF-8 and keeps everything else', () => {
    for (const bytes of [[0xff], [0xc0, 0xaf], [0xe2, 0x82], [0xed, 0xa0, 0x80], [0x80]])
      assert.throws(() => decodeUtf8(Uint8Array.from(bytes)), code('bad_json'));
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => {
        assert.equal(decodeUtf8(Buffer.from(text, 'utf8')), text.toWellFormed());
      }),
    );
  });
});

describe('json: text to value', () => {
  it('reports what is wrong', () => {
    for (const text of ['', ' ', '{', '{"a":1,}', "{'a':1}", 'NaN', '1 2', '{"a":1}}', '\ufeff1'])
      assert.throws(() => parseJson(text), code('bad_json'), JSON.stringify(text));
  });

  it('accepts 64 levels and refuses 65, before it parses', () => {
    const nested = (depth: number) => `${'['.repeat(depth)}${']'.repeat(depth)}`;
    assert.doesNotThrow(() => parseJson(nested(64)));
    assert.throws(() => parseJson(nested(65)), code('too_deep'));
    assert.throws(() => parseJson('[{"a":'.repeat(5_000_000)), code('too_deep'));
  });

  it('does not count brackets inside strings', () => {
    const text = JSON.stringify({ a: `${'['.repeat(500)}"\\${'{'.repeat(500)}` });
    assert.equal((parseJson(text) as { a: string }).a.length, 1_002);
  });

  it('parses whatever JSON.stringify writes, as JSON.parse would', () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 20 }), (value) => {
        const text = JSON.stringify(value);
        assert.deepEqual(parseJson(text), JSON.parse(text));
      }),
    );
  });
});

/** The same value with the members of every object in another order. */
function shuffled(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(shuffled);
  if (value === null || typeof value !== 'object') return value;
  const members = Object.entries(value).map(([key, inner]) => [key, shuffled(inner)] as const);
  return Object.fromEntries(members.reverse());
}

describe('json: the canonical form', () => {
  it('equal values give equal text, whatever the order of members', () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 5 }), (value) => {
        assert.equal(canonicalJson(shuffled(value)), canonicalJson(value));
        assert.equal(hashJson(shuffled(value)), hashJson(value));
      }),
    );
  });

  it('is JSON of the same value, and its own canonical form', () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 5 }), (value) => {
        const text = canonicalJson(value);
        assert.deepEqual(JSON.parse(text), JSON.parse(JSON.stringify(value)));
        assert.equal(canonicalJson(JSON.parse(text)), text);
      }),
    );
  });

  it('different values give different text', () => {
    fc.assert(
      fc.property(fc.jsonValue(), fc.jsonValue(), (a, b) => {
        const same = JSON.stringify(shuffled(a)) === JSON.stringify(shuffled(b));
        if (canonicalJson(a) === canonicalJson(b))
          assert.deepEqual(JSON.parse(JSON.stringify(a)), JSON.parse(JSON.stringify(b)));
        else assert.equal(same, false);
      }),
    );
  });

  it('omits undefined and has no spaces', () => {
    assert.equal(
      canonicalJson({ b: [1, undefined], a: undefined, c: 'x y' }),
      '{"b":[1,null],"c":"x y"}',
    );
    assert.equal(sha256Hex('abc').slice(0, 8), 'ba7816bf');
  });
});
