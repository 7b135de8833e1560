// The board as it is drawn: it fits 80 columns, and its ids can be typed.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { BoardView } from '../../../wire/agentd.ts';
import { paintNothing } from '../out.ts';
import { measureWidth } from '../show/width.ts';
import { renderBoard } from './board.ts';

const NAMES = ['blocked', 'ready', 'working', 'waiting', 'ended'] as const;
const card = (i: number, more: object = {}) => ({
  id: `task_01kq8zt5n4${String(i).padStart(2, '0').padEnd(16, '0')}`,
  goal: `Goal ${i} with a long text that goes on and on`,
  assigned_to: 'security-auditor',
  status: 'ready',
  reason: null,
  priority: 0,
  attempt: 1,
  created_at: '2026-01-01T00:00:00.000Z',
  ended_at: null,
  ...more,
});
const view = (tasks: (i: number) => object[], count = 2) =>
  ({
    columns: NAMES.map((name, i) => ({
      name,
      count,
      more: tasks(i).length < count,
      tasks: tasks(i),
    })),
    since: '2026-01-01T00:00:00.000Z',
  }) as unknown as BoardView;

test('[K82] five columns fit a pipe, 80 columns and a wide terminal; a narrow one gets a list', () => {
  const board = view((i) => [card(i), card(i + 10, { status: 'failed', attempt: 2 })]);
  for (const [columns, widest] of [
    [Number.POSITIVE_INFINITY, 80],
    [80, 80],
    [132, 132],
    [40, 40],
  ] as const) {
    const lines = renderBoard(board, { columns, paint: paintNothing });
    for (const line of lines) assert.ok(measureWidth(line) <= widest, line);
    const text = lines.join('\n');
    for (const name of NAMES) assert.match(text, new RegExp(`${name.toUpperCase()} 2`));
    assert.match(text, /×2 security/);
  }
});

test('an empty board says how to put a task on it; a full column how many more there are', () => {
  const out = { columns: 80, paint: paintNothing };
  assert.match(
    renderBoard(
      view(() => [], 0),
      out,
    ).join('\n'),
    /agentctl task add/,
  );
  assert.match(
    renderBoard(
      view((i) => [card(i)], 21),
      out,
    ).join('\n'),
    /\+ 20 more/,
  );
});

test('the ids are as short as they are distinct', () => {
  const out = { columns: 132, paint: paintNothing };
  const one = renderBoard(
    view((i) => (i === 0 ? [card(1)] : [])),
    out,
  ).join('\n');
  assert.match(one, / {2}01kq8zt5n4(\s|$)/m);
  const two = renderBoard(
    view((i) => (i < 2 ? [card(i)] : [])),
    out,
  ).join('\n');
  assert.match(two, / {2}01kq8zt5n401(\s|$)/m);
});

test('columns without tasks leave their width to those with some', () => {
  const goal = 'Find out why the checkout is slow since this morning';
  const lines = renderBoard(
    view((i) => (i === 4 ? [card(1, { goal, status: 'completed' })] : []), 1),
    { columns: 80, paint: paintNothing },
  );
  assert.match(lines.join('\n'), /✓ Find out why the checkout is/);
  for (const line of lines) assert.ok(measureWidth(line) <= 80, line);
});
