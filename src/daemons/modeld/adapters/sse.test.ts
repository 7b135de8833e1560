// Tests the SSE parser: any chunking of the same bytes gives the same events.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { Fault } from '../../../wire/errors.ts';
import { type SseBlock, SseParser, writeSse } from './sse.ts';

function parseAll(bytes: Buffer, cuts: number[] = []): SseBlock[] {
  const parser = new SseParser();
  const blocks: SseBlock[] = [];
  let from = 0;
  for (const cut of [...cuts.map((c) => c % (bytes.length + 1)), bytes.length].sort(
    (a, b) => a - b,
  )) {
    blocks.push(...parser.push(bytes.subarray(from, cut)));
    from = cut;
  }
  const rest = parser.end();
  if (rest !== null) blocks.push(rest);
  return blocks;
}

const eventsIn = (text: string) =>
  parseAll(Buffer.from(text))
    .filter((block) => block.data !== null)
    .map(({ event, data }) => [event, data]);

const cases: [string, string, [string, string][]][] = [
  [
    'LF',
    'data: a\n\ndata: b\n\n',
    [
      ['', 'a'],
      ['', 'b'],
    ],
  ],
  [
    'CRLF',
    'data: a\r\n\r\ndata: b\r\n\r\n',
    [
      ['', 'a'],
      ['', 'b'],
    ],
  ],
  [
    'CR',
    'data: a\r\rdata: b\r\r',
    [
      ['', 'a'],
      ['', 'b'],
    ],
  ],
  [
    'mixed line ends',
    'data: a\r\n\rdata: b\n\r\n',
    [
      ['', 'a'],
      ['', 'b'],
    ],
  ],
  ['several data lines', 'data: a\ndata\ndata:b\n\n', [['', 'a\n\nb']]],
  ['one space only is taken off', 'data:  a\n\n', [['', ' a']]],
  ['names', 'event: ping\ndata: {}\n\n', [['ping', '{}']]],
  ['an event name without data is forgotten', 'event: x\n\ndata: a\n\n', [['', 'a']]],
  ['comments', ': keep\n\n:x\ndata: a\n: y\n\n', [['', 'a']]],
  ['a byte order mark', '\ufeffdata: a\n\n', [['', 'a']]],
  ['unknown fields', 'id: 1\nretry: 5\nfoo: x\ndata: a\n\n', [['', 'a']]],
  [
    'no blank line at the end',
    'data: a\n\ndata: [DONE]',
    [
      ['', 'a'],
      ['', '[DONE]'],
    ],
  ],
  ['empty data', 'data:\n\n', [['', '']]],
];
for (const [name, text, expected] of cases) {
  test(`the parser reads ${name}`, () => assert.deepEqual(eventsIn(text), expected));
}

const line = fc.string({ unit: 'grapheme', maxLength: 12 }).map((s) => s.replace(/[\r\n]/g, ''));
const blockText = fc
  .tuple(
    fc.array(fc.tuple(fc.constantFrom('data: ', 'data:', 'event: ', ': ', 'x: ', ''), line), {
      maxLength: 4,
    }),
    fc.constantFrom('\n', '\r\n', '\r'),
  )
  .map(([lines, end]) => `${lines.map(([head, text]) => head + text + end).join('')}${end}`);
const streamText = fc.array(blockText, { maxLength: 6 }).map((blocks) => blocks.join(''));

test('however a stream is split, it yields the same blocks and every byte', () => {
  fc.assert(
    fc.property(streamText, fc.array(fc.nat(), { maxLength: 20 }), (text, cuts) => {
      const bytes = Buffer.from(text);
      const whole = parseAll(bytes);
      const cut = parseAll(bytes, cuts);
      const pick = (blocks: SseBlock[]) =>
        blocks.filter((b) => b.data !== null).map(({ event, data }) => ({ event, data }));
      assert.deepEqual(pick(cut), pick(whole));
      assert.deepEqual(Buffer.concat(cut.map((block) => block.raw)), bytes);
    }),
    { numRuns: 500 },
  );
});

test('what is written is read back', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme' }), fc.nat(), (data, cut) => {
      const blocks = parseAll(Buffer.from(writeSse({ event: 'e', data })), [cut]);
      const [block] = blocks.filter((b) => b.data !== null);
      assert.deepEqual(block?.data, data.replace(/\r\n|\r/g, '\n'));
      assert.equal(block?.event, 'e');
    }),
  );
});

test('an event that does not end is aborted at the limit', () => {
  const parser = new SseParser({ blockBytesMax: 100 });
  parser.push(Buffer.from('data: short\n\n'));
  assert.throws(
    () => {
      for (let i = 0; i < 100; i++) parser.push(Buffer.from('data: more\n'));
    },
    (error) => error instanceof Fault && error.code === 'provider_malformed',
  );
});
