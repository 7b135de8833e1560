// Test helper: checks that a daemon's rows of admitted runs behave as the run registry expects.
import assert from 'node:assert/strict';
import type { RunAdmission } from '../../wire/admission.ts';
import type { RunId } from '../../wire/primitives.ts';
import { deriveId } from '../ids.ts';
import type { RunRows } from '../run-registry.ts';
import type { Database } from '../sql/database.ts';

export async function assertRunRows<A extends RunAdmission>(
  db: Database,
  rows: RunRows<A>,
  admission: (runId: RunId, fence: number) => A,
): Promise<void> {
  const [one, two] = ['one', 'two'].map((name) => deriveId<RunId>('run', name)) as [RunId, RunId];
  const read = (runId: RunId) => db.read((sql) => rows.read(sql, runId));
  const save = (runId: RunId, fence: number) =>
    db.write((sql) => rows.save(sql, runId, admission(runId, fence)));
  const end = (runId: RunId, fence: number) => db.write((sql) => rows.end(sql, runId, fence));
  const live = () => db.read((sql) => rows.live(sql));

  assert.equal(await read(one), undefined);
  assert.deepEqual(await live(), []);
  await save(one, 1);
  await save(one, 3);
  assert.deepEqual(await read(one), { fence: 3, isLive: true });
  assert.deepEqual(await live(), [{ runId: one, admission: admission(one, 3) }]);
  await end(one, 5);
  assert.deepEqual(await read(one), { fence: 5, isLive: false });
  await end(two, 1);
  assert.deepEqual(
    await read(two),
    { fence: 1, isLive: false },
    'dismissed before it was admitted',
  );
  assert.deepEqual(await live(), []);
  await save(two, 2);
  await save(one, 6);
  assert.deepEqual(await read(two), { fence: 2, isLive: true });
  const admissions = (await live()).map((row) => row.admission.fence).sort();
  assert.deepEqual(admissions, [2, 6]);
}
