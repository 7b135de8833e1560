// The rows of the routes that approvald calls at memoryd.
import assert from 'node:assert/strict';
import type { MemoryView } from '../../src/wire/memoryd/records.ts';
import type { IdleWorld } from '../support/callers.ts';
import { type Bad, rows, withBody } from './row.ts';

const person = { principal: 'person:tester', key: 'operator' };
const unknown: Bad = [
  'an unknown memory',
  (g) => withBody(g, { memory_id: `memory_${'0'.repeat(26)}` }),
  'not_found',
];

/** `propose`: makes a proposal. */
export const makeApprovaldRows = (propose: (world: IdleWorld) => Promise<MemoryView>) =>
  rows({
    reviewProposal: {
      good: async (world) => ({ body: { memory_id: (await propose(world)).id, person } }),
      check: (review: { version: number; status: string; diff: string }) => {
        assert.deepEqual([review.version, review.status], [1, 'proposed']);
        assert.match(review.diff, /herons/);
      },
      bad: [unknown],
    },
    editProposal: {
      good: async (world) => ({
        body: { memory_id: (await propose(world)).id, person, version: 1, text: 'Reworded.' },
      }),
      check: ({ version }: { version: number }) => assert.equal(version, 2),
      bad: [
        unknown,
        ['a version that is not the newest', (g) => withBody(g, { version: 7 }), 'conflict'],
      ],
    },
    proposalDecided: {
      good: async (world) => {
        const { id } = await propose(world);
        const { memory } = await world.memoryd.rejectMemory({ params: { id } });
        assert.equal(memory.status, 'rejected');
        const approval_id = `approval_${'0'.repeat(26)}`;
        return { body: { memory_id: id, approval_id, version: 1 } };
      },
      check: ({ status }: { status: string }) => assert.equal(status, 'rejected'),
    },
    filterProposed: {
      good: async (world) => ({ body: { memory_ids: [(await propose(world)).id] } }),
      check: ({ memory_ids }: { memory_ids: string[] }) => assert.equal(memory_ids.length, 1),
    },
  });
