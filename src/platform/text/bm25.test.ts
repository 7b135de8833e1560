// Ranking short texts by a question.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { makeTextRanking } from './bm25.ts';

const ranking = makeTextRanking([
  { id: 'bugs', text: 'Find the cause of a bug or a failing test' },
  { id: 'notes', text: 'Write release notes for users' },
  { id: 'threats', text: 'Model threats for users of a service' },
]);

test('the text with more and rarer words of the question comes first', () => {
  const found = ranking.rank('Our users want notes on the released version');
  assert.deepEqual(
    found.map(({ id }) => id),
    ['notes', 'threats'],
  );
  assert.deepEqual(found[0]!.telling, ['note', 'releas']);
  assert.deepEqual(found[1]!.telling, [], 'two of three texts speak of users');
  assert.ok(found[0]!.score > found[1]!.score);
});

test('a question with no common word, and an empty index, find nothing', () => {
  assert.deepEqual(ranking.rank('Bake bread'), []);
  assert.deepEqual(ranking.rank(''), []);
  assert.deepEqual(makeTextRanking([]).rank('a bug'), []);
});

test('equal texts keep one order', () => {
  const same = makeTextRanking(['b', 'a'].map((id) => ({ id, text: 'red fish' })));
  assert.deepEqual(
    same.rank('red').map(({ id }) => id),
    ['a', 'b'],
  );
});
