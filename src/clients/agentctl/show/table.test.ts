// Tables fit the terminal: flexible columns shrink, the others do not.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { paintSgr } from '../out.ts';
import { renderFields, renderTable } from './table.ts';
import { measureWidth } from './width.ts';

const headers = [
  { title: 'ID' },
  { title: 'COUNT', align: 'right' },
  { title: 'GOAL', minWidth: 6 },
] as const;

test('columns are as wide as their content', () => {
  assert.deepEqual(
    renderTable(headers, [
      ['task_1', '7', 'short'],
      ['task_22', '1,000', '日本'],
    ]),
    ['ID       COUNT  GOAL', 'task_1       7  short', 'task_22  1,000  日本'],
  );
});

test('in a table that is too wide only the flexible column is truncated', () => {
  const lines = renderTable(headers, [['task_1', '7', 'a goal that does not fit at all']], {
    columns: 30,
  });
  assert.deepEqual(lines, ['ID      COUNT  GOAL', 'task_1      7  a goal that do…']);
});

test('the widest flexible column shrinks first', () => {
  const two = [
    { title: 'A', minWidth: 3 },
    { title: 'B', minWidth: 3 },
  ] as const;
  const [, line] = renderTable(two, [['aaaaaaaa', 'bbbbbbbbbbbbbbbb']], { columns: 18 });
  assert.equal(line, 'aaaaaaaa  bbbbbbb…');
});

test('a cell is one line without control characters, painted after truncation', () => {
  const cell = { text: 'two\nlines\u001b[31m', style: 'red' } as const;
  const [, line] = renderTable([{ title: 'X', minWidth: 4 }], [[cell]], {
    columns: 6,
    paint: paintSgr,
  });
  assert.equal(line, '\u001b[31mtwo l…\u001b[0m');
});

test('no line is wider than the terminal when the fixed columns leave space', () => {
  const cell = fc.string({ unit: 'grapheme', maxLength: 40 });
  fc.assert(
    fc.property(fc.array(fc.tuple(cell, cell), { maxLength: 6 }), (rows) => {
      const flexible = [
        { title: 'A', minWidth: 4 },
        { title: 'B', minWidth: 4 },
      ];
      for (const line of renderTable(flexible, rows, { columns: 24 }))
        assert.ok(measureWidth(line) <= 24, `${measureWidth(line)}: ${line}`);
    }),
  );
});

test('ids shrink as far as they still differ', () => {
  const ids = ['task_01m7s09aw33nakfhft1hmp47s5', 'task_01m7s1dya32a2405t6xpmv1kvf'];
  const goal = 'a goal that takes all the room that there is on this line, and more';
  const narrow = [
    { title: 'ID', minWidth: 'distinct' },
    { title: 'GOAL', minWidth: 12 },
  ] as const;
  const [, first] = renderTable(
    narrow,
    ids.map((id) => [id, goal]),
    { columns: 50 },
  );
  assert.equal(first, 'task_01m7s09aw33nakfhft…  a goal that takes all t…');
  const twins = [ids[0]!, ids[0]!.replace(/5$/, '6')];
  const [, twin] = renderTable(
    narrow,
    twins.map((id) => [id, goal]),
    { columns: 50 },
  );
  assert.equal(twin, `${ids[0]}  a goal that take…`);
});

test('columns that keep their width shrink when nothing else is left, but no numbers', () => {
  const heads = [{ title: 'NAME' }, { title: 'COST', align: 'right' }, { title: 'BY' }] as const;
  const row = ['a-very-long-name-of-something', '1,234,567', 'another-rather-long-name'];
  const [, line] = renderTable(heads, [row], { columns: 40 });
  assert.equal(line, 'a-very-long-…  1,234,567  another-rathe…');
  assert.equal(measureWidth(line!), 40);
});

test('fields without a value are left out, values of several lines are indented', () => {
  const lines = renderFields(
    [
      ['goal', 'one\ntwo'],
      ['nothing', undefined],
      ['a', 'b'],
    ],
    (_, text) => text,
  );
  assert.deepEqual(lines, ['goal  one', '      two', 'a     b']);
});
