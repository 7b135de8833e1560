// Call ids: toold and modeld recognize the ids that the runner derives as those of its run.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { deriveId } from '../../src/platform/ids.ts';
import { deriveCallId } from '../../src/runner/loop.ts';
import { isCallOfRun, makeCallId } from '../../src/wire/call-id.ts';
import { CallId } from '../../src/wire/primitives.ts';

test('an id is derived from its position in the run and belongs to that run only', () => {
  const position = fc.tuple(
    fc.constantFrom('m' as const, 't' as const),
    fc.nat(32_767),
    fc.nat(1_023),
  );
  fc.assert(
    fc.property(fc.nat(), fc.nat(), position, (one, other, [kind, step, index]) => {
      const [run, another] = [one, other].map((n) => deriveId<string>('run', n)) as [
        string,
        string,
      ];
      const id = deriveCallId(run, kind, step, index);
      assert.equal(id, makeCallId(run, kind, step, index));
      assert.ok(CallId.safeParse(id).success);
      assert.ok(isCallOfRun(run, id));
      assert.equal(isCallOfRun(another, id), one === other);
    }),
  );
});
