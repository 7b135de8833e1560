// The rows of the routes by which the copies of a forgotten memory are removed.
import assert from 'node:assert/strict';
import { deriveId } from '../../src/platform/ids.ts';
import type { ErasedCopies } from '../../src/wire/copies.ts';
import type { ErasureView, MemoryId } from '../../src/wire/memoryd/records.ts';
import { type Good, rows, withBody } from './row.ts';

const memory_id = deriveId<MemoryId>('memory', 'wire', 'forgotten');
const texts = [{ text: 'Nobody ever wrote this sentence.', is_cut: false }];
const forgotten = [{ memory_id, texts }];

/** No daemon has this text. */
export const eraseCopiesRow = {
  good: async () => ({ body: { forgotten } }),
  check: ({ found, run_ids }: ErasedCopies) => assert.deepEqual([found, run_ids], [0, []]),
  bad: [
    ['no memory', (g: Good) => withBody(g, { forgotten: [] }), 'bad_request'],
    ['no texts', (g: Good) => withBody(g, { forgotten: [{ memory_id }] }), 'bad_request'],
  ],
} as const;

export const erasureRows = rows({
  startErasure: {
    good: async () => ({ body: { forgotten } }),
    check: ({ accepted }: { accepted: number }) => assert.equal(accepted, 1),
    bad: [['no memory', (g) => withBody(g, { forgotten: [] }), 'bad_request']],
  },
  getErasure: {
    good: async () => ({ params: { id: deriveId<MemoryId>('memory', 'wire', 'kept') } }),
    check: ({ erasure }: { erasure: ErasureView | null }) => assert.equal(erasure, null),
    unknownId: 'fine',
  },
});
