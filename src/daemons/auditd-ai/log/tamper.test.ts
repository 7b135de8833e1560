// Tampers with the events of a log in every way and at many positions: each change is found,
// located and classified.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { test } from 'node:test';
import fc from 'fast-check';
import {
  copyDir,
  editLines,
  formatLine,
  listKinds,
  makeDir,
  segmentPath,
  writeLog,
} from './fixture.ts';
import { verifyLog } from './verify.ts';

type Tamper = {
  name: string;
  edit: (lines: string[], at: number) => string[];
  /** The problems expected when the leaf hashes are present. */
  expect: (at: number) => (string | number)[][];
};

const swap = (lines: string[], a: number, b: number): string[] =>
  lines.with(a, lines[b]!).with(b, lines[a]!);
const renumber = (lines: string[]): string[] =>
  lines.map((line, n) => line.replace(/^\{"seq":\d+/, `{"seq":${n}`));

const TAMPERS: Tamper[] = [
  {
    name: 'a changed value',
    edit: (lines, at) => lines.with(at, lines[at]!.replace('task.created', 'task.ended')),
    expect: (at) => [['changed', at]],
  },
  {
    name: 'a changed byte that breaks the JSON',
    edit: (lines, at) => lines.with(at, lines[at]!.replace('"id"', '"id')),
    expect: (at) => [['changed', at]],
  },
  {
    name: 'a line made empty',
    edit: (lines, at) => lines.with(at, ''),
    expect: (at) => [['changed', at]],
  },
  {
    name: 'a removed line',
    edit: (lines, at) => lines.toSpliced(at, 1),
    expect: (at) => [['removed', at]],
  },
  {
    name: 'a removed line, with the rest renumbered',
    edit: (lines, at) => renumber(lines.toSpliced(at, 1)),
    expect: (at) => [
      ['removed', at],
      ['renumbered', at + 1],
    ],
  },
  {
    name: 'five removed lines',
    edit: (lines, at) => lines.toSpliced(at, 5),
    expect: (at) => [['removed', at]],
  },
  {
    name: 'two neighbours swapped',
    edit: (lines, at) => swap(lines, at, at + 1),
    expect: (at) => [['reordered', at]],
  },
  {
    name: 'two distant lines swapped',
    edit: (lines, at) => swap(lines, at, at + 8),
    expect: (at) => [
      ['reordered', at],
      ['reordered', at + 8],
    ],
  },
  {
    name: 'a line moved to the end',
    edit: (lines, at) => [...lines.toSpliced(at, 1), lines[at]!],
    expect: (at) => [['reordered', at]],
  },
  {
    name: 'a line doubled',
    edit: (lines, at) => lines.toSpliced(at, 0, lines[at]!),
    expect: (at) => [['duplicated', at]],
  },
  {
    name: 'a copy put in before the original',
    edit: (lines, at) => lines.toSpliced(at, 0, lines[at + 8]!),
    expect: (at) => [['duplicated', at + 8]],
  },
  {
    name: 'a line put in',
    edit: (lines, at) => lines.toSpliced(at, 0, formatLine(at).replace('evt_', 'forged_')),
    expect: (at) => [['inserted', at]],
  },
  {
    name: 'an inserted line, with the rest renumbered',
    edit: (lines, at) =>
      renumber(lines.toSpliced(at, 0, formatLine(at).replace('evt_', 'forged_'))),
    expect: (at) => [
      ['inserted', at],
      ['renumbered', at],
    ],
  },
  {
    name: 'one removed and one changed behind it',
    edit: (lines, at) =>
      lines.with(at + 3, formatLine(at + 3).replace('task', 'tusk')).toSpliced(at, 1),
    expect: (at) => [
      ['removed', at],
      ['changed', at + 3],
    ],
  },
];

for (const { name, edit, expect } of TAMPERS) {
  test(`${name}: found and located, wherever it is`, async (t) => {
    const dir = makeDir(t);
    await writeLog(dir, 6, { segmentBytesMax: 2_000 });
    for (const at of [0, 1, 9, 10, 17, 19, 20, 33, 50]) {
      const copy = copyDir(t, dir);
      editLines(copy, (lines) => edit(lines, at));
      const report = await verifyLog({ dir: copy });
      assert.ok(!report.ok);
      const found = listKinds(report);
      // Either of two swapped neighbours may be reported as moved.
      const isNeighbour = name.includes('neighbours') && found[0]?.[1] === at + 1;
      assert.deepEqual(found, isNeighbour ? [['reordered', at + 1]] : expect(at), `at ${at}`);
      const [problem] = report.problems;
      assert.match(problem!.message, /event/);
      fs.rmSync(copy, { recursive: true });
    }
  });

  test(`${name}: found without the tree files, and located as far as can be`, async (t) => {
    const dir = makeDir(t);
    await writeLog(dir, 6, { segmentBytesMax: 2_000 });
    for (const at of [0, 9, 10, 33, 50]) {
      const copy = copyDir(t, dir);
      fs.rmSync(`${copy}/tree`, { recursive: true });
      editLines(copy, (lines) => edit(lines, at));
      const report = await verifyLog({ dir: copy });
      assert.ok(!report.ok);
      const [problem] = report.problems;
      const from = problem!.seq!;
      const to = problem!.to_seq ?? from;
      // A checkpoint covers ten events: no range is wider than that, or far from the position.
      assert.ok(to - from < 10, problem!.message);
      assert.ok(from <= at + 9 && to >= at - 9, `${problem!.message} for ${at}`);
    }
  });
}

test('a byte changed, inserted or removed anywhere is found at its event', async (t) => {
  const dir = makeDir(t);
  await writeLog(dir, 6);
  const whole = fs.readFileSync(segmentPath(dir));
  const change = fc.constantFrom('flip', 'insert', 'delete');
  const at = fc.nat({ max: whole.length - 1 });
  await fc.assert(
    fc.asyncProperty(change, at, fc.integer({ min: 1, max: 255 }), async (how, place, byte) => {
      const value = how === 'flip' ? whole[place]! ^ byte : byte;
      const parts = [
        whole.subarray(0, place),
        whole.subarray(how === 'insert' ? place : place + 1),
      ];
      const middle = how === 'delete' ? [] : [Buffer.of(value)];
      const changed = Buffer.concat([parts[0]!, ...middle, parts[1]!]);
      fs.writeFileSync(segmentPath(dir), changed);
      const report = await verifyLog({ dir });
      assert.ok(!report.ok);
      const seq = parts[0]!.filter((b) => b === 10).length;
      const first = Math.min(...report.problems.map((problem) => problem.seq ?? 999));
      assert.ok(first >= seq && first <= seq + 1, `${how} at ${place} of event ${seq}: ${first}`);
    }),
    { numRuns: 150 },
  );
});
