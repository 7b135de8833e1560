// A backup has the memories of its instant, with their journal, their long texts and the proposals
// among them, and a restored runtime recalls them and lets people decide.
import assert from 'node:assert/strict';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, it } from 'node:test';
import { makeReviewer } from '../../src/daemons/approvald/testing/reviewer.ts';
import type { MemoryView } from '../../src/wire/memoryd/records.ts';
import { ctlJson } from '../support/backups.ts';
import { assertReconciled } from '../support/reconcile.ts';
import { eventually, freshDir, startRuntime, type TestRuntime } from '../support/runtime.ts';

const base = freshDir();
const dir = join(base, 'backup');
let runtime: TestRuntime;
before(async () => {
  runtime = await startRuntime({ base, mode: 'embedded' });
});
after(() => runtime.remove());

const LONG = `Herons at the long lake. ${'And so on. '.repeat(600)}`;
const remember = async (text: string) => {
  const body = { class: 'semantic', scope: 'team', text } as const;
  return (await runtime.memoryd.remember({ body })).memory;
};
const recall = async () => {
  const { memories } = await runtime.memoryd.recall({ body: { query: 'herons' } });
  return memories.map(({ text }) => text).toSorted();
};

it('[R30] a restored runtime recalls what was remembered before the backup', async () => {
  const forgotten = await remember('Herons to forget.');
  await remember('Herons eat fish.');
  await remember(LONG);
  await runtime.memoryd.forget({ body: { ids: [forgotten.id] } });
  await ctlJson(runtime, ['backup', dir]);
  await remember('Herons after the backup.');
  assert.equal((await recall()).length, 3);
  await runtime.stop();
  rmSync(runtime.stateDir, { recursive: true });
  await ctlJson(runtime, ['restore', dir]);
  runtime = await runtime.restart();
  assert.deepEqual(await recall(), ['Herons eat fish.', LONG].toSorted());
  assert.deepEqual((await runtime.memoryd.rebuildMemory({})).problems, []);
  assert.deepEqual(await recall(), ['Herons eat fish.', LONG].toSorted());
  const { memory } = await runtime.memoryd.getMemory({ params: { id: forgotten.id } });
  assert.deepEqual([memory.status, memory.text], ['forgotten', null]);
  await remember('Herons after the restore.');
  assert.equal((await recall()).length, 3);
  await eventually('journal and log to agree', () => assertReconciled(runtime));
});

it('proposals of the backup wait again for a decision after the restore', async () => {
  const propose = async (text: string) => {
    const body = { class: 'semantic', scope: 'team', text } as const;
    return (await runtime.memoryd.proposeMemory({ body })).memory;
  };
  const approvalOf = (id: string) =>
    eventually('its approval', async () => {
      const query = { status: 'pending', limit: 100 } as const;
      const { approvals } = await runtime.approvald.listApprovals({ query });
      return approvals.find(({ memory }) => memory?.memory_id === id);
    });
  const statusOf = async ({ id }: { id: MemoryView['id'] }) =>
    (await runtime.memoryd.getMemory({ params: { id } })).memory.status;
  const one = await propose('Egrets nest in May.');
  const two = await propose('Egrets nest in June.');
  const three = await propose('Egrets nest in July.');
  const before = await approvalOf(one.id);
  await ctlJson(runtime, ['backup', dir]);
  await runtime.memoryd.approveMemories({ body: { ids: [one.id, two.id] } });
  const later = await propose('Egrets nest in August.');
  assert.deepEqual(await Promise.all([one, two, later].map(statusOf)), [
    'active',
    'active',
    'proposed',
  ]);
  await runtime.stop();
  rmSync(runtime.stateDir, { recursive: true });
  await ctlJson(runtime, ['restore', dir]);
  runtime = await runtime.restart();
  assert.deepEqual(await Promise.all([one, two, three].map(statusOf)), Array(3).fill('proposed'));
  const { id } = await approvalOf(one.id);
  assert.equal(id, before.id, 'the same approval');
  await makeReviewer(runtime.approvald).approve({ params: { id }, body: {} });
  await runtime.memoryd.rejectMemories({ body: { ids: [two.id] } });
  await eventually('the decision', async () => (await statusOf(one)) === 'active' || undefined);
  assert.deepEqual(await Promise.all([two, three].map(statusOf)), ['rejected', 'proposed']);
  const { memories } = await runtime.memoryd.recall({ body: { query: 'egrets' } });
  assert.deepEqual(
    memories.map(({ text }) => text),
    ['Egrets nest in May.'],
  );
  await eventually('journal and log to agree', () => assertReconciled(runtime));
});
