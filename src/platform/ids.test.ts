// Ids: their format, their order by creation time, and derived ids.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { CallId, RunId, TaskId } from '../wire/primitives.ts';
import { manualClock } from './clock.ts';
import { deriveId, makeIdMaker } from './ids.ts';

const FORM = /^task_[0-9a-hjkmnp-tv-z]{26}$/;

describe('ids', () => {
  it('have the format that the API requires', () => {
    const newId = makeIdMaker(manualClock(Date.parse('2026-03-01T09:00:00Z')));
    for (let i = 0; i < 200; i++) {
      TaskId.parse(newId('task'));
      RunId.parse(newId('run'));
    }
  });

  it('of one maker grow strictly, whatever the clock does', () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: -5, max: 5 }), { maxLength: 200 }), (steps) => {
        let now = 1_800_000_000_000;
        const newId = makeIdMaker({ nowMs: () => now, at: () => ({ cancel() {} }) });
        let last = '';
        for (const step of steps) {
          now += step;
          const id = newId<string>('task');
          assert.match(id, FORM);
          assert.ok(id > last, `${id} > ${last}`);
          last = id;
        }
      }),
    );
  });

  it('of later makers sort after those of earlier times', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 0, max: 2 ** 47 }),
        fc.integer({ min: 1, max: 1e9 }),
        (at, d) => {
          const early = makeIdMaker(manualClock(at))<string>('task');
          const late = makeIdMaker(manualClock(at + d))<string>('task');
          assert.ok(early < late);
        },
      ),
    );
  });

  it('count up within a millisecond even from the highest random number', () => {
    const highest = (n: number) => new Uint8Array(n).fill(255);
    const newId = makeIdMaker(manualClock(1_800_000_000_000), highest);
    const ids = Array.from({ length: 10_000 }, () => newId<string>('task'));
    assert.deepEqual(ids.toSorted(), ids);
    assert.equal(new Set(ids).size, ids.length);
    for (const id of ids) assert.match(id, FORM);
  });

  it('of two makers in the same millisecond differ', () => {
    const clock = manualClock(1_800_000_000_000);
    const ids = Array.from({ length: 1_000 }, () => makeIdMaker(clock)<string>('task'));
    assert.equal(new Set(ids).size, ids.length);
  });

  it('derived: equal parts give equal ids, different parts different ones', () => {
    const words = fc.array(fc.oneof(fc.stringMatching(/^[a-z0-9_]*$/), fc.nat()), { minLength: 1 });
    fc.assert(
      fc.property(words, words, (a, b) => {
        const one = deriveId<string>('call', ...a);
        CallId.parse(one);
        assert.equal(one, deriveId('call', ...a));
        assert.equal(one === deriveId('call', ...b), a.join('\n') === b.join('\n'));
      }),
    );
    // Ids that runners of other versions recorded must be found again.
    assert.equal(
      deriveId('call', 'run_00000000000000000000000000', 'model', 0),
      'call_0zx53r3cbsa290pmnhwq77j3tz',
    );
  });
});
