// Dependencies as a property: for any order of task ends, the store agrees with a naive fixpoint.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { DATABASES, done, makeCall, world } from './testing.ts';

type Node = { id: string; after: string[] };

/** Re-evaluates every blocked task until nothing changes. */
function settle(tasks: readonly Node[], status: Map<string, string>): void {
  for (let changed = true; changed; ) {
    changed = false;
    for (const task of tasks) {
      if (status.get(task.id) !== 'blocked') continue;
      const before = task.after.map((id) => status.get(id)!);
      const lost = before.some((s) => ['failed', 'canceled', 'rejected'].includes(s));
      if (!lost && !before.every((s) => s === 'completed')) continue;
      status.set(task.id, lost ? 'rejected' : 'ready');
      changed = true;
    }
  }
}

const graph = fc.array(fc.array(fc.nat(), { maxLength: 3 }), { minLength: 2, maxLength: 10 });
const endings = fc.array(fc.tuple(fc.nat(), fc.boolean()), { minLength: 1, maxLength: 12 });

test("[K83] a task's end frees or rejects exactly its dependents", async () => {
  const { store, task, claim } = await world(DATABASES.SQLite!);
  await fc.assert(
    fc.asyncProperty(graph, endings, async (shape, order) => {
      const nodes: Node[] = [];
      for (const [i, picks] of shape.entries()) {
        const after = [...new Set(i === 0 ? [] : picks.map((n) => nodes[n % i]!.id))];
        nodes.push({ id: (await task({ agent: 'coder', after })).id, after });
      }
      const status = new Map(
        nodes.map((node) => [node.id, node.after.length > 0 ? 'blocked' : 'ready']),
      );
      for (const [pick, completes] of order) {
        const open = nodes.filter((node) => ['ready', 'blocked'].includes(status.get(node.id)!));
        const chosen = open[pick % Math.max(1, open.length)];
        if (chosen === undefined) break;
        if (completes && status.get(chosen.id) === 'ready') {
          const [claimed] = await claim(1);
          await store.finish(makeCall(claimed!.run), done('x'));
          status.set(claimed!.task.id, 'completed');
        } else {
          await store.cancelTask(chosen.id, 'not wanted', 'person:a');
          status.set(chosen.id, 'canceled');
        }
        settle(nodes, status);
        for (const node of nodes)
          assert.equal((await store.task(node.id)).status, status.get(node.id));
      }
      for (const node of nodes) {
        if (['ready', 'blocked'].includes((await store.task(node.id)).status))
          await store.cancelTask(node.id, 'clean', 'person:a');
      }
    }),
    { numRuns: 60 },
  );
  await store.close();
});
