// Compact ranges: however leaves are split into ranges and joined, the hashes and the root are the
// same as those of the whole tree.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { CompactRange } from './compact-range.ts';
import { isFault } from './fixture.ts';
import { computeRoot, fromRaw, hashLeaf, type NodeSource, type RawHash, toRaw } from './merkle.ts';

const leafOf = (n: number): RawHash => toRaw(hashLeaf(Buffer.from(`leaf ${n}`)));

function addLeaves(range: CompactRange, count: number): CompactRange {
  for (let n = 0; n < count; n += 1) range.add(leafOf(range.end));
  return range;
}

function growTree(size: number): { edge: CompactRange; nodes: NodeSource } {
  const levels: RawHash[][] = [];
  const edge = new CompactRange();
  for (let n = 0; n < size; n += 1) {
    edge.add(leafOf(n), (level, node) => {
      levels[level] ??= [];
      levels[level].push(node);
    });
  }
  return { edge, nodes: { readNode: (level, index) => fromRaw(levels[level]![index]!) } };
}

const splits = fc.array(fc.nat({ max: 40 }), { minLength: 1, maxLength: 8 });

test('ranges joined from left to right are the whole tree', () => {
  fc.assert(
    fc.property(splits, (counts) => {
      const size = counts.reduce((sum, count) => sum + count, 0);
      const { edge, nodes } = growTree(size);
      const joined = new CompactRange();
      for (const count of counts) joined.append(addLeaves(new CompactRange(joined.end), count));
      assert.deepEqual(joined.format(), edge.format());
      assert.deepEqual(joined.root(), computeRoot(nodes, size));
    }),
  );
});

test('a range read from stored nodes or from text is the one that was hashed', () => {
  fc.assert(
    fc.property(fc.nat({ max: 90 }), fc.nat({ max: 90 }), (first, count) => {
      const { nodes } = growTree(first + count);
      const hashed = addLeaves(new CompactRange(first), count).format();
      assert.deepEqual(CompactRange.read(nodes, first, first + count).format(), hashed);
      assert.deepEqual(CompactRange.parse(hashed).format(), hashed);
      assert.equal(CompactRange.parse(hashed).size, count);
    }),
  );
});

test('a parsed range grows like the original', () => {
  for (const [first, count] of [
    [0, 5],
    [3, 13],
    [64, 1],
  ] as const) {
    const whole = addLeaves(new CompactRange(first), count + 20);
    const parsed = CompactRange.parse(addLeaves(new CompactRange(first), count).format());
    assert.deepEqual(addLeaves(parsed, 20).format(), whole.format());
  }
});

test('hashes that are too few, too many or too short are refused', () => {
  const range = addLeaves(new CompactRange(3), 6).format();
  for (const hashes of [
    range.hashes.slice(1),
    [...range.hashes, range.hashes[0]!],
    range.hashes.with(0, 'AAAA'),
  ])
    assert.throws(() => CompactRange.parse({ ...range, hashes }), isFault('bad_request'));
});

test('a range must follow, and only one from leaf 0 has a root', () => {
  const range = addLeaves(new CompactRange(), 4);
  assert.throws(() => range.append(new CompactRange(5)), /does not follow/);
  assert.throws(() => new CompactRange(5).root(), /has no root/);
});
