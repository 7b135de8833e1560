// Tests editing top-level members of a JSON text: every other byte stays.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { spliceJson } from './splice-json.ts';

const cases: [string, string, Record<string, unknown>, string][] = [
  ['a value', '{"model":"a","x":1}', { model: 'b' }, '{"model":"b","x":1}'],
  [
    'only the top level',
    '{"x":{"model":"a"}, "model" : "a" }',
    { model: 'b' },
    '{"x":{"model":"a"}, "model" : "b" }',
  ],
  [
    'the spelling of numbers',
    '{"seed":12345678901234567890,"t":1.0,"n":1}',
    { n: 2 },
    '{"seed":12345678901234567890,"t":1.0,"n":2}',
  ],
  ['a missing member', '{"x":1}', { max_tokens: 5 }, '{"max_tokens":5,"x":1}'],
  ['an empty object', ' { } ', { a: 1 }, ' {"a":1 } '],
  ['a repeated key', '{"model":"a","model":"z"}', { model: 'b' }, '{"model":"b","model":"b"}'],
  ['a key in escapes', '{"\\u006dodel":"a"}', { model: 'b' }, '{"\\u006dodel":"b"}'],
  [
    'quotes and brackets in strings',
    '{"a":"}\\"]{","model":["\\\\"]}',
    { model: 1 },
    '{"a":"}\\"]{","model":1}',
  ],
];
for (const [name, text, changes, expected] of cases) {
  test(`splicing keeps or changes ${name}`, () =>
    assert.equal(spliceJson(text, changes), expected));
}

test('any object: the changes are in, everything else is unchanged, and so is the text around it', () => {
  const key = fc.oneof(fc.constantFrom('model', 'max_tokens', 'stream', ''), fc.string());
  const spaces = fc.constantFrom(undefined, 1, '\t');
  fc.assert(
    fc.property(
      fc.dictionary(key, fc.jsonValue(), { maxKeys: 6, noNullPrototype: true }),
      fc.dictionary(key, fc.jsonValue(), { maxKeys: 3, noNullPrototype: true }),
      spaces,
      (object, changes, space) => {
        const text = JSON.stringify(object, null, space);
        const spliced = spliceJson(text, changes);
        const expected = JSON.parse(JSON.stringify({ ...object, ...changes }));
        assert.deepEqual(JSON.parse(spliced), expected);
        if (Object.keys(changes).length === 0) assert.equal(spliced, text);
      },
    ),
    { numRuns: 500 },
  );
});
