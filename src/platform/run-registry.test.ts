// The run registry: only the activation with the highest fence may call, and one that has ended
// never comes back, whatever the order of admissions, dismissals and restarts.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { isFault, type RunSockets } from './daemon.ts';
import { isStale, type Mode, makeDisk, RUN, start, TASK, turns } from './testing/run-registry.ts';

describe('a fence', () => {
  it('of a newer activation makes the older one stale, for its calls and its admission', async () => {
    const { admit, call, seen } = start(makeDisk());
    await admit(1);
    assert.equal(call(1).loaded, 1);
    const older = call(1);
    await admit(2);
    assert.equal(call(2).taskId, TASK);
    assert.throws(() => call(1), isStale);
    assert.ok(isStale(older.ended), 'a call that waits can see it');
    await assert.rejects(admit(1), isStale);
    assert.equal(call(2).ended, undefined);
    assert.throws(() => call(3), isStale);
    const expected = ['load 1 after none', 'open live 1', 'replaced 1 stale_fence'];
    assert.deepEqual(seen, [...expected, 'load 2 after 1', 'open live 2']);
  });

  it('that is equal repeats the same admission', async () => {
    const { admit, call, seen } = start(makeDisk());
    const socket = await admit(1);
    const run = call(1);
    assert.equal(await admit(1), socket);
    assert.equal(call(1), run);
    assert.equal(seen.length, 2);
  });

  it('that was dismissed never comes back, also after a restart', async () => {
    const disk = makeDisk();
    const first = start(disk);
    await first.admit(1);
    const run = first.call(1);
    assert.equal(await first.dismiss(1), true);
    assert.ok(isFault(run.ended, 'canceled'));
    assert.throws(() => first.call(1), isStale);
    assert.throws(() => first.registry.live(RUN), isStale);
    await assert.rejects(first.admit(1), isStale);
    assert.equal(await first.dismiss(1), false);
    const second = start(disk);
    await second.registry.reopen();
    assert.throws(() => second.call(1), isStale);
    await assert.rejects(second.admit(1), isStale);
    await second.admit(2);
    assert.equal(second.call(2), second.registry.live(RUN));
  });

  it('that was dismissed before its admission arrived is stale, the next one is not', async () => {
    const { admit, dismiss, call } = start(makeDisk());
    assert.equal(await dismiss(1), false);
    await assert.rejects(admit(1), isStale);
    await admit(2);
    assert.equal(await dismiss(1), false);
    assert.equal(call(2).fence, 2);
  });

  it('of an older activation is stale while the newer one is still being loaded', async () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    let waits = false;
    const { admit, call, registry } = start(makeDisk(), {
      load: () => (waits ? promise : Promise.resolve()),
    });
    await admit(1);
    waits = true;
    const newer = admit(2);
    await turns(5);
    assert.throws(() => call(1), isStale);
    assert.throws(() => call(2), isStale);
    assert.throws(() => registry.live(RUN), isStale);
    resolve();
    await newer;
    assert.equal(call(2), registry.live(RUN));
  });

  it('stays the highest when what follows its admission fails', async () => {
    let fails = false;
    const { admit, call } = start(makeDisk(), {
      load: () => (fails ? Promise.reject(new Error('no disk')) : Promise.resolve()),
    });
    await admit(1);
    fails = true;
    await assert.rejects(admit(2), /no disk/);
    assert.throws(() => call(1), isStale);
    await assert.rejects(admit(1), isStale);
    fails = false;
    await admit(2);
    assert.equal(call(2).fence, 2);
  });
});

describe('a dismissal', () => {
  it('ends the activation whose admission is in progress', async () => {
    const { promise, resolve } = Promise.withResolvers<string>();
    const { admit, dismiss, call, seen } = start(makeDisk(), { open: () => promise });
    const admitted = admit(1);
    await turns(5);
    const dismissed = dismiss(1);
    assert.throws(() => call(1), isStale);
    resolve('/run/late');
    await admitted;
    assert.equal(await dismissed, true);
    assert.throws(() => call(1), isStale);
    await turns(2);
    const ends = ['dismissed 1 canceled', 'close live 1', 'closed 1'];
    assert.deepEqual(seen, ['load 1 after none', 'open live 1', ...ends]);
  });

  it('of an older fence leaves the newer activation alone', async () => {
    const { admit, dismiss, call } = start(makeDisk());
    await admit(5);
    assert.equal(await dismiss(4), false);
    assert.equal(call(5).fence, 5);
  });

  it('does not close the socket of a later activation', async () => {
    const { admit, dismiss, seen } = start(makeDisk());
    await admit(1);
    await Promise.all([dismiss(1), admit(2)]);
    await turns(2);
    assert.ok(!seen.includes('close live 2') && seen.includes('closed 1'));
    await dismiss(2);
    await turns(2);
    assert.ok(seen.includes('close live 2') && seen.includes('closed 2'));
  });
});

describe('after a restart', () => {
  it('live runs are opened again', async () => {
    const disk = makeDisk();
    await start(disk).admit(3);
    const { registry, call, seen } = start(disk);
    await registry.reopen();
    assert.equal(call(3).loaded, 3);
    assert.ok(seen.includes('open live 3'));
  });

  it('a run that is dismissed or admitted meanwhile is not opened with its old row', async () => {
    for (const later of [1, 2]) {
      const disk = makeDisk();
      await start(disk).admit(1);
      const { registry, admit, dismiss, call } = start(disk);
      const reopened = registry.reopen();
      const ended = later === 1 ? dismiss(1) : admit(2).then(() => dismiss(2));
      await Promise.all([reopened, ended]);
      assert.throws(() => call(1), isStale);
    }
  });
});

