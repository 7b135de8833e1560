// The rows of the routes by which a pruned tree is removed, the same at every daemon.
import assert from 'node:assert/strict';
import { deriveId } from '../../src/platform/ids.ts';
import type { RunId, TaskId } from '../../src/wire/primitives.ts';
import { type Good, withBody } from './row.ts';

const root = deriveId<TaskId>('task', 'wire', 'pruned');

/** A tree that no daemon knows: removing it again is no error. */
export const pruneRow = {
  unknownRun: 'fine',
  good: async () => ({
    body: { root_task_id: root, task_ids: [root], run_ids: [deriveId<RunId>('run', 'wire', 'p')] },
  }),
  check: (answer: { rows: number; left: number }) => {
    assert.equal(answer.rows, 0);
    assert.equal(answer.left, 0);
  },
  bad: [['no list', (g: Good) => withBody(g, { run_ids: 'all' }), 'bad_request']],
} as const;

export const expireRow = {
  good: async () => ({ body: { before: '2000-01-01T00:00:00Z' } }),
  check: (answer: { expired: number }) => assert.equal(answer.expired, 0),
  bad: [['no time', (g: Good) => withBody(g, { before: 'yesterday' }), 'bad_request']],
} as const;
