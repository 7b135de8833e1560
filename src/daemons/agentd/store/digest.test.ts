// Tasks as a digest reads them: those that ended since a time, questions, and unapplied layers.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import {
  DATABASES,
  delegate,
  done,
  makeCall,
  makeSubtask,
  type StoreWorld,
  world,
} from './testing.ts';

const START_MS = Date.parse('2026-01-01T00:00:00Z');
const error = { code: 'failed', message: 'It broke.', hint: 'x' };
const failed = { ...done('x'), status: 'failed' as const, error };
const page = (more: object = {}) => ({
  sinceMs: START_MS,
  untilMs: START_MS + 3_600_000,
  limit: 10,
  ...more,
});
/** Ends the task that starts next. */
async function endNext({ store, claim }: StoreWorld, ending: object = done('x'), costMicrousd = 5) {
  const [{ run, task }] = (await claim(1)) as [Awaited<ReturnType<typeof claim>>[number]];
  await store.finish(makeCall(run), { ...ending, costMicrousd } as never);
  return task.id;
}

for (const [name, open] of Object.entries(DATABASES)) {
  describe(`the digest on ${name}`, () => {
    it('has the root tasks that ended in its time, newest first, with the cost of their trees', async () => {
      const here = await world(open);
      const { store, task, advance } = here;
      await task();
      const early = await endNext(here);
      advance(60_000);
      const parent = await task();
      const [claimed] = await here.claim(1);
      const child = makeSubtask(parent, `task_${'1'.repeat(26)}`);
      await delegate(store, makeCall(claimed!.run), child);
      await endNext(here, done('x'), 40);
      await store.finish(makeCall(claimed!.run), { ...done('x'), costMicrousd: 2 } as never);
      advance(60_000);
      const canceled = await task();
      await store.cancelTask(canceled.id, 'x', 'person:alice');
      const { completed, canceled: count } = await store.digestTasks(page());
      assert.deepEqual(
        completed.tasks.map(({ id, cost_microusd }) => [id, cost_microusd]),
        [
          [parent.id, 42],
          [early, 5],
        ],
      );
      assert.deepEqual([completed.count, completed.more, count], [2, false, 1]);
      const late = await store.digestTasks(page({ sinceMs: START_MS + 1, limit: 1 }));
      assert.deepEqual(
        late.completed.tasks.map(({ id }) => id),
        [parent.id],
      );
      const before = await store.digestTasks(page({ untilMs: START_MS }));
      assert.deepEqual(
        before.completed.tasks.map(({ id }) => id),
        [early],
      );
      await store.close();
    });

    it('has failures with their reason, and the newest retry', async () => {
      const here = await world(open);
      const { store, task } = here;
      await task();
      const first = await endNext(here, failed);
      const again = await task({ retryOf: first });
      const { failed: found, completed } = await store.digestTasks(page());
      assert.deepEqual(
        found.tasks.map(({ id, reason, retried_as }) => [id, reason, retried_as]),
        [[first, 'It broke.', again.id]],
      );
      assert.equal(completed.count, 0);
      await store.close();
    });

    it('has tasks in a layer until somebody has applied or discarded it', async () => {
      const here = await world(open);
      const { store, task } = here;
      await task({ workspace: '/srv/app', workspaceMode: 'layer' } as never);
      const id = await endNext(here);
      const unapplied = async () =>
        (await store.digestTasks(page())).unapplied.rows.map((row) => row.id);
      assert.deepEqual(await unapplied(), [id]);
      await store.beginLayerAction(
        {
          id: 'apply_1',
          root_task_id: id,
          layer_task_id: null,
          action: 'apply',
          principal: 'person:alice',
          status: 'attempted',
          request: '{"path":"/srv/app"}',
          approval_id: null,
          rules: '[]',
        },
        undefined,
      );
      assert.deepEqual(await unapplied(), [id], 'not yet');
      await store.endLayerAction('apply_1', { status: 'done', outcome: {}, data: {} });
      assert.deepEqual(await unapplied(), []);
      await store.close();
    });

    it('has open questions, oldest first, and says that there are more', async () => {
      const { store, task, claim } = await world(open);
      await task({ agent: 'coder' });
      await task({ agent: 'coder' });
      const ask = { kind: 'question' as const, by: ['person'], question: 'Why?' };
      const ids: string[] = [];
      for (const { run } of await claim()) ids.push((await store.openWait(makeCall(run), ask)).id);
      const questions = async (limit: number) => {
        const { rows, more } = await store.digestQuestions(limit);
        return [rows.map(({ id }) => id), more];
      };
      assert.deepEqual(await questions(10), [ids, false]);
      assert.deepEqual(await questions(1), [[ids[0]], true]);
      await store.answerWait(ids[0]!, 'So.', 'person:alice');
      assert.deepEqual(await questions(10), [[ids[1]], false]);
      await store.close();
    });

    it('an order of a digest is due once per key', async () => {
      const { store } = await world(open);
      const order = { person: 'alice', digest: { since_ms: 1, key: 'people/alice' } };
      const once = { scope: 's', key: 'k', requestHash: 'h' };
      const { id } = await store.orderDigest(order, once);
      assert.deepEqual(await store.orderDigest(order, once), { id });
      const due = await store.dueNotices(10);
      assert.deepEqual(
        due.map((notice) => [notice.id, notice.person, JSON.parse(notice.digest!)]),
        [[`${id}.digest`, 'alice', order.digest]],
      );
      await store.endNotices(due.map((notice) => notice.id));
      assert.deepEqual(await store.dueNotices(10), []);
      await store.close();
    });
  });
}