describe('a replay', () => {
  it('repeats the fence of an ended activation, and does not make it live', async () => {
    const { admit, dismiss, call, registry } = start(makeDisk());
    await admit(2);
    await dismiss(2);
    for (let times = 0; times < 2; times++) {
      await admit(2, 'replay');
      assert.equal(call(2, 'replay').mode, 'replay');
      assert.throws(() => call(2), isStale);
      assert.deepEqual(registry.activations(RUN), [call(2, 'replay')]);
      assert.equal(await dismiss(2), true);
      assert.throws(() => call(2, 'replay'), isStale);
    }
    await assert.rejects(admit(1, 'replay'), isStale);
  });

  it('of an older fence is refused and leaves the newer replay and the run alone', async () => {
    const { admit, call } = start(makeDisk());
    await admit(2);
    await admit(4, 'replay');
    await assert.rejects(admit(3, 'replay'), isStale);
    await assert.rejects(admit(1, 'replay'), isStale);
    assert.equal(call(4, 'replay').fence, 4);
    assert.equal(call(2).fence, 2);
  });
});

const FENCE_MAX = 5;
const fence = fc.integer({ min: 1, max: FENCE_MAX });
const mode = fc.constantFrom<Mode>('live', 'live', 'replay');
const op = fc.oneof(
  { weight: 4, arbitrary: fc.record({ op: fc.constant('admit' as const), fence, mode }) },
  { weight: 4, arbitrary: fc.record({ op: fc.constant('dismiss' as const), fence }) },
  { weight: 1, arbitrary: fc.record({ op: fc.constant('restart' as const) }) },
);
/** Each operation starts this many ticks after the one before, whether that has ended or not. */
const script = fc.array(fc.tuple(op, fc.nat({ max: 6 })), { minLength: 1, maxLength: 25 });

type Row = { fence: number; isLive: boolean };
const NONE: Row = { fence: 0, isLive: false };

/** The expected row after an operation, or undefined when it is refused. */
function afterOp(row: Row, done: { op: 'admit' | 'dismiss'; fence: number; mode?: Mode }) {
  if (done.op === 'dismiss')
    return done.fence >= row.fence ? { fence: done.fence, isLive: false } : row;
  if (done.mode === 'replay') return row;
  const isAllowed = done.fence > row.fence || (done.fence === row.fence && row.isLive);
  return isAllowed ? { fence: done.fence, isLive: true } : undefined;
}

it('no call under a stale fence is ever accepted, in any order of events', async () => {
  let accepted = 0;
  await fc.assert(
    fc.asyncProperty(script, fc.infiniteStream(fc.nat({ max: 3 })), async (steps, delays) => {
      const disk = makeDisk(() => delays.next().value);
      /** Acknowledged to agentd: activations up to here, or below, have ended. */
      let endedUpTo = 0;
      let highest = 0;
      /** Requested and not acknowledged, in order: a restart finds the first one done or not. */
      let pending: Parameters<typeof afterOp>[1][] = [];
      let model: Row = NONE;
      const assertFresh = (own: number, what: string): void => {
        assert.ok(own > endedUpTo, `${what} under ${own}, dismissed up to ${endedUpTo}`);
        assert.ok(own >= highest, `${what} under ${own}, ${highest} was admitted`);
      };
      const open: RunSockets['open'] = async (caller) => {
        if (caller.mode === 'live') assertFresh(caller.fence, 'a socket');
        await turns(delays.next().value);
        return '/run';
      };
      const load = () => turns(delays.next().value);
      let life = start(disk, { open, load });
      const callAll = (): void => {
        for (let own = 1; own <= FENCE_MAX; own++) {
          try {
            assert.equal(life.call(own).fence, own);
          } catch (error) {
            if (isStale(error)) continue;
            throw error;
          }
          assertFresh(own, 'a call');
          accepted++;
        }
      };
      let running: Promise<void>[] = [];
      const run = async (one: (typeof pending)[number], started: typeof life): Promise<void> => {
        pending.push(one);
        const work =
          one.op === 'admit' ? started.admit(one.fence, one.mode) : started.dismiss(one.fence);
        const isDone = await work.then(
          () => true,
          (error: unknown) => {
            if (!isStale(error)) throw error;
            return false;
          },
        );
        // A process that was killed meanwhile acknowledges nothing.
        if (started !== life) return;
        pending.shift();
        const next = afterOp(model, one);
        if (one.op === 'dismiss') endedUpTo = Math.max(endedUpTo, one.fence);
        else if (one.mode === 'live') {
          assert.equal(isDone, next !== undefined, `admission under ${one.fence}`);
          if (isDone) highest = Math.max(highest, one.fence);
        }
        model = next ?? model;
        callAll();
      };
      for (const [step, waits] of steps) {
        if (step.op === 'restart') {
          life.kill();
          const found = disk.row() ?? NONE;
          const possible = [model, pending[0] && afterOp(model, pending[0])];
          const isPossible = possible.some(
            (row) => row?.fence === found.fence && row.isLive === found.isLive,
          );
          assert.ok(isPossible, `a restart finds ${JSON.stringify(found)}`);
          [model, pending, running] = [found, [], []];
          life = start(disk, { open, load });
          running.push(life.registry.reopen());
        } else running.push(run(step, life));
        for (let i = 0; i < waits; i++) {
          await turns(1);
          callAll();
        }
      }
      await Promise.all(running);
      for (let own = 1; own <= FENCE_MAX; own++) {
        const isCurrent = model.isLive && model.fence === own;
        if (isCurrent) assert.equal(life.call(own).fence, own);
        else assert.throws(() => life.call(own), isStale);
      }
    }),
    { numRuns: 300 },
  );
  assert.ok(accepted > 0, 'control: calls under the current fence are accepted');
});
