// Terms of texts in many scripts.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { fold, termsOf, wordsOf } from './tokens.ts';

const shares = (text: string, query: string): boolean => {
  const has = new Set(termsOf(text));
  return termsOf(query).some((term) => has.has(term));
};

describe('text: terms', () => {
  it('folds case, accents, width, quotes and invisible characters', () => {
    assert.equal(fold('Café ＡＢＣ “x” İstanbul Straße'), 'cafe abc "x" istanbul strasse');
    assert.equal(fold('co\u00adop\u200b \ufeffΣίσυφος'), 'coop σισυφοσ');
    assert.equal(fold('it’s'), "it's");
  });

  it('keeps marks that are letters', () => {
    assert.equal(fold('ガ'), 'ガ');
    assert.equal(fold('हिन्दी').length, 'हिन्दी'.length);
  });

  it('splits at punctuation, and keeps a compound and its parts', () => {
    assert.deepEqual(wordsOf('src/main.ts, v1.2!'), [
      'src',
      'main.ts',
      'main',
      'ts',
      'v1.2',
      'v1',
      '2',
    ]);
    assert.deepEqual(wordsOf("don't stop"), ["don't", 'stop']);
  });

  it('drops words that say nothing, unless there are no others', () => {
    assert.deepEqual(termsOf('The cat and the hat'), ['cat', 'hat']);
    assert.deepEqual(termsOf('To be or not'), ['to', 'be', 'or', 'not']);
    assert.deepEqual(termsOf(' …!? '), []);
  });

  it('finds words of Chinese, Japanese and Korean inside longer ones', () => {
    assert.ok(shares('東京都に住んでいます', '東京'));
    assert.ok(shares('我喜欢喝绿茶', '茶'));
    assert.ok(shares('서울에서 친구를 만났다', '서울'));
    assert.ok(shares('カタカナテスト', 'テスト'));
    assert.ok(!shares('大阪に住んでいます', '東京'));
  });

  it('finds Arabic without vowel points, Thai words and accented words', () => {
    assert.ok(shares('ذَهَبَ إلى المَدرَسَة', 'المدرسة'));
    assert.ok(shares('ฉันชอบกินข้าวผัด', 'กิน'));
    assert.ok(shares('naïve façade', 'facade'));
  });

  it('finds pictures in any skin tone and variant', () => {
    assert.ok(shares('great 👍🏽 work', '👍'));
    assert.ok(shares('I ❤️ it', '❤'));
    assert.ok(shares('family: 👩‍👩‍👧', '👩‍👩‍👧'));
    assert.ok(shares('from 🇫🇷', '🇫🇷'));
  });

  it('survives broken text and cuts long words', () => {
    assert.deepEqual(termsOf('\ud800 word'), ['word']);
    assert.equal(wordsOf('x'.repeat(10_000))[0]!.length, 64);
  });

  it('reads the beginning and the end of very long texts', () => {
    const terms = new Set(termsOf(`first ${'middle '.repeat(200_000)} last`));
    assert.ok(terms.has('first') && terms.has('last'));
    assert.ok(termsOf('word '.repeat(2_000_000)).length < 200_000);
  });
});
