// A backup has the memories of its instant, with their journal and their long texts, and a restored
// runtime recalls them.
import assert from 'node:assert/strict';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, it } from 'node:test';
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

it('a restored runtime recalls what was remembered before the backup', async () => {
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
