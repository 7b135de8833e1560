// A restore is recorded once, and flags the task trees that were open: their later subtasks and
// retries included, ended and new ones not. On both databases.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DATABASES, delegate, done, makeCall, makeSubtask, world } from './testing.ts';

const RESTORE = {
  backup: 'backup_1',
  taken_at: '2025-12-31T12:00:00.000Z',
  restored_at: '2026-01-01T00:00:00.000Z',
  events: 7,
  root: 'r',
  manifest_sha256: 'm',
  changed_trees: [] as string[],
};

for (const [name, open] of Object.entries(DATABASES)) {
  test(`the flag goes with its tree, on ${name}`, async () => {
    const it = await world(open);
    const { store } = it;
    const task = await it.task();
    await store.recordRestore(RESTORE);
    await store.cancelTask(task.id, 'no', 'person:alice');
    assert.ok((await store.restoredTree(task.id)) !== undefined);
    const order = { cause: 'x', by: 'person:alice', rules: '' };
    const endedBeforeMs = Number.MAX_SAFE_INTEGER;
    const pruned = await store.pruneTree({ ...order, rootTaskId: task.id, endedBeforeMs });
    assert.ok('counts' in pruned);
    assert.equal(await store.restoredTree(task.id), undefined);
    await store.close();
  });

  test(`a restore flags the trees of open tasks, once, on ${name}`, async () => {
    const it = await world(open);
    const { store } = it;
    const [ended, running, blocker] = [await it.task(), await it.task(), await it.task()];
    const blocked = await it.task({ after: [blocker.id] });
    const { run } = (await it.claim()).find(({ task }) => task.id === ended.id)!;
    await store.finish(makeCall(run), done('x'));
    const restore = { ...RESTORE, changed_trees: [running.id, 'task_of_nobody'] };
    assert.equal(await store.recordRestore(restore), 3);
    assert.equal(await store.recordRestore(restore), undefined, 'as after a crash');
    const flag = { backup: 'backup_1', takenAt: RESTORE.taken_at };
    assert.equal(await store.restoredTree(ended.id), undefined);
    assert.deepEqual(await store.restoredTree(running.id), { ...flag, changed: true });
    assert.deepEqual(await store.restoredTree(blocked.id), { ...flag, changed: false });
    const later = await it.task();
    assert.equal(await store.restoredTree(later.id), undefined);
    assert.ok(await store.outbox.drain(20_000));
    const events = it.events.filter(({ event }) => event === 'runtime.restored');
    const { taken_at, events: size, root, manifest_sha256 } = RESTORE;
    assert.deepEqual(
      events.map(({ data }) => data),
      [{ backup: 'backup_1', taken_at, events: size, root, manifest_sha256, open_trees: 3 }],
    );
    await store.close();
  });

  test(`subtasks and retries of a restored tree are restored too, on ${name}`, async () => {
    const it = await world(open);
    const { store } = it;
    const parent = await it.task();
    const { run } = (await it.claim())[0]!;
    await store.recordRestore(RESTORE);
    const child = makeSubtask(parent, `task_${'1'.repeat(26)}`);
    const { task } = await delegate(store, makeCall(run), child);
    assert.equal((await store.restoredTree(task.root_task_id))?.backup, 'backup_1');
    await store.cancelTask(parent.id, 'x', 'person:alice');
    const retry = await it.task({ retryOf: parent.id });
    assert.equal((await store.restoredTree(retry.id))?.backup, 'backup_1');
    const other = await it.task();
    await store.cancelTask(other.id, 'x', 'person:alice');
    const plain = await it.task({ retryOf: other.id });
    assert.equal(await store.restoredTree(plain.id), undefined);
    await store.close();
  });

  test(`a second restore counts from its own backup on, on ${name}`, async () => {
    const it = await world(open);
    const { store } = it;
    const task = await it.task();
    await store.recordRestore({ ...RESTORE, changed_trees: [task.id] });
    const second = { ...RESTORE, backup: 'backup_2', taken_at: '2026-01-01T00:00:00.000Z' };
    await store.recordRestore(second);
    assert.deepEqual(await store.restoredTree(task.id), {
      backup: 'backup_2',
      takenAt: second.taken_at,
      changed: true,
    });
    await store.close();
  });
}
