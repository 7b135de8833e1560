// Dependencies: the plain cases by hand, and random graphs against the slowest obvious way to do
// it.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { TaskStatus } from '../../wire/agentd.ts';
import { findCycle, readinessOf, type TaskNode } from './dependency-rules.ts';

function node(
  id: string,
  after: string[] = [],
  more: { status?: TaskStatus; parent?: string } = {},
): TaskNode {
  const { status = after.length === 0 ? 'ready' : 'blocked', parent = null } = more;
  return { id, after, status, parentTaskId: parent };
}

test('a task that comes after others closes no circle by itself', () => {
  const tasks = [node('a'), node('b', ['a'])];
  assert.equal(findCycle(node('c', ['a', 'b']), tasks), undefined);
  assert.equal(findCycle(node('c'), tasks), undefined);
  assert.equal(findCycle(node('c', ['no-such-task']), tasks), undefined);
});

test('a task cannot come after itself', () => {
  assert.deepEqual(findCycle(node('a', ['a']), []), ['a', 'a']);
});

test('a child cannot come after its parent, nor after what waits for its parent', () => {
  const tasks = [
    node('root', [], { status: 'working' }),
    node('parent', [], { parent: 'root', status: 'working' }),
    node('later', ['parent'], { parent: 'root' }),
  ];
  const child = (after: string[]) => node('child', after, { parent: 'parent' });
  assert.deepEqual(findCycle(child(['parent']), tasks), ['child', 'parent', 'child']);
  assert.deepEqual(findCycle(child(['root']), tasks), ['child', 'root', 'parent', 'child']);
  assert.deepEqual(findCycle(child(['later']), tasks), ['child', 'later', 'parent', 'child']);
  assert.equal(findCycle(child([]), tasks), undefined);
});

test('an ended task holds nobody up, so it is in no circle', () => {
  const parent = node('parent', [], { status: 'completed' });
  assert.equal(findCycle(node('child', ['parent'], { parent: 'parent' }), [parent]), undefined);
});

test('a circle through a hundred thousand tasks is found without running out of stack', () => {
  const tasks = [node('t0', ['new'])];
  for (let i = 1; i < 100_000; i++) tasks.push(node(`t${i}`, [`t${i - 1}`]));
  assert.equal(findCycle(node('new', ['t99999']), tasks)?.length, 100_002);
});

test('a task is ready when all it comes after is completed, and lost when one of them is', () => {
  const states = (...list: TaskStatus[]) => list.map((status, i) => ({ id: `t${i}`, status }));
  assert.deepEqual(readinessOf([]), { status: 'ready' });
  assert.deepEqual(readinessOf(states('completed', 'completed')), { status: 'ready' });
  assert.deepEqual(readinessOf(states('completed', 'working', 'blocked')), {
    status: 'blocked',
    by: ['t1', 't2'],
    reason: 'after t1, t2',
  });
  for (const status of ['failed', 'canceled', 'rejected'] as const) {
    assert.deepEqual(readinessOf(states('working', status)), {
      status: 'rejected',
      by: 't1',
      reason: `t1, which it comes after, is ${status}`,
    });
  }
});

/** Every edge: a task waits for what it comes after, a parent for its children. */
function naiveHasCycle(tasks: readonly TaskNode[]): boolean {
  const left = new Map(
    tasks
      .filter(({ status }) => !['completed', 'failed', 'canceled', 'rejected'].includes(status))
      .map((task) => [task.id, task]),
  );
  const waits = (task: TaskNode) =>
    task.after.some((id) => left.has(id)) ||
    [...left.values()].some((other) => other.parentTaskId === task.id);
  for (let free = true; free; ) {
    const done = [...left.values()].filter((task) => !waits(task));
    for (const task of done) left.delete(task.id);
    free = done.length > 0;
  }
  return left.size > 0;
}

const drafts = fc.array(
  fc.record({
    after: fc.array(fc.nat(14), { maxLength: 3 }),
    parent: fc.option(fc.nat(14), { nil: null }),
    status: fc.constantFrom<TaskStatus>('ready', 'working', 'blocked', 'completed', 'failed'),
  }),
  { minLength: 1, maxLength: 15 },
);

test('a graph grown by drafts without a circle never has one; none is refused in vain', () => {
  let refused = 0;
  fc.assert(
    fc.property(drafts, (list) => {
      const tasks: TaskNode[] = [];
      for (const [i, { after, parent, status }] of list.entries()) {
        // Forward references too: rows may be handed over in any order.
        const draft: TaskNode = {
          id: `t${i}`,
          after: after.map((n) => `t${n}`),
          parentTaskId: parent === null || parent === i ? null : `t${parent}`,
          status,
        };
        const wanted = naiveHasCycle([...tasks, { ...draft, status: 'ready' }]);
        const cycle = findCycle(draft, tasks);
        assert.equal(cycle !== undefined, wanted);
        if (cycle === undefined) {
          tasks.push(draft);
          continue;
        }
        refused++;
        assertIsCircle(cycle, [...tasks, draft]);
      }
      assert.ok(!naiveHasCycle(tasks));
    }),
    { numRuns: 2_000 },
  );
  assert.ok(refused > 100);
});

function assertIsCircle(cycle: string[], tasks: readonly TaskNode[]): void {
  const byId = new Map(tasks.map((task) => [task.id, task]));
  assert.equal(cycle[0], cycle.at(-1));
  assert.ok(cycle.length > 1);
  for (let i = 1; i < cycle.length; i++) {
    const [from, to] = [byId.get(cycle[i - 1]!)!, byId.get(cycle[i]!)!];
    assert.ok(from.after.includes(to.id) || to.parentTaskId === from.id);
  }
}
