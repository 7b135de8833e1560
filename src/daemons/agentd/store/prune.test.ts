// Pruning on SQLite and on PostgreSQL (PGlite): a tree goes as a whole and leaves tombstones; what
// is held, live or needed stays; no reference is left without its target.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Database } from '../../../platform/sql/database.ts';
import { Fault } from '../../../wire/errors.ts';
import type { NewTask } from './tasks.ts';
import {
  DATABASES,
  delegate,
  done,
  faultCode,
  makeCall,
  type StoreWorld,
  world,
} from './testing.ts';

const DAY_MS = 86_400_000;
const NOW_MS = Date.parse('2026-01-01T00:00:00Z');
const CAUSE = 'retention.tasks keeps ended tasks for 30 days';

const prune = (
  store: StoreWorld['store'],
  rootTaskId: string,
  endedBeforeMs = NOW_MS + 99 * DAY_MS,
) => store.pruneTree({ rootTaskId, endedBeforeMs, cause: CAUSE, by: 'service:agentd', rules: '' });
const keptReason = async (result: ReturnType<typeof prune>) => {
  const found = await result;
  return 'kept' in found ? found.kept.reason : 'pruned';
};

/** A finished task with a subtask, an artifact, messages and a wait. */
async function finishTree({ store, task, claim }: StoreWorld) {
  const root = await task();
  const claimOf = async (id: string) => (await claim()).find((found) => found.task.id === id);
  const claimed = await claimOf(root.id);
  const call = makeCall(claimed!.run);
  const child = await delegate(store, call, childOf(root), {});
  await store.park({ runId: claimed!.run.id, fence: claimed!.run.fence }, [call.callId]);
  const childClaim = await claimOf(child.task.id);
  await store.inbox({ runId: childClaim!.run.id, fence: 1 }, 0);
  await store.finish(makeCall(childClaim!.run), { ...done('part'), by: 'agent:coder' });
  const woken = await claimOf(root.id);
  const { id: rootId } = root;
  const artifact = await store.putArtifact(
    {
      id: rootId.replace('task_', 'artifact_'),
      name: 'a',
      mimeType: 'text/plain',
      sizeBytes: 1,
      hash: 'h',
      createdBy: 'agent:planner',
      taskId: rootId,
      contextId: root.context_id,
      labels: [],
    },
    makeCall(woken!.run),
    undefined,
  );
  const resultRef = `artifact://${artifact.id}`;
  await store.finish(makeCall(woken!.run), { ...done('all'), resultRef });
  for (const { task: ended } of await store.dueEpisodes(10)) await store.endEpisode(ended.id);
  return { root, child: child.task, wait: child.wait!, run: woken!.run, artifact };
}

let children = 0;
const childOf = (parent: NewTask['parent']): NewTask => ({
  id: `task_zz${String(children++).padStart(24, '0')}`,
  parent,
  contextId: parent!.context_id,
  goal: 'part',
  createdBy: 'agent:planner',
  agent: 'coder',
  priority: 0,
  inputs: [],
  limits: {},
  delegation: undefined,
  after: [],
  deadlineMs: null,
  retryOf: null,
  labels: ['agent'],
});

