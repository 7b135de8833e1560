// How close together a record has the words of a question.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { termsOf } from '../../../platform/text/tokens.ts';
import { proximityOf } from './proximity.ts';
import { readQuestion } from './question.ts';

const question = await readQuestion('red sports car', 0, async () => false);
const terms = [...question.terms.keys()].map((term) => ({ term, idf: 2, parts: [] }));
const closeness = (text: string): number => proximityOf(termsOf(text), question, terms);

describe('memory index: proximity', () => {
  it('is the share of pairs that are near each other', () => {
    assert.equal(closeness('a red sports car'), 1);
    assert.equal(closeness('sports in a red shirt, by car'), 1);
    assert.equal(closeness('a red apple, then bread, jam, cheese, tea and a sports car'), 0.5);
    assert.equal(closeness('a red apple, then bread, jam, cheese and a car'), 0);
  });

  it('is 0 for a question of one word', async () => {
    const one = await readQuestion('red', 0, async () => false);
    assert.equal(proximityOf(['red'], one, terms), 0);
  });
});
