// Quotes of the thread itself are left out of a message; other quotes stay.
import assert from 'node:assert/strict';
import { it } from 'node:test';
import { removeQuotes } from './quoted-text.ts';
import { shorten, writeDigest } from './thread-digest.ts';

const SAID = ['Shall we use SQLite?\nIt is small.', 'Yes, but measure it.'];

it('quoted lines of the thread go, with what introduces them', () => {
  const text = 'agent:ping wrote:\n> Shall we use SQLite?\n> It is small.\n\nI measured it: fast.';
  assert.deepEqual(removeQuotes(text, SAID), { text: 'I measured it: fast.', removed: 2 });
});

it('quotes of quotes go, whoever said it', () => {
  const text = '> agent:pong wrote:\n> > On Monday ping wrote:\n> >> Hello\nNew.';
  assert.deepEqual(removeQuotes(text, []), { text: 'New.', removed: 3 });
});

it('a quote of something else and lines of code stay', () => {
  const quote = 'The manual says:\n> Never call it twice.\nSo we do not.';
  assert.deepEqual(removeQuotes(quote, SAID), { text: quote, removed: 0 });
  const code = '```\n> > nested prompt\n> Shall we use SQLite?\n```';
  assert.deepEqual(removeQuotes(code, SAID), { text: code, removed: 0 });
});

it('a message that only quotes becomes empty', () => {
  assert.deepEqual(removeQuotes('> Yes, but measure it.', SAID), { text: '', removed: 1 });
});

it('a digest has the last lines, each short', () => {
  const lines = Array.from({ length: 10 }, (_, n) => ({ who: 'agent:a', text: `line ${n}` }));
  const text = writeDigest('Earlier', [...lines, { who: 'b', text: null, outcome: 'failed' }]);
  assert.equal(text.split('\n').length, 9);
  assert.match(text, /^Earlier \(the last 8 of 11\):\n- agent:a: line 3\n/);
  assert.match(text, /- b: \(not shown\) → failed$/);
  assert.equal(shorten(`a\nb\n\nc`), 'a b');
  assert.ok(shorten('x'.repeat(1_000)).length <= 201);
});
