// A forgotten text is found however it was escaped, spaced or cut, and nothing else is touched.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { FORGOTTEN, toForgottenMemory } from '../../wire/copies.ts';
import { makeRedactor } from './redact.ts';

const ID = 'memory_01h00000000000000000000000';
const redactorOf = (...texts: string[]) => makeRedactor([toForgottenMemory(ID, texts)]);
const TEXT = 'The "osprey" key lies\nunder C:\\stones\\third, said 東京 (a.b*).';

describe('redacting forgotten texts', () => {
  const { redactText, redactColumn, redactBytes } = redactorOf(TEXT);

  it('finds the text in prose, and leaves the rest', () => {
    assert.equal(
      redactText(`He said: ${TEXT} Twice: ${TEXT}`),
      `He said: ${FORGOTTEN} Twice: ${FORGOTTEN}`,
    );
    for (const other of [
      '',
      'The "osprey" key lies under a roof.',
      TEXT.replace('third', 'fourth'),
    ])
      assert.equal(redactText(other), other);
  });

  it('finds it with other white space', () => {
    assert.equal(redactText(TEXT.replaceAll(' ', '  ').replace('\n', ' ')), FORGOTTEN);
  });

  it('finds it in JSON, and in JSON in JSON, which stay JSON', () => {
    const once = { a: [1, { b: `x ${TEXT}` }], c: null };
    const twice = { content: JSON.stringify(once), other: 'kept' };
    const thrice = { content: `cut ${JSON.stringify(twice)}`.slice(0, -3) };
    assert.deepEqual(JSON.parse(redactColumn(JSON.stringify(once))), {
      a: [1, { b: `x ${FORGOTTEN}` }],
      c: null,
    });
    const read = JSON.parse(redactColumn(JSON.stringify(twice))) as typeof twice;
    assert.deepEqual(JSON.parse(read.content), { a: [1, { b: `x ${FORGOTTEN}` }], c: null });
    assert.equal(read.other, 'kept');
    const deep = redactColumn(JSON.stringify(thrice));
    assert.ok(!deep.includes('osprey') && deep.includes(FORGOTTEN), deep);
    assert.equal(redactColumn('{"a":1.50}'), '{"a":1.50}', 'unchanged to the byte');
  });

  it('finds its beginning where another text ends with it', () => {
    assert.equal(redactText('Re: The "osprey" key lies'), `Re: ${FORGOTTEN}`);
    assert.equal(redactText('Re: The "osprey" key li …'), `Re: ${FORGOTTEN}`);
    for (const other of ['Re: The "osprey" is ill', 'The "osprey" key'.slice(0, 12)])
      assert.equal(redactText(other), other);
  });

  it('finds it as a key', () => {
    assert.equal(redactColumn(JSON.stringify({ [TEXT]: 1 })), JSON.stringify({ [FORGOTTEN]: 1 }));
  });

  it('finds it by the id of the memory, also where it is short or was cut', () => {
    const short = redactorOf('Tea.');
    const recalled = {
      memories: [
        { id: ID, text: 'Tea.', ref: null },
        { id: 'other', text: 'Tea.' },
      ],
    };
    const gone = {
      memories: [
        { id: ID, text: FORGOTTEN, ref: null },
        { id: 'other', text: 'Tea.' },
      ],
    };
    assert.deepEqual(JSON.parse(short.redactColumn(JSON.stringify(recalled))), gone);
    const inContext = JSON.stringify({ content: JSON.stringify(recalled) });
    assert.deepEqual(JSON.parse(JSON.parse(short.redactColumn(inContext)).content), gone);
    assert.equal(short.redactText('I drink Tea.'), 'I drink Tea.', 'too short to look for');
    const cut = `${JSON.stringify({ memories: [{ id: ID, text: TEXT }] }).slice(0, -20)}\n[9 characters left out]`;
    const read = JSON.parse(redactColumn(JSON.stringify({ content: cut }))) as { content: string };
    assert.ok(!read.content.includes('osprey'), read.content);
    assert.match(read.content, /\[forgotten\]\n\[9 characters left out\]$/);
  });

  it('a long text goes with what follows its beginning', () => {
    const long = `Begin ${'of a long story '.repeat(1_000)}end.`;
    assert.equal(redactorOf(long).redactText(`x ${long}`), `x ${FORGOTTEN}`);
  });

  it('replaces bytes that are no text as a whole', () => {
    assert.equal(redactBytes(Buffer.from(`a ${TEXT} b`)).toString(), `a ${FORGOTTEN} b`);
    const binary = Buffer.concat([Buffer.from([0xff, 0xfe, 0]), Buffer.from(TEXT)]);
    assert.equal(redactBytes(binary).toString(), FORGOTTEN);
    const other = Buffer.from([0xff, 1, 2]);
    assert.equal(redactBytes(other), other);
  });

  it('every piece to look for in files is one of the text', () => {
    const pieces = redactorOf(
      'x'.repeat(15),
      'Under the third stone of the old bridge.',
    ).listTraces();
    assert.deepEqual(pieces.map(String), ['Under the third stone of the old']);
  });
});
