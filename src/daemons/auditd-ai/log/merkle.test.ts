// Compares the tree with a naive implementation of RFC 6962, and with published reference values.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import fc from 'fast-check';
import { CompactRange } from './compact-range.ts';
import * as merkle from './merkle.ts';

const sha = (...parts: Uint8Array[]): Buffer => {
  const h = createHash('sha256');
  for (const part of parts) h.update(part);
  return h.digest();
};

/** MTH, PATH and SUBPROOF exactly as the RFC defines them, over the list of leaf inputs. */
const split = (n: number): number => {
  let k = 1;
  while (k * 2 < n) k *= 2;
  return k;
};
function mth(d: Buffer[]): Buffer {
  if (d.length === 0) return sha();
  if (d.length === 1) return sha(Buffer.of(0), d[0]!);
  const k = split(d.length);
  return sha(Buffer.of(1), mth(d.slice(0, k)), mth(d.slice(k)));
}
function path(m: number, d: Buffer[]): Buffer[] {
  if (d.length <= 1) return [];
  const k = split(d.length);
  return m < k
    ? [...path(m, d.slice(0, k)), mth(d.slice(k))]
    : [...path(m - k, d.slice(k)), mth(d.slice(0, k))];
}
function subproof(m: number, d: Buffer[], whole: boolean): Buffer[] {
  if (m === d.length) return whole ? [] : [mth(d)];
  const k = split(d.length);
  return m <= k
    ? [...subproof(m, d.slice(0, k), whole), mth(d.slice(k))]
    : [...subproof(m - k, d.slice(k), false), mth(d.slice(0, k))];
}

/** Grows a tree leaf by leaf and keeps its complete nodes in memory. */
function grow(leaves: Buffer[]): { edge: CompactRange; nodes: merkle.NodeSource } {
  const levels: string[][] = [];
  const edge = new CompactRange();
  for (const leaf of leaves) {
    edge.add(merkle.toRaw(merkle.hashLeaf(leaf)), (level, node) => {
      levels[level] ??= [];
      levels[level].push(node);
    });
  }
  return { edge, nodes: { readNode: (l, i) => merkle.fromRaw(levels[l]![i]!) } };
}

const leavesArb = fc
  .array(fc.uint8Array({ maxLength: 20 }), { minLength: 1, maxLength: 130 })
  .map((all) => all.map((bytes) => Buffer.from(bytes)));

// The reference inputs and values of the Certificate Transparency implementation.
const REFERENCE = [
  '',
  '00',
  '10',
  '2021',
  '3031',
  '40414243',
  '5051525354555657',
  '606162636465666768696a6b6c6d6e6f',
].map((hex) => Buffer.from(hex, 'hex'));
const REFERENCE_ROOTS = [
  'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855',
  '6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d',
  'fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125',
  'aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77',
  'd37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7',
  '4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4',
  '76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef',
  'ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c',
  '5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328',
];
const hex = (hashes: Buffer[]): string[] => hashes.map((h) => h.toString('hex'));

test('roots of every size match the reference values', () => {
  REFERENCE_ROOTS.forEach((root, size) => {
    const { edge, nodes } = grow(REFERENCE.slice(0, size));
    assert.equal(edge.root().toString('hex'), root);
    assert.equal(merkle.computeRoot(nodes, size).toString('hex'), root);
  });
});

test('proofs match the reference values', () => {
  const { nodes } = grow(REFERENCE);
  assert.deepEqual(hex(merkle.proveInclusion(nodes, 0, 8)), [
    '96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7',
    '5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e',
    '6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4',
  ]);
  assert.deepEqual(hex(merkle.proveInclusion(nodes, 5, 8)), [
    'bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b',
    'ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0',
    'd37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7',
  ]);
  assert.deepEqual(hex(merkle.proveConsistency(nodes, 6, 8)), [
    '0ebc5d3437fbe2db158b9f126a1d118e308181031d0a949f8dededebc558ef6a',
    'ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0',
    'd37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7',
  ]);
});

