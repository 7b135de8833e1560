// Changes between two polls are reported once, in order.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { TreeNode } from '../../../wire/agentd.ts';
import { exitStatusFor } from '../commands/task-wait.ts';
import { paintNothing } from '../out.ts';
import { at, id, run, task, wait } from '../testing/fixtures.ts';
import { teamTree } from '../testing/team.ts';
import { renderOutcome } from './outcome.ts';
import { diffTrees, findOpenQuestion } from './progress.ts';

const start = (): TreeNode => ({
  task: task(1, { status: 'working', ended_at: null, result: null }),
  runs: [],
  waits: [],
  children: [],
});
const texts = (before: TreeNode | undefined, now: TreeNode) =>
  diffTrees(before, now).map(({ text }) => text);

test('from the start to the end', () => {
  const first = start();
  assert.deepEqual(texts(undefined, first), ['planner: working']);
  assert.deepEqual(texts(first, first), []);
  assert.deepEqual(texts(first, teamTree()), [
    'planner → researcher: "Read the logs"',
    'planner → coder: "Look at the diff"',
    'researcher: the run crashed and is being resumed',
    'researcher: completed in 3.0 s',
    'coder: completed in 3.9 s',
    'planner: completed in 12 s',
  ]);
  const times = diffTrees(undefined, teamTree()).map(({ at: time }) => Date.parse(time));
  assert.deepEqual(
    times,
    times.toSorted((a, b) => a - b),
  );
  const waiting = { ...first, task: { ...first.task, status: 'waiting' as const } };
  assert.deepEqual(texts(first, waiting), []);
  assert.deepEqual(texts(waiting, first), ['planner: resumed']);
});

test('what began before the first poll keeps its own time', () => {
  const first = { ...start(), runs: [run(1, { created_at: at(1) })] };
  const late = { ...first, task: { ...first.task, updated_at: at(9) } };
  assert.deepEqual(
    diffTrees(undefined, late).map((change) => change.at),
    [at(1)],
  );
});

test('a question is reported when it is asked and when it is answered', () => {
  const open = wait(7, { kind: 'question', status: 'open', question: 'Go on?', ended_at: null });
  const asking = { ...start(), waits: [open] };
  assert.deepEqual(texts(start(), asking), [
    `planner asks: "Go on?"\n  answer it: agentctl answer ${open.id} "…"`,
  ]);
  assert.equal(findOpenQuestion(asking)?.id, open.id);
  const answered = {
    ...asking,
    waits: [wait(7, { kind: 'question', outcome: 'answered', answered_by: 'person:ada' })],
  };
  assert.deepEqual(texts(asking, answered), ['person:ada: answered']);
  assert.equal(findOpenQuestion(answered), undefined);
});

test('an approval is reported when it is needed and when it is decided', () => {
  const question = id('approval', 3);
  const open = wait(7, { kind: 'approval', status: 'open', question, ended_at: null });
  const asking = { ...start(), waits: [open] };
  assert.deepEqual(texts(start(), asking), [
    `planner needs approval\n  review and decide: agentctl approvals ${question}`,
  ]);
  const answered = (decision: string) => ({
    ...asking,
    waits: [
      wait(7, {
        kind: 'approval',
        question,
        outcome: 'answered',
        answer: { approval_id: question, decision },
        answered_by: 'person:ada',
      }),
    ],
  });
  assert.deepEqual(texts(asking, answered('approved')), ['person:ada: approved']);
  assert.deepEqual(texts(asking, answered('rejected')), ['person:ada: rejected']);
});

test('every crashed activation is reported', () => {
  const once = { ...start(), runs: [run(1, { crashes: 1 })] };
  assert.equal(texts(start(), once).length, 1);
  assert.equal(texts(once, { ...start(), runs: [run(1, { crashes: 2 })] }).length, 1);
});

test("the exit status follows the task's status", () => {
  const ended = (status: string, code?: string) => {
    const error = code === undefined ? null : { code, message: '', hint: '' };
    return exitStatusFor(task(1, { status, error, ended_at: at(1) }));
  };
  assert.equal(ended('completed'), 0);
  assert.equal(ended('failed'), 1);
  assert.equal(ended('canceled'), 1);
  assert.equal(ended('rejected', 'denied'), 3);
  assert.equal(ended('failed', 'limit'), 7);
  assert.equal(ended('failed', 'budget'), 7);
  assert.equal(ended('failed', 'breaker'), 7);
  assert.equal(ended('failed', 'internal'), 1);
  assert.equal(ended('failed', 'not a code'), 1);
});

test('a rehearsal says that it was one', () => {
  const lines = renderOutcome(task(1, { rehearsal: true }), paintNothing);
  assert.equal(lines[0], 'A query without an index.');
  assert.ok(lines.some((line) => line.includes('This was a rehearsal')));
  assert.equal(renderOutcome(task(1), paintNothing).length, 1);
  const failed = renderOutcome(
    task(1, {
      status: 'failed',
      result: null,
      error: { code: 'x', message: 'broke', hint: 'mend' },
    }),
    paintNothing,
  );
  assert.deepEqual(failed, [
    'failed: broke',
    'mend',
    `See what happened: agentctl task explain ${id('task', 1)}`,
  ]);
});
