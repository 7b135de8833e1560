// Stems of English words, compared with known ones.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { stem } from './stem.ts';

describe('text: stems', () => {
  it('stems as the Snowball stemmer for English does', () => {
    const expected = {
      caresses: 'caress',
      ponies: 'poni',
      ties: 'tie',
      cats: 'cat',
      gas: 'gas',
      kiwis: 'kiwi',
      agreed: 'agre',
      plastered: 'plaster',
      motoring: 'motor',
      hopping: 'hop',
      hoping: 'hope',
      falling: 'fall',
      happy: 'happi',
      enjoy: 'enjoy',
      relational: 'relat',
      conditional: 'condit',
      digitizer: 'digit',
      conformably: 'conform',
      vietnamization: 'vietnam',
      operator: 'oper',
      feudalism: 'feudal',
      decisiveness: 'decis',
      hopefulness: 'hope',
      formality: 'formal',
      triplicate: 'triplic',
      formative: 'format',
      electrical: 'electr',
      goodness: 'good',
      revival: 'reviv',
      allowance: 'allow',
      adjustable: 'adjust',
      replacement: 'replac',
      adoption: 'adopt',
      communism: 'communism',
      generously: 'generous',
      university: 'universiti',
      universe: 'univers',
      proceed: 'proceed',
      skies: 'sky',
      early: 'earli',
      controlling: 'control',
      consist: 'consist',
      consistency: 'consist',
      knightly: 'knight',
      youth: 'youth',
      boy: 'boy',
    };
    for (const [word, stemmed] of Object.entries(expected)) assert.equal(stem(word), stemmed, word);
  });

  it('replaces irregular forms first', () => {
    assert.equal(stem('went'), stem('go'));
    assert.equal(stem('children'), stem('child'));
    assert.equal(stem('bought'), stem('buying'));
    assert.equal(stem('written'), stem('writes'));
  });

  it('drops possessives', () => {
    assert.equal(stem("friend's"), 'friend');
    assert.equal(stem("friends'"), 'friend');
  });

  it('leaves words of other languages unchanged', () => {
    for (const word of ['москва', '東京', 'straßen', 'كتابها', '42nd', 'x86'])
      assert.equal(stem(word), word);
  });
});