for (const [name, open] of Object.entries(DATABASES)) {
  describe(`pruning on ${name}`, () => {
    it('replaces a tree by tombstones, and every id says when and why', async () => {
      const w = await world(open);
      const { store, events } = w;
      const { root, child, wait, run } = await finishTree(w);
      const { rows: messages } = await store.messages({}, { limit: 10 });
      const pruned = await prune(store, root.id);
      assert.ok('counts' in pruned);
      const { bytes, ...counts } = pruned.counts;
      assert.deepEqual(counts, { tasks: 2, runs: 2, waits: 1, messages: messages.length });
      assert.ok(bytes > 0);
      for (const find of [
        () => store.task(root.id),
        () => store.task(child.id),
        () => store.tree(root.id),
        () => store.runRow(run.id),
        () => store.wait(wait.id),
        () => store.cancelTask(root.id, 'no', 'person:alice'),
        () => store.keepTask(child.id, { isKept: true, reason: '', by: 'person:alice' }),
      ])
        await assert.rejects(find(), (error: unknown) => {
          assert.ok(error instanceof Fault);
          assert.equal(error.code, 'pruned');
          assert.match(error.message, /was pruned on 2026-01-01: retention\.tasks keeps/);
          return true;
        });
      for (const { id } of messages) assert.equal((await store.findTombstone(id))?.cause, CAUSE);
      await assert.rejects(store.task(`task_${'0'.repeat(26)}`), faultCode('not_found'));
      assert.ok(await store.outbox.drain(20_000));
      const event = events.find(({ event }) => event === 'data.pruned');
      assert.equal(event?.id, `${root.id}.pruned`);
      assert.equal(event.data?.tasks, 2);
      assert.deepEqual((await store.counts()).tasks.completed ?? 0, 0);
      const left = await store.listOpenPrunes(0, 10);
      assert.deepEqual(left[0]?.taskIds, [root.id, child.id].sort());
      assert.equal(left[0]?.runIds.length, 2);
      await store.closePrune(left[0]!.id);
      assert.deepEqual(await store.listOpenPrunes(0, 10), []);
      assert.equal(await store.expireTombstones(NOW_MS, 10), 0, 'not yet old enough');
      assert.equal(await store.expireTombstones(NOW_MS + 1, 10), 1);
      await assert.rejects(store.task(root.id), faultCode('not_found'));
      await store.close();
    });

    it('keeps what is live, recent, held, retried, depended on or continued', async () => {
      const w = await world(open);
      const { store, task } = w;
      const { root } = await finishTree(w);
      const live = await task();
      assert.equal(await keptReason(prune(store, live.id)), 'live');
      assert.equal(await keptReason(prune(store, root.id, NOW_MS)), 'recent');
      await store.keepTask(root.id, { isKept: true, reason: 'court', by: 'person:alice' });
      assert.equal(await keptReason(prune(store, root.id)), 'held');
      assert.equal((await store.task(root.id)).kept?.reason, 'court');
      await store.keepTask(root.id, { isKept: false, reason: '', by: 'person:alice' });
      const cancel = (id: string) => store.cancelTask(id, 'no', 'person:alice');
      const retry = await task({ retryOf: root.id });
      assert.equal(await keptReason(prune(store, root.id)), 'used');
      await cancel(retry.id);
      const later = await task({ after: [root.id] });
      assert.equal(await keptReason(prune(store, root.id)), 'used');
      await cancel(later.id);
      const more = await task({ contextId: root.context_id });
      assert.equal(await keptReason(prune(store, root.id)), 'used');
      await cancel(more.id);
      assert.equal(await keptReason(prune(store, root.id)), 'pruned');
      await store.close();
    });

    it('a held subtask holds its whole tree, and each hold is recorded once', async () => {
      const w = await world(open);
      const { store, events } = w;
      const { root, child } = await finishTree(w);
      const hold = { isKept: true, reason: 'court', by: 'person:alice' };
      await store.keepTask(child.id, hold);
      await store.keepTask(root.id, hold);
      assert.equal(await keptReason(prune(store, root.id)), 'held');
      await store.keepTask(root.id, { ...hold, isKept: false });
      assert.ok(await store.outbox.drain(20_000));
      const kinds = events.map(({ event }) => event).filter((kind) => /kept|released/.test(kind));
      assert.deepEqual(kinds, ['task.kept', 'task.released']);
      await store.close();
    });

    it('the numbers of a pair go on after their messages were pruned', async () => {
      const w = await world(open);
      const { store } = w;
      const { root } = await finishTree(w);
      const send = () =>
        store.send(
          {
            type: 'Note',
            contextId: `ctx_${'0'.repeat(26)}`,
            taskId: null,
            from: 'agent:planner',
            to: 'agent:coder',
            inReplyTo: null,
            labels: [],
            parts: [],
            text: '',
            delivered: true,
          },
          undefined,
        );
      const before = (await send()).pair_seq;
      assert.ok(before > 1, 'the tree has sent some');
      await prune(store, root.id);
      assert.equal((await send()).pair_seq, before + 1);
      await store.close();
    });

    it('an artifact goes alone; its blob only with the last artifact that refers to it', async () => {
      const w = await world(open);
      const { store, task } = w;
      const first = await finishTree(w);
      const second = await finishTree(w);
      const byAge = (id: string) =>
        store.pruneArtifact({ id, cause: CAUSE, by: 'service:agentd', rules: '' });
      const reasonOf = async (id: string) => {
        const found = await byAge(id);
        return found !== undefined && 'kept' in found ? found.kept.reason : 'pruned';
      };
      assert.deepEqual(await store.artifactSizes(), [
        { createdBy: 'agent:planner', count: 2, bytes: 2 },
      ]);
      const input = { kind: 'artifact_ref', id: `artifact://${first.artifact.id}` };
      const reader = await task({ inputs: [input] });
      assert.equal(await reasonOf(first.artifact.id), 'used');
      await store.cancelTask(reader.id, 'no', 'person:alice');
      const hold = { isKept: true, reason: '', by: 'person:alice' };
      await store.keepTask(reader.id, hold);
      assert.equal(await reasonOf(first.artifact.id), 'held', 'a held tree keeps its inputs');
      await store.keepTask(reader.id, { ...hold, isKept: false });
      await store.keepTask(first.root.id, hold);
      assert.equal(await reasonOf(first.artifact.id), 'held', 'and its own');
      await store.keepTask(first.root.id, { ...hold, isKept: false });

      assert.equal(await reasonOf(first.artifact.id), 'pruned');
      assert.equal(await store.isObjectUnused('h'), false);
      assert.deepEqual(await store.listUnusedObjects(10), []);
      await assert.rejects(store.artifact(first.artifact.id), faultCode('pruned'));
      await assert.rejects(task({ inputs: [input] }), faultCode('pruned'));
      assert.equal(await byAge(first.artifact.id), undefined, 'once');
      await prune(store, second.root.id);
      assert.equal((await store.artifact(second.artifact.id)).task_id, second.root.id);
      assert.equal(await reasonOf(second.artifact.id), 'pruned', 'after its task');
      assert.deepEqual(await store.listUnusedObjects(10), ['h']);
      assert.equal((await store.findTombstone(second.artifact.id))?.root_task_id, second.root.id);
      assert.deepEqual(await store.artifactSizes(), []);
      await finishTree(w);
      assert.deepEqual(await store.listUnusedObjects(10), [], 'stored again meanwhile');
      await store.close();
    });

    it('lists ended trees by their end, page by page', async () => {
      const w = await world(open);
      const { store, task, advance } = w;
      const ids: string[] = [];
      for (let i = 0; i < 5; i++) {
        const { id } = await task();
        ids.push(id);
      }
      for (const id of ids.toReversed()) {
        advance(1_000);
        await store.cancelTask(id, 'no', 'person:alice');
      }
      const found: string[] = [];
      let after: Awaited<ReturnType<typeof store.listEndedTrees>>[number] | undefined;
      for (;;) {
        const page = await store.listEndedTrees({
          endedBeforeMs: NOW_MS + DAY_MS,
          after,
          limit: 2,
        });
        if (page.length === 0) break;
        found.push(...page.map(({ rootTaskId }) => rootTaskId));
        after = page.at(-1);
      }
      assert.deepEqual(found, ids.toReversed());
      await store.close();
    });

    it('property: whatever is pruned, every reference is a row or a tombstone', async () => {
      for (let seed = 1; seed <= (name === 'SQLite' ? 12 : 3); seed++) await checkReferences(seed);
    });
  });

  /** A linear congruential generator is random enough to choose among a few cases. */
  const makeChooser = (seed: number) => {
    let state = seed * 2_654_435_761;
    return (n: number): number => {
      state = (state * 1_103_515_245 + 12_345) % 2_147_483_648;
      return Math.floor((state / 2_147_483_648) * n);
    };
  };

  async function checkReferences(seed: number): Promise<void> {
    const db = await open();
    const w = await world(async () => db);
    const { store, task } = w;
    const choose = makeChooser(seed);
    const roots: string[] = [];
    const contexts: string[] = [];
    for (let i = 0; i < 12; i++) {
      const earlier = roots.length === 0 ? undefined : roots[choose(roots.length)]!;
      const context = contexts.length === 0 ? undefined : contexts[choose(contexts.length)]!;
      switch (choose(5)) {
        case 0:
        case 1: {
          const { root } = await finishTree(w);
          roots.push(root.id);
          contexts.push(root.context_id);
          break;
        }
        default: {
          if (earlier === undefined) break;
          const over: Partial<NewTask>[] = [
            { agent: 'tester', retryOf: earlier },
            { agent: 'tester', after: [earlier] },
            { agent: 'tester', contextId: context! },
          ];
          const made = await task(over[choose(over.length)]).catch(() => undefined);
          if (made === undefined) break;
          if (choose(3) > 0) await store.cancelTask(made.id, 'no', 'person:alice');
          roots.push(made.id);
        }
      }
      if (earlier !== undefined && choose(3) === 0)
        await prune(store, earlier).catch(() => undefined);
      if (earlier !== undefined && choose(6) === 0)
        for (const { id } of (await store.artifacts({}, { limit: 3 })).rows)
          await store.pruneArtifact({ id, cause: CAUSE, by: 'service:agentd', rules: '' });
      if (earlier !== undefined && choose(6) === 0)
        await store
          .keepTask(earlier, { isKept: true, reason: '', by: 'person:alice' })
          .catch(() => undefined);
    }
    for (const id of roots) if (choose(2) === 0) await prune(store, id).catch(() => undefined);
    await assertNoDangling(db, seed);
    await store.close();
  }
}

