// CompactRange holds what is needed of the leaves [first, end) of a tree: the hashes of the largest
// complete subtrees that they form. Adjacent ranges can be joined; one that starts at leaf 0 has a
// root. A log's growing edge is the range of all its leaves.
import { fault } from '../../../wire/errors.ts';
import {
  EMPTY_ROOT,
  fromRaw,
  HASH_BYTES,
  hashRawPair,
  type NodeSink,
  type NodeSource,
  type RawHash,
  toRaw,
} from './merkle.ts';

/** A compact range as text: `hashes` are base64, from left to right. */
export type RangeHashes = { first: number; end: number; hashes: string[] };

type Subtree = { level: number; index: number };

/** Lists the largest complete subtrees of leaves [first, end), from left to right. */
function listSubtrees(first: number, end: number): Subtree[] {
  const subtrees: Subtree[] = [];
  for (let start = first; start < end; ) {
    let level = 0;
    let width = 1;
    while (start % (2 * width) === 0 && start + 2 * width <= end) {
      level += 1;
      width *= 2;
    }
    subtrees.push({ level, index: start / width });
    start += width;
  }
  return subtrees;
}

export class CompactRange {
  readonly first: number;
  #end: number;
  /** Subtrees that are right children of parents which begin before `first`. */
  readonly #left: RawHash[] = [];
  /** Per level, the subtree that waits for its right sibling. Valid where `end` has the bit. */
  readonly #right: RawHash[] = [];

  constructor(first = 0) {
    this.first = first;
    this.#end = first;
  }

  /** Reads the range of leaves [first, end) from stored nodes. */
  static read(source: NodeSource, first: number, end: number): CompactRange {
    const range = new CompactRange(first);
    for (const { level, index } of listSubtrees(first, end))
      range.#addSubtree(level, toRaw(source.readNode(level, index)));
    return range;
  }

  /** Throws if the number or the form of the hashes is wrong. */
  static parse({ first, end, hashes }: RangeHashes): CompactRange {
    const range = new CompactRange(first);
    range.#append(
      listSubtrees(first, end),
      hashes.map((text) => Buffer.from(text, 'base64')),
    );
    return range;
  }

  get end(): number {
    return this.#end;
  }

  get size(): number {
    return this.#end - this.first;
  }

  add(leaf: RawHash, sink?: NodeSink): void {
    this.#addSubtree(0, leaf, sink);
  }

  /** Joins the range that begins where this one ends. `sink` gets only the nodes that are known. */
  append(next: CompactRange, sink?: NodeSink): void {
    if (next.first !== this.#end)
      throw new Error(`a range from ${next.first} does not follow one to ${this.#end}`);
    this.#append(listSubtrees(next.first, next.end), next.#list().map(fromRaw), sink);
  }

  #append(subtrees: readonly Subtree[], hashes: readonly Buffer[], sink?: NodeSink): void {
    const isSound = hashes.every((node) => node.length === HASH_BYTES);
    if (!isSound || hashes.length !== subtrees.length)
      throw fault('bad_request', `${subtrees.length} hashes of 32 bytes must describe the range`);
    for (const [i, { level }] of subtrees.entries())
      this.#addSubtree(level, toRaw(hashes[i]!), sink);
  }

  #addSubtree(level: number, subtree: RawHash, sink?: NodeSink): void {
    let node = subtree;
    let at = level;
    let index = this.#end / 2 ** level;
    this.#end += 2 ** level;
    sink?.(at, node, index);
    for (; index % 2 === 1; index = (index - 1) / 2) {
      if (this.first > 0 && (index - 1) * 2 ** at < this.first) {
        this.#left.push(node);
        return;
      }
      node = hashRawPair(this.#right[at]!, node);
      at += 1;
      sink?.(at, node, (index - 1) / 2);
    }
    this.#right[at] = node;
  }

  #list(): RawHash[] {
    const right: RawHash[] = [];
    let width = 1;
    for (let level = 0; level < this.#right.length; level += 1, width *= 2) {
      const count = Math.floor(this.#end / width);
      if (count % 2 === 1 && (count - 1) * width >= this.first) right.push(this.#right[level]!);
    }
    return [...this.#left, ...right.reverse()];
  }

  format(): RangeHashes {
    const hashes = this.#list().map((node) => fromRaw(node).toString('base64'));
    return { first: this.first, end: this.#end, hashes };
  }

  /** The root over all leaves; only a range from leaf 0 has one. */
  root(): Buffer {
    if (this.first !== 0) throw new Error(`a range from ${this.first} has no root`);
    const nodes = this.#list();
    let root = nodes.pop();
    if (root === undefined) return EMPTY_ROOT;
    for (let left = nodes.pop(); left !== undefined; left = nodes.pop())
      root = hashRawPair(left, root);
    return fromRaw(root);
  }
}
