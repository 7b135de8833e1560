// ids.yaml has only known ids, known statuses, and tests that exist and cite the id.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { checkRequirements, expandIds } from '../requirements/requirements.ts';
import { type Files, makeTree, projectRoot } from './fixture.ts';

const all = ['K1-K123', 'C1-C180', 'B1-B67', 'R1-R473'].map(
  (range) => `${range}: { status: later }`,
);
// Built at run time, so that these names do not count as citations by this file.
const cite = (id: string): string => `test('works [${id}]', () => {});`;

const wrong: Record<string, { rows: string[]; files?: Files; says: RegExp }> = {
  'an unknown status': { rows: ['R1: { status: maybe }'], says: /R1: status is "maybe"/ },
  'no id': { rows: ['R474: { status: later }'], says: /R474: is not an id/ },
  'a test that does not exist': {
    rows: ['R1: { status: done, tests: [test/a.test.ts] }'],
    says: /R1: test\/a\.test\.ts does not exist/,
  },
  'a test that does not cite it': {
    rows: ['R1: { status: done, tests: [test/a.test.ts] }'],
    files: { 'test/a.test.ts': [cite('R2'), '// works [R1]'] },
    says: /R1: no test in test\/a\.test\.ts cites/,
  },
  'done without a test': { rows: ['R1: { status: done }'], says: /R1: is done, and names no test/ },
  'left out without a reason': { rows: ['R1: { status: wont }'], says: /R1: .* no reason/ },
  'a range that is done': {
    rows: ['R1-R2: { status: done, tests: [test/a.test.ts] }'],
    says: /R1-R2: say done id by id/,
  },
  'an unknown field': { rows: ['R1: { status: later, tset: [] }'], says: /R1: unknown tset/ },
  'a row twice': {
    rows: ['R1: { status: later }', 'R1: { status: later }'],
    says: /ids\.yaml: .*unique/,
  },
  'a test that cites no id': {
    rows: [],
    files: { 'test/a.test.ts': [cite('R999')] },
    says: /test\/a\.test\.ts: cites R999, which is no id/,
  },
};

for (const [name, { rows, files = {}, says }] of Object.entries(wrong)) {
  test(`refused: ${name}`, (t) => {
    const root = makeTree(t, { 'test/requirements/ids.yaml': [...all, ...rows], ...files });
    assert.match(checkRequirements(root).wrong.join('\n'), says);
  });
}

test('refused: an id without a row', (t) => {
  const root = makeTree(t, { 'test/requirements/ids.yaml': all.slice(0, 3) });
  assert.match(checkRequirements(root).wrong.join('\n'), /R473: has no row/);
});

test('a row for one id overrides a range, and a list or range in a title cites each', (t) => {
  const root = makeTree(t, {
    'test/requirements/ids.yaml': [
      'R2: { status: wont, reason: not ours }',
      ...all,
      ...['R5', 'R6', 'K1'].map((id) => `${id}: { status: done, tests: [test/a.test.ts] }`),
    ],
    'test/a.test.ts': ["it('does it [R5-R6, K1]', () => {});"],
  });
  const { wrong, counts } = checkRequirements(root);
  assert.deepEqual(wrong, []);
  assert.deepEqual(counts, { done: 3, later: 839, wont: 1 });
});

test('ranges are ids in order, within bounds', () => {
  assert.deepEqual(expandIds('B65-B67'), ['B65', 'B66', 'B67']);
  assert.deepEqual(expandIds('K7'), ['K7']);
  for (const none of ['B68', 'B0', 'B5-B4', 'B1-C2', 'X1', '']) {
    assert.equal(expandIds(none), undefined, none);
  }
});

test('the list of this project is valid', (t) => {
  const { wrong, counts } = checkRequirements(projectRoot);
  const { done, later, wont } = counts;
  t.diagnostic(`requirements: ${done} done, ${later} later, ${wont} will not be done`);
  assert.deepEqual(wrong, []);
  assert.equal(done + later + wont, 843);
});
