// Dates in questions and texts that tell a time, seen from a Wednesday.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { asksWhen, datesIn, fitOf, tellsTime } from './dates.ts';

const NOW = Date.parse('2024-03-13T12:00:00Z'); // A Wednesday.
const closeness = (question: string, day: string): number =>
  fitOf(datesIn(question, NOW), Date.parse(`${day}T18:00:00Z`));

describe('memory index: dates', () => {
  it('reads days, months and years in the usual forms', () => {
    for (const question of [
      'what happened on 2023-05-07?',
      'what happened on 7 may 2023?',
      'what happened on may 7th, 2023?',
      'what happened on the 7th of may, 2023?',
      'what happened in may 2023?',
      'what happened in may?',
      'what happened on may 7?',
    ]) {
      assert.equal(closeness(question, '2023-05-07'), 1, question);
      assert.equal(closeness(question, '2023-03-20'), 0, question);
    }
    assert.equal(closeness('what happened in 2023?', '2024-01-20'), 0);
    assert.ok(closeness('what happened in 2023?', '2023-01-20') > 0);
  });

  it('expects people to tell of a day soon after it', () => {
    assert.ok(closeness('on 7 may 2023', '2023-05-09') > closeness('on 7 may 2023', '2023-05-12'));
    assert.equal(closeness('on 7 may 2023', '2023-05-20'), 0);
    assert.ok(closeness('in may 2023', '2023-06-03') > 0);
  });

  it('reads spans relative to now', () => {
    assert.equal(closeness('what did i do yesterday?', '2024-03-12'), 1);
    assert.equal(closeness('what did i do yesterday?', '2024-03-08'), 0);
    assert.equal(closeness('what did i do last week?', '2024-03-05'), 1);
    assert.equal(closeness('what did i do last week?', '2024-02-10'), 0);
    assert.equal(closeness('what did we say three days ago?', '2024-03-10'), 1);
    assert.equal(closeness('what did we say last friday?', '2024-03-08'), 1);
    assert.equal(closeness('what did we say a month ago?', '2024-02-12'), 1);
  });

  it('takes dates out of the question, and leaves other words', () => {
    assert.equal(datesIn('what did ann paint in may 2023?', NOW).rest, 'what did ann paint in  ?');
    const dates = datesIn('may i march there?', NOW);
    assert.deepEqual([dates.spans, dates.months], [[], []]);
    assert.equal(dates.rest, 'may i march there?');
  });

  it('knows texts that tell a time, and questions for one', () => {
    assert.ok(tellsTime('i went there last summer'));
    assert.ok(tellsTime('it was two weeks ago'));
    assert.ok(!tellsTime('may i march there?'));
    assert.ok(asksWhen('when did it happen?'));
    assert.ok(asksWhen('how long did it take?'));
    assert.ok(!asksWhen('who was it?'));
  });
});
