// Facts about records that ranking needs besides their terms: fixed-size entries in blocks, found
// by ordinal, and linked to the records before and after in the same thread.
import type { Sql } from '../../../platform/sql/database.ts';

const PER_BLOCK = 64;
const ENTRY_BYTES = 34;
const IMPORTANCE_STEPS = 200;

export type IndexEntry = {
  number: number;
  /** When it happened, or else when it was recorded. */
  atMs: number;
  /** Ordinals of the neighbours in the thread; 0 for none. */
  before: number;
  after: number;
  seq: number;
  importance: number;
  isQuestion: boolean;
  tellsTime: boolean;
};

/** Reads and changes the entries of one scope. Ordinals begin at 1. */
export class Entries {
  private readonly blocks = new Map<number, DataView | undefined>();
  private readonly changed = new Set<number>();
  private readonly sql: Sql;
  private readonly scopeId: number;

  constructor(sql: Sql, scopeId: number) {
    this.sql = sql;
    this.scopeId = scopeId;
  }

  async get(ordinal: number): Promise<IndexEntry | undefined> {
    const view = await this.blockOf(ordinal);
    return view === undefined ? undefined : readEntry(view, offsetOf(ordinal));
  }

  /** Reads the blocks of ordinals and of those near them at once. */
  async load(ordinals: readonly number[], reach: number): Promise<void> {
    const blocks = new Set<number>();
    for (const ordinal of ordinals)
      for (const near of [ordinal - reach, ordinal, ordinal + reach])
        if (near > 0) blocks.add(Math.floor(near / PER_BLOCK));
    const rows = await this.sql.all<{ block: number; entries: Uint8Array }>(
      `SELECT block, entries FROM memory_index_entries
       WHERE scope_id = ? AND block IN (SELECT value FROM json_each(?))`,
      this.scopeId,
      JSON.stringify([...blocks]),
    );
    for (const { block, entries } of rows) this.blocks.set(block, viewOf(entries));
  }

  async set(ordinal: number, entry: IndexEntry): Promise<void> {
    const view = (await this.blockOf(ordinal)) ?? this.addBlock(ordinal);
    writeEntry(view, offsetOf(ordinal), entry);
    this.changed.add(Math.floor(ordinal / PER_BLOCK));
  }

  async clear(ordinal: number): Promise<void> {
    const view = await this.blockOf(ordinal);
    if (view === undefined) return;
    new Uint8Array(view.buffer, view.byteOffset + offsetOf(ordinal), ENTRY_BYTES).fill(0);
    this.changed.add(Math.floor(ordinal / PER_BLOCK));
  }

  async save(): Promise<void> {
    for (const block of this.changed) {
      const view = this.blocks.get(block)!;
      const bytes = new Uint8Array(view.buffer, view.byteOffset, view.byteLength);
      if (bytes.every((byte) => byte === 0))
        await this.sql.run(
          'DELETE FROM memory_index_entries WHERE scope_id = ? AND block = ?',
          this.scopeId,
          block,
        );
      else
        await this.sql.run(
          'REPLACE INTO memory_index_entries (scope_id, block, entries) VALUES (?, ?, ?)',
          this.scopeId,
          block,
          bytes,
        );
    }
    this.changed.clear();
  }

  private async blockOf(ordinal: number): Promise<DataView | undefined> {
    const block = Math.floor(ordinal / PER_BLOCK);
    if (this.blocks.has(block)) return this.blocks.get(block);
    const row = await this.sql.one<{ entries: Uint8Array }>(
      'SELECT entries FROM memory_index_entries WHERE scope_id = ? AND block = ?',
      this.scopeId,
      block,
    );
    const view = row && viewOf(row.entries);
    this.blocks.set(block, view);
    return view;
  }

  private addBlock(ordinal: number): DataView {
    const view = new DataView(new ArrayBuffer(PER_BLOCK * ENTRY_BYTES));
    this.blocks.set(Math.floor(ordinal / PER_BLOCK), view);
    return view;
  }
}

const viewOf = (bytes: Uint8Array): DataView =>
  new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
const offsetOf = (ordinal: number): number => (ordinal % PER_BLOCK) * ENTRY_BYTES;

function readEntry(view: DataView, at: number): IndexEntry | undefined {
  const number = view.getFloat64(at, true);
  if (number === 0) return undefined;
  const flags = view.getUint8(at + 32);
  return {
    number,
    atMs: view.getFloat64(at + 8, true),
    seq: view.getFloat64(at + 16, true),
    before: view.getUint32(at + 24, true),
    after: view.getUint32(at + 28, true),
    isQuestion: (flags & 1) !== 0,
    tellsTime: (flags & 2) !== 0,
    importance: view.getUint8(at + 33) / IMPORTANCE_STEPS,
  };
}

function writeEntry(view: DataView, at: number, entry: IndexEntry): void {
  view.setFloat64(at, entry.number, true);
  view.setFloat64(at + 8, entry.atMs, true);
  view.setFloat64(at + 16, entry.seq, true);
  view.setUint32(at + 24, entry.before, true);
  view.setUint32(at + 28, entry.after, true);
  view.setUint8(at + 32, Number(entry.isQuestion) + 2 * Number(entry.tellsTime));
  view.setUint8(at + 33, Math.round(Math.min(Math.max(entry.importance, 0), 1) * IMPORTANCE_STEPS));
}