test('roots, inclusion and consistency equal the naive model for random lists', () => {
  fc.assert(
    fc.property(leavesArb, fc.nat(), fc.nat(), (leaves, a, b) => {
      const size = 1 + (a % leaves.length);
      const older = 1 + (b % size);
      const index = b % size;
      const { edge, nodes } = grow(leaves);
      const part = leaves.slice(0, size);
      assert.deepEqual(edge.root(), mth(leaves));
      assert.deepEqual(CompactRange.read(nodes, 0, size).root(), mth(part));
      const root = merkle.computeRoot(nodes, size);
      assert.deepEqual(root, mth(part));
      const hashes = merkle.proveInclusion(nodes, index, size);
      assert.deepEqual(hashes, path(index, part));
      const leaf = merkle.hashLeaf(leaves[index]!);
      assert.ok(merkle.checkInclusion({ leaf, index, size, hashes, root }));
      const steps = merkle.proveConsistency(nodes, older, size);
      assert.deepEqual(steps, older === size ? [] : subproof(older, part, true));
      const root1 = mth(leaves.slice(0, older));
      const claim = { size1: older, root1, size2: size, root2: root, hashes: steps };
      assert.ok(merkle.checkConsistency(claim));
    }),
    { numRuns: 300 },
  );
});

test('a wrong leaf, index, size, hash or root is not accepted', () => {
  const leaves = Array.from({ length: 37 }, (_, i) => Buffer.from(`line ${i}`));
  const { edge, nodes } = grow(leaves);
  const root = edge.root();
  for (let index = 0; index < leaves.length; index += 1) {
    const hashes = merkle.proveInclusion(nodes, index, 37);
    const good = { leaf: merkle.hashLeaf(leaves[index]!), index, size: 37, hashes, root };
    const other = merkle.hashLeaf(Buffer.from('other'));
    assert.ok(merkle.checkInclusion(good));
    assert.ok(!merkle.checkInclusion({ ...good, leaf: other }));
    assert.ok(!merkle.checkInclusion({ ...good, root: other }));
    assert.ok(!merkle.checkInclusion({ ...good, index: (index + 1) % 37 }));
    assert.ok(!merkle.checkInclusion({ ...good, index: 37 }));
    assert.ok(!merkle.checkInclusion({ ...good, hashes: hashes.slice(1) }));
    assert.ok(!merkle.checkInclusion({ ...good, hashes: [...hashes, other] }));
    assert.ok(!merkle.checkInclusion({ ...good, hashes: hashes.with(0, other) }));
  }
});

test('a consistency proof between unrelated trees is not accepted', () => {
  const leaves = Array.from({ length: 23 }, (_, i) => Buffer.from(`line ${i}`));
  const { edge, nodes } = grow(leaves);
  const other = merkle.hashLeaf(Buffer.from('other'));
  for (let size1 = 1; size1 < 23; size1 += 1) {
    const hashes = merkle.proveConsistency(nodes, size1, 23);
    const good = {
      size1,
      root1: merkle.computeRoot(nodes, size1),
      size2: 23,
      root2: edge.root(),
      hashes,
    };
    assert.ok(merkle.checkConsistency(good));
    assert.ok(!merkle.checkConsistency({ ...good, root1: other }));
    assert.ok(!merkle.checkConsistency({ ...good, root2: other }));
    assert.ok(!merkle.checkConsistency({ ...good, hashes: [] }));
    assert.ok(!merkle.checkConsistency({ ...good, hashes: [...hashes, other] }));
    assert.ok(!merkle.checkConsistency({ ...good, hashes: hashes.with(-1, other) }));
  }
});

test('a frontier restored from stored nodes grows the same tree', () => {
  const leaves = Array.from({ length: 70 }, (_, i) => Buffer.from(`line ${i}`));
  const { edge, nodes } = grow(leaves);
  for (const size of [0, 1, 2, 31, 32, 33, 64, 69, 70]) {
    const later = CompactRange.read(nodes, 0, size);
    for (const leaf of leaves.slice(size)) later.add(merkle.toRaw(merkle.hashLeaf(leaf)));
    assert.deepEqual(later.root(), edge.root());
  }
});

test('hashing in place returns the leaf hash and overwrites only the byte before the line', () => {
  const buf = Buffer.from('\nabc\ndef\n');
  const leaf = merkle.fromRaw(merkle.hashLeafAt(buf, 5, 8));
  assert.deepEqual(leaf, merkle.hashLeaf(Buffer.from('def')));
  assert.equal(buf.toString('latin1'), '\nabc\0def\n');
});
