// The rows of agentd's routes about changes. The tasks of this world have directories of their own;
// test/scenario/layered-workspace.test.ts has one with a layer.
import type { TaskId } from '../../src/wire/primitives.ts';
import type { IdleWorld } from '../support/callers.ts';
import { type RouteRow, type Rows, rows, withBody } from './row.ts';

export function makeChangeRows(makeTask: (world: IdleWorld) => Promise<TaskId>): Rows {
  const refusedWith = (body: object | undefined, bad: RouteRow['bad'] = []): RouteRow => ({
    refused: 'bad_request',
    good: async (world) => ({ params: { id: await makeTask(world) }, ...(body && { body }) }),
    bad,
  });
  return rows({
    listChanges: refusedWith(undefined),
    readChangeTexts: refusedWith({ paths: ['a'], bytes_max: 100 }),
    applyChanges: refusedWith({ paths: ['a'], allow: ['git_hooks'], expect: '0'.repeat(64) }, [
      ['a path with ..', (good) => withBody(good, { paths: ['../a'] }), 'bad_request'],
    ]),
    discardChanges: refusedWith({}),
    undoChanges: refusedWith({ apply_id: 'apply_1' }),
  });
}
