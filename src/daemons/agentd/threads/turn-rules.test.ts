// Which turn an agent may take, and which texts are the same.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { isSameText } from './similar-text.ts';
import { checkTurn, countRepeats, type Exchange } from './turn-rules.ts';

const LIMITS = { turnsMax: 3, repeatsMax: 2, costMicrousdMax: 100 };
const says = (from: string, text: string) => ({ from, text });
const exchange = (more: Partial<Exchange> = {}): Exchange => ({
  turns: 0,
  stoppedBy: null,
  history: [],
  costMicrousd: undefined,
  ...more,
});

describe('turns', () => {
  it('counts who answers, and who begins', () => {
    const next = says('a', 'new');
    assert.deepEqual(checkTurn(exchange(), next, LIMITS), { turn: 1, isNew: true });
    const answered = exchange({ turns: 1, history: [says('b', 'x')] });
    assert.deepEqual(checkTurn(answered, next, LIMITS), { turn: 2, isNew: true });
    const again = exchange({ turns: 3, history: [says('a', 'x')] });
    assert.deepEqual(checkTurn(again, next, LIMITS), { turn: 3, isNew: false }, 'the same turn');
  });

  it('refuses the turn above each limit, and 0 is none', () => {
    const next = says('a', 'new');
    const full = exchange({ turns: 3, history: [says('b', 'x')] });
    assert.deepEqual(checkTurn(full, next, LIMITS), { refused: 'turns' });
    assert.deepEqual(checkTurn(full, next, { ...LIMITS, turnsMax: 0 }), { turn: 4, isNew: true });
    const costly = exchange({ costMicrousd: 100 });
    assert.deepEqual(checkTurn(costly, next, LIMITS), { refused: 'cost' });
    assert.ok('turn' in checkTurn(costly, next, { ...LIMITS, costMicrousdMax: 0 }));
    assert.ok('turn' in checkTurn(exchange({ costMicrousd: 99 }), next, LIMITS));
    const stopped = exchange({ stoppedBy: 'person:ann' });
    assert.deepEqual(checkTurn(stopped, next, LIMITS), { refused: 'stopped' });
    const circle = exchange({
      turns: 1,
      history: [says('a', 'ping'), says('b', 'pong'), says('a', 'ping'), says('b', 'pong')],
    });
    assert.deepEqual(checkTurn(circle, says('a', 'ping'), LIMITS), { refused: 'repeats' });
    assert.ok('turn' in checkTurn(circle, says('a', 'something else'), LIMITS));
    assert.ok('turn' in checkTurn(circle, says('a', 'ping'), { ...LIMITS, repeatsMax: 0 }));
  });

  it('counts repeats in a row, by either, and several messages of one as one', () => {
    const of = (...texts: string[]) => texts.map((text) => says(text[0]!, text.slice(1)));
    assert.equal(countRepeats(of('aping')), 0);
    assert.equal(countRepeats(of('ahello', 'bhello')), 1, 'an echo');
    assert.equal(countRepeats(of('aping', 'bpong', 'aping', 'bpong', 'aping')), 3);
    assert.equal(countRepeats(of('aping', 'bpong', 'aping', 'bnews')), 0, 'something new');
    assert.equal(countRepeats(of('a10 %', 'a10 %', 'a10 %', 'a10 %')), 0, 'nobody answers');
  });
});

describe('the same text', () => {
  const long = (word: string) =>
    `I have looked at all of the modules that you named and found nothing wrong in ${word} of them`;

  it('is one with the same words', () => {
    assert.ok(isSameText('What do you think?', 'what  do YOU think'));
    assert.ok(isSameText('…', ' … '));
    assert.ok(!isSameText('…', '!'));
    assert.ok(!isSameText('Yes, do it', 'No, do it'));
    assert.ok(!isSameText('', 'x'));
  });

  it('is, of longer ones, one with nine of ten words, and no other figures', () => {
    assert.ok(isSameText(long('each'), `${long('each')} today`));
    assert.ok(!isSameText(`${long('each')} 3`, `${long('each')} 4`), 'a figure that moves');
    assert.ok(!isSameText(long('each'), 'Something else entirely, which has as many words as it'));
  });
});
