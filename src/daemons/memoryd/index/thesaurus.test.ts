// Words that stand for others: their form, and that kinds stand for their examples one way only.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { stem } from '../../../platform/text/stem.ts';
import { relatedTerms } from './thesaurus.ts';
import { GROUPS } from './thesaurus-groups.ts';
import { KINDS } from './thesaurus-kinds.ts';

const areRelated = (from: string, to: string): boolean => relatedTerms(stem(from)).has(stem(to));

describe('memory index: thesaurus', () => {
  it('relates words of a group both ways, whatever their form', () => {
    assert.ok(areRelated('movies', 'films'));
    assert.ok(areRelated('film', 'movie'));
    assert.ok(areRelated('deployed', 'release'));
  });

  it('relates a kind to its examples, and not the reverse', () => {
    assert.ok(areRelated('pets', 'turtle'));
    assert.ok(!areRelated('turtle', 'pets'));
    assert.equal(relatedTerms('turtl').size, 0);
  });

  it('has lines of single words in small letters', () => {
    for (const line of GROUPS.trim().split('\n')) assert.match(line, /^[a-z]+( [a-z]+)+$/);
    for (const line of KINDS.trim().split('\n')) assert.match(line, /^[a-z ]+:( [a-z]+)+$/);
  });

  it('relates no word to itself', () => {
    for (const word of GROUPS.trim().split(/\s+/)) assert.ok(!areRelated(word, word), word);
  });
});
