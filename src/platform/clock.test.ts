// Clocks: the system clock never goes back, and timers fire in order and not early.
import assert from 'node:assert/strict';
import { describe, it, mock } from 'node:test';
import fc from 'fast-check';
import { manualClock, systemClock, toTimestamp } from './clock.ts';

/** The system clock on a machine whose wall clock and monotonic clock the test moves. */
function onMachine(work: (machine: { wall: number; mono: number }) => void): void {
  const machine = { wall: 1_800_000_000_000, mono: 1_000 };
  const wall = mock.method(Date, 'now', () => machine.wall);
  const mono = mock.method(performance, 'now', () => machine.mono);
  try {
    work(machine);
  } finally {
    wall.mock.restore();
    mono.mock.restore();
  }
}

describe('the system clock', () => {
  it('follows the wall clock', () => {
    onMachine((machine) => {
      const clock = systemClock();
      assert.equal(clock.nowMs(), 1_800_000_000_000);
      machine.wall += 5;
      machine.mono += 5;
      assert.equal(clock.nowMs(), 1_800_000_000_005);
      machine.wall += 3_600_000;
      assert.equal(clock.nowMs(), 1_800_003_600_005, 'also when it is set forward');
    });
  });

  it('keeps its pace when the wall clock is set back, until that has caught up', () => {
    onMachine((machine) => {
      const clock = systemClock();
      const start = clock.nowMs();
      machine.wall -= 3_600_000;
      assert.equal(clock.nowMs(), start);
      for (let i = 0; i < 1_000; i++) {
        machine.mono += 1.9;
        machine.wall += 1.9;
        clock.nowMs();
      }
      assert.ok(Math.abs(clock.nowMs() - start - 1_900) <= 1, `${clock.nowMs() - start}`);
      machine.wall = start + 10_000;
      assert.equal(clock.nowMs(), start + 10_000);
    });
  });

  it('never goes back, whatever the machine does', () => {
    const moves = fc.array(
      fc.record({
        wall: fc.integer({ min: -100_000, max: 100_000 }),
        mono: fc.double({ min: 0, max: 50, noNaN: true }),
      }),
    );
    fc.assert(
      fc.property(moves, (steps) => {
        onMachine((machine) => {
          const clock = systemClock();
          let last = clock.nowMs();
          let least = last;
          for (const { wall, mono } of steps) {
            machine.wall += wall;
            machine.mono += mono;
            least = machine.wall >= last ? machine.wall : least + mono;
            const now = clock.nowMs();
            assert.ok(Number.isInteger(now));
            assert.ok(now >= last);
            assert.ok(now >= least - 1, 'it does not stand still, either');
            last = now;
          }
        });
      }),
    );
  });

  it('runs timers not before their time, in order, and not when canceled', async () => {
    const clock = systemClock();
    const start = clock.nowMs();
    const fired: string[] = [];
    clock.at(start - 1_000, () => fired.push('past'));
    clock.at(start + 400, () => fired.push(`late ${clock.nowMs() >= start + 400}`));
    clock.at(start + 200, () => fired.push('soon'));
    clock.at(start + 200, () => fired.push('never')).cancel();
    const far = clock.at(start + 2 ** 40, () => fired.push('far'));
    await new Promise<void>((resolve) => {
      const look = setInterval(() => {
        if (fired.length < 3) return;
        clearInterval(look);
        resolve();
      }, 5);
    });
    far.cancel();
    assert.deepEqual(fired, ['past', 'soon', 'late true']);
  });
});

describe('the manual clock', () => {
  it('stands still until it is advanced, and fires due timers in order of time', () => {
    const clock = manualClock(1_000);
    const fired: string[] = [];
    clock.at(1_300, () => fired.push('c'));
    clock.at(1_100, () => fired.push('a'));
    clock.at(1_200, () => fired.push('b'));
    clock.at(1_150, () => fired.push('no')).cancel();
    assert.equal(clock.nowMs(), 1_000);
    clock.advance(250);
    assert.deepEqual(fired, ['a', 'b']);
    clock.advance(50);
    assert.deepEqual(fired, ['a', 'b', 'c']);
  });

  it('fires timers already due soon, but not inside the call', async () => {
    const clock = manualClock(1_000);
    let fired = false;
    clock.at(1_000, () => {
      fired = true;
    });
    assert.equal(fired, false);
    await Promise.resolve();
    assert.equal(fired, true);
  });

  it('a timer that arms the next one does not run twice', async () => {
    const clock = manualClock(0);
    const at: number[] = [];
    const again = (): void => {
      at.push(clock.nowMs());
      if (at.length < 5) clock.at(clock.nowMs() + 10, again);
    };
    clock.at(10, again);
    for (let i = 0; i < 10; i++) clock.advance(5);
    await Promise.resolve();
    assert.deepEqual(at, [10, 20, 30, 40, 50]);
  });

  it('writes timestamps in the format of the API', () => {
    assert.equal(toTimestamp(0), '1970-01-01T00:00:00.000Z');
  });
});