const REFERENCES: readonly [table: string, column: string, target: string][] = [
  ['tasks', 'parent_task_id', 'tasks'],
  ['tasks', 'root_task_id', 'tasks'],
  ['tasks', 'retry_of', 'tasks'],
  ['task_deps', 'task_id', 'tasks'],
  ['task_deps', 'after_id', 'tasks'],
  ['runs', 'task_id', 'tasks'],
  ['waits', 'run_id', 'runs'],
  ['waits', 'task_id', 'tasks'],
  ['waits', 'child_task_id', 'tasks'],
  ['messages', 'task_id', 'tasks'],
  ['messages', 'delivered_run', 'runs'],
  ['inbox_steps', 'run_id', 'runs'],
  ['artifacts', 'task_id', 'tasks'],
  ['tasks', "REPLACE(result_ref, 'artifact://', '')", 'artifacts'],
];
/** Rows that go with their tree may not even refer to a tombstone. */
const OWNED = new Set(['runs.task_id', 'waits.run_id', 'inbox_steps.run_id', 'messages.task_id']);

async function assertNoDangling(db: Database, seed: number): Promise<void> {
  await db.read(async (sql) => {
    for (const [table, column, target] of REFERENCES) {
      const where = OWNED.has(`${table}.${column}`)
        ? ''
        : `AND ${column} NOT IN (SELECT id FROM tombstones)`;
      const rows = await sql.all(
        `SELECT ${column} FROM ${table} WHERE ${column} IS NOT NULL
         AND ${column} NOT IN (SELECT id FROM ${target}) ${where}`,
      );
      assert.deepEqual(rows, [], `${table}.${column} dangles (seed ${seed})`);
    }
    const counted = await sql.all<{ n: number; rows: number }>(
      `SELECT agent, status, n, (SELECT COUNT(*) FROM tasks t
         WHERE COALESCE(t.assigned_to, '') = c.agent AND t.status = c.status) AS rows
       FROM task_counts c`,
    );
    for (const row of counted) assert.equal(Number(row.n), Number(row.rows), JSON.stringify(row));
  });
}
