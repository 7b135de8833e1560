// Parents and dependencies as a tree and for Graphviz.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { paintNothing } from '../out.ts';
import { id, task } from '../testing/fixtures.ts';
import { listEdges, renderDot, renderForest } from './task-graph.ts';

const tasks = [
  task(1),
  task(2, { parent_task_id: id('task', 1), assigned_to: 'coder', goal: 'Say "hi"\nthere' }),
  task(3, { after: [id('task', 1)], retry_of: id('task', 9) }),
];

test('the tree shows subtasks under their parent, and dependencies', () => {
  assert.deepEqual(renderForest(tasks, { columns: 200, paint: paintNothing }), [
    `${id('task', 1)}  planner: completed  Find out why the API became slow`,
    `└─ ${id('task', 2)}  coder: completed  Say "hi" there`,
    [
      `${id('task', 3)}  planner: completed`,
      `after ${id('task', 1)}`,
      `retry of ${id('task', 9)}`,
      'Find out why the API became slow',
    ].join('  '),
  ]);
  assert.deepEqual(renderForest([], { columns: 80, paint: paintNothing }), ['No tasks.']);
});

test('edges lead only between tasks that are shown, and labels are quoted', () => {
  const edges = listEdges(tasks);
  assert.deepEqual(edges, [
    { from: id('task', 1), to: id('task', 2), kind: 'part' },
    { from: id('task', 1), to: id('task', 3), kind: 'before' },
  ]);
  const dot = renderDot(tasks, edges).join('\n');
  assert.match(dot, /^digraph tasks \{/);
  assert.match(dot, /label="coder: completed\\nSay \\"hi\\" there"/);
  assert.match(dot, /task_0*1 -> task_0*3 \[style=dashed,label="then"\];/);
});
