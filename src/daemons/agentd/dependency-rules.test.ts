// Dependency rules: simple cases, and random graphs compared with a naive implementation.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { TaskStatus } from '../../wire/agentd.ts';
import { decideReadiness, findCycle, type TaskNode } from './dependency-rules.ts';

function node(
  id: string,
  after: string[] = [],
  more: { status?: TaskStatus; parent?: string } = {},
): TaskNode {
  const { status = after.length === 0 ? 'ready' : 'blocked', parent = null } = more;
  return { id, after, status, parentTaskId: parent };
}

test('a task that depends on others closes no cycle by itself', () => {
  const tasks = [node('a'), node('b', ['a'])];
  assert.equal(findCycle(node('c', ['a', 'b']), tasks), undefined);
  assert.equal(findCycle(node('c'), tasks), undefined);
  assert.equal(findCycle(node('c', ['no-such-task']), tasks), undefined);
});

test('a task cannot depend on itself', () => {
  assert.deepEqual(findCycle(node('a', ['a']), []), ['a', 'a']);
});

test('a child cannot depend on its parent, nor on a task that waits for its parent', () => {
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

test('an ended task blocks nothing, so it is in no cycle', () => {
  const parent = node('parent', [], { status: 'completed' });
  assert.equal(findCycle(node('child', ['parent'], { parent: 'parent' }), [parent]), undefined);
});

test('a cycle through a hundred thousand tasks is found without a stack overflow', () => {
  const tasks = [node('t0', ['new'])];
  for (let i = 1; i < 100_000; i++) tasks.push(node(`t${i}`, [`t${i - 1}`]));
  assert.equal(findCycle(node('new', ['t99999']), tasks)?.length, 100_002);
});

test('a task is ready when all dependencies completed, and rejected when one did not', () => {
  const states = (...list: TaskStatus[]) => list.map((status, i) => ({ id: `t${i}`, status }));
  assert.deepEqual(decideReadiness([]), { status: 'ready' });
  assert.deepEqual(decideReadiness(states('completed', 'completed')), { status: 'ready' });
  assert.deepEqual(decideReadiness(states('completed', 'working', 'blocked')), {
    status: 'blocked',
    by: ['t1', 't2'],
    reason: 'after t1, t2',
  });
  for (const status of ['failed', 'canceled', 'rejected'] as const) {
    assert.deepEqual(decideReadiness(states('working', status)), {
      status: 'rejected',
      by: 't1',
      reason: `its dependency t1 is ${status}`,
    });
  }
});

/** Removes tasks that wait for nothing until none is left or all remaining ones wait. */
function naiveHasCycle(tasks: readonly TaskNode[]): boolean {
  const remaining = new Map(
    tasks
      .filter(({ status }) => !['completed', 'failed', 'canceled', 'rejected'].includes(status))
      .map((task) => [task.id, task]),
  );
  const waits = (task: TaskNode) =>
    task.after.some((id) => remaining.has(id)) ||
    [...remaining.values()].some((other) => other.parentTaskId === task.id);
  for (let free = true; free; ) {
    const done = [...remaining.values()].filter((task) => !waits(task));
    for (const task of done) remaining.delete(task.id);
    free = done.length > 0;
  }
  return remaining.size > 0;
}

const drafts = fc.array(
  fc.record({
    after: fc.array(fc.nat(14), { maxLength: 3 }),
    parent: fc.option(fc.nat(14), { nil: null }),
    status: fc.constantFrom<TaskStatus>('ready', 'working', 'blocked', 'completed', 'failed'),
  }),
  { minLength: 1, maxLength: 15 },
);

test('a draft is refused exactly if it would close a cycle', () => {
  let refused = 0;
  fc.assert(
    fc.property(drafts, (list) => {
      const tasks: TaskNode[] = [];
      for (const [i, { after, parent, status }] of list.entries()) {
        // Forward references too: rows may come in any order.
        const draft: TaskNode = {
          id: `t${i}`,
          after: after.map((n) => `t${n}`),
          parentTaskId: parent === null || parent === i ? null : `t${parent}`,
          status,
        };
        const expected = naiveHasCycle([...tasks, { ...draft, status: 'ready' }]);
        const cycle = findCycle(draft, tasks);
        assert.equal(cycle !== undefined, expected);
        if (cycle === undefined) {
          tasks.push(draft);
          continue;
        }
        refused++;
        assertIsCycle(cycle, [...tasks, draft]);
      }
      assert.ok(!naiveHasCycle(tasks));
    }),
    { numRuns: 2_000 },
  );
  assert.ok(refused > 100);
});

function assertIsCycle(cycle: string[], tasks: readonly TaskNode[]): void {
  const byId = new Map(tasks.map((task) => [task.id, task]));
  assert.equal(cycle[0], cycle.at(-1));
  assert.ok(cycle.length > 1);
  for (let i = 1; i < cycle.length; i++) {
    const [from, to] = [byId.get(cycle[i - 1]!)!, byId.get(cycle[i]!)!];
    assert.ok(from.after.includes(to.id) || to.parentTaskId === from.id);
  }
}
