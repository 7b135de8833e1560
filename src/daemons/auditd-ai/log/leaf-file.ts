// LeafFile reads the leaf hashes in tree/L00: evidence of each event as it was acknowledged. The
// file is not signed, so it is trusted only as far as a signed root covers it.
import fs from 'node:fs';
import path from 'node:path';
import { CompactRange } from './compact-range.ts';
import { fromRaw, HASH_BYTES, type RawHash, type TreeHead } from './merkle.ts';

export class LeafFile {
  readonly count: number;
  readonly #fd: number | undefined;
  readonly #block = Buffer.alloc(HASH_BYTES * 2048);
  #blockAt = -1;

  constructor(dir: string) {
    const file = path.join(dir, 'tree', 'L00');
    this.#fd = fs.existsSync(file) ? fs.openSync(file, 'r') : undefined;
    this.count = this.#fd === undefined ? 0 : Math.floor(fs.fstatSync(this.#fd).size / HASH_BYTES);
  }

  read(index: number): RawHash {
    const perBlock = this.#block.length / HASH_BYTES;
    const at = Math.floor(index / perBlock);
    if (at !== this.#blockAt) {
      fs.readSync(this.#fd!, this.#block, 0, this.#block.length, at * this.#block.length);
      this.#blockAt = at;
    }
    const start = (index % perBlock) * HASH_BYTES;
    return this.#block.toString('latin1', start, start + HASH_BYTES);
  }

  /** Returns the subtree hashes of leaves [first, end), if the file has all of them. */
  readRange(first: number, end: number): CompactRange | undefined {
    if (end > this.count) return undefined;
    const range = new CompactRange(first);
    while (range.end < end) range.add(this.read(range.end));
    return range;
  }

  /** Returns how many leaf hashes a signed root confirms. */
  countSigned(signed: readonly TreeHead[]): number {
    const edge = new CompactRange();
    let trusted = 0;
    for (const { size, root } of signed.toSorted((a, b) => a.size - b.size)) {
      if (size > this.count) break;
      while (edge.size < size) edge.add(this.read(edge.size));
      if (!edge.root().equals(root)) break;
      trusted = size;
    }
    return trusted;
  }

  close(): void {
    if (this.#fd !== undefined) fs.closeSync(this.#fd);
  }
}

/** Returns true if the file has a different hash for this unsigned event. */
export function contradicts(leaves: LeafFile, index: number, leaf: RawHash): boolean {
  if (index >= leaves.count) return false;
  const known = leaves.read(index);
  return known !== leaf && fromRaw(known).some((byte) => byte !== 0);
}
