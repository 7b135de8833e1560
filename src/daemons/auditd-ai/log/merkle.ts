// Implements the Merkle tree of RFC 6962: hashing, roots, inclusion and consistency proofs and
// their checks. compact-range.ts grows a tree, level-files.ts stores its nodes.
import { hash } from 'node:crypto';

export const HASH_BYTES = 32;

/** A hash as a latin1 string, one character per byte: takes a third of the time of a Buffer. */
export type RawHash = string;

/** Reads the complete node `index` of `level`; level 0 has the leaves. */
export type NodeSource = { readNode(level: number, index: number): Buffer };
export type NodeSink = (level: number, node: RawHash, index: number) => void;
/** The root over the first `size` leaves. */
export type TreeHead = { size: number; root: Buffer };

export const EMPTY_ROOT: Buffer = hash('sha256', Buffer.alloc(0), 'buffer');

const pair = Buffer.alloc(1 + 2 * HASH_BYTES);
pair[0] = 1;

export function hashRawPair(left: RawHash, right: RawHash): RawHash {
  pair.write(left, 1, HASH_BYTES, 'latin1');
  pair.write(right, 1 + HASH_BYTES, HASH_BYTES, 'latin1');
  return hash('sha256', pair, 'binary');
}

export function hashNode(left: Buffer, right: Buffer): Buffer {
  left.copy(pair, 1);
  right.copy(pair, 1 + HASH_BYTES);
  return hash('sha256', pair, 'buffer');
}

export function hashLeaf(line: Uint8Array): Buffer {
  return hash('sha256', Buffer.concat([Buffer.of(0), line]), 'buffer');
}

/** Hashes `buf[start, end)` as a leaf without a copy: overwrites the byte before it with 0. */
export function hashLeafAt(buf: Buffer, start: number, end: number): RawHash {
  buf[start - 1] = 0;
  return hash('sha256', buf.subarray(start - 1, end), 'binary');
}

export const toRaw = (node: Buffer): RawHash => node.toString('latin1');
export const fromRaw = (node: RawHash): Buffer => Buffer.from(node, 'latin1');

/** Returns the largest power of two below n (n ≥ 2), where RFC 6962 splits n leaves. */
function findSplitPoint(n: number): number {
  let k = 1;
  while (k * 2 < n) k *= 2;
  return k;
}

/** Hashes leaves [start, end); `start` must be where the RFC begins such a subtree. */
function hashRange(source: NodeSource, start: number, end: number): Buffer {
  const count = end - start;
  const level = Math.log2(count);
  if (Number.isInteger(level)) return source.readNode(level, start / count);
  const middle = start + findSplitPoint(count);
  return hashNode(hashRange(source, start, middle), hashRange(source, middle, end));
}

export function computeRoot(source: NodeSource, size: number): Buffer {
  return size === 0 ? EMPTY_ROOT : hashRange(source, 0, size);
}

/** PATH(m, D[n]) of RFC 6962 2.1.1, from the leaf up. */
export function proveInclusion(source: NodeSource, index: number, size: number): Buffer[] {
  const hashes: Buffer[] = [];
  let start = 0;
  let end = size;
  while (end - start > 1) {
    const middle = start + findSplitPoint(end - start);
    if (index < middle) {
      hashes.push(hashRange(source, middle, end));
      end = middle;
    } else {
      hashes.push(hashRange(source, start, middle));
      start = middle;
    }
  }
  return hashes.reverse();
}

/** PROOF(m, D[n]) of RFC 6962 2.1.2, from the leaves up. */
export function proveConsistency(source: NodeSource, size1: number, size2: number): Buffer[] {
  if (size1 === 0 || size1 === size2) return [];
  const hashes: Buffer[] = [];
  let start = 0;
  let end = size2;
  // True while the old tree is exactly the left part, whose hash the verifier already has.
  let isWhole = true;
  while (size1 !== end) {
    const middle = start + findSplitPoint(end - start);
    if (size1 <= middle) {
      hashes.push(hashRange(source, middle, end));
      end = middle;
    } else {
      hashes.push(hashRange(source, start, middle));
      start = middle;
      isWhole = false;
    }
  }
  if (!isWhole) hashes.push(hashRange(source, start, end));
  return hashes.reverse();
}

const half = (n: number): number => Math.floor(n / 2);
const isOdd = (n: number): boolean => n % 2 === 1;

type InclusionClaim = {
  leaf: Buffer;
  index: number;
  size: number;
  hashes: readonly Buffer[];
  root: Buffer;
};

/** RFC 9162 2.1.3.2. */
export function checkInclusion(claim: InclusionClaim): boolean {
  if (claim.index >= claim.size) return false;
  let at = claim.index;
  let last = claim.size - 1;
  let node = claim.leaf;
  for (const sibling of claim.hashes) {
    if (last === 0) return false;
    if (isOdd(at) || at === last) {
      node = hashNode(sibling, node);
      while (!isOdd(at) && at !== 0) [at, last] = [half(at), half(last)];
    } else {
      node = hashNode(node, sibling);
    }
    [at, last] = [half(at), half(last)];
  }
  return last === 0 && node.equals(claim.root);
}

type ConsistencyClaim = {
  size1: number;
  root1: Buffer;
  size2: number;
  root2: Buffer;
  hashes: readonly Buffer[];
};

/** RFC 9162 2.1.4.2; every tree follows from the empty one. */
export function checkConsistency({
  size1,
  root1,
  size2,
  root2,
  hashes,
}: ConsistencyClaim): boolean {
  if (size1 > size2) return false;
  if (size1 === size2) return hashes.length === 0 && root1.equals(root2);
  if (size1 === 0) return hashes.length === 0 && root1.equals(EMPTY_ROOT);
  const path = Number.isInteger(Math.log2(size1)) ? [root1, ...hashes] : [...hashes];
  let at = size1 - 1;
  let last = size2 - 1;
  while (isOdd(at)) [at, last] = [half(at), half(last)];
  const [first, ...rest] = path;
  if (first === undefined) return false;
  let old = first;
  let now = first;
  for (const sibling of rest) {
    if (last === 0) return false;
    if (isOdd(at) || at === last) {
      old = hashNode(sibling, old);
      now = hashNode(sibling, now);
      while (!isOdd(at) && at !== 0) [at, last] = [half(at), half(last)];
    } else {
      now = hashNode(now, sibling);
    }
    [at, last] = [half(at), half(last)];
  }
  return last === 0 && old.equals(root1) && now.equals(root2);
}
