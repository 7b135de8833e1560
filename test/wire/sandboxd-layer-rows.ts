// The rows of sandboxd's routes about layers. No task of this world has a layer; the tests beside
// the daemon have.
import assert from 'node:assert/strict';
import { deriveId } from '../../src/platform/ids.ts';
import type { TaskId } from '../../src/wire/primitives.ts';
import { type Rows, rows, withBody } from './row.ts';

let made = 0;
const params = () => ({ id: deriveId<TaskId>('task', 'layers', made++) });

export const LAYER_ROWS: Rows = rows({
  forkLayer: {
    unknownId: 'not_found',
    refused: 'not_found',
    good: async () => ({
      params: params(),
      body: { root_task_id: params().id, parent_id: params().id, path: '/srv/app' },
    }),
    bad: [['no parent', (good) => withBody(good, { parent_id: 'x' }), 'bad_request']],
  },
  layerChanges: {
    unknownId: 'fine',
    good: async () => ({ params: params(), query: { limit: '10' } }),
    check: (response: { layer: unknown }) => assert.equal(response.layer, null),
    bad: [
      ['a path that leads out', (good) => ({ ...good, query: { after: '../etc' } }), 'bad_request'],
    ],
  },
  probeLayer: {
    good: async () => ({ query: { path: '/nowhere' } }),
    check: (response: { mechanism: string }) => assert.equal(response.mechanism, 'none'),
    bad: [['a relative path', () => ({ query: { path: 'a' } }), 'bad_request']],
  },
  listDisarmed: {
    good: async () => ({ query: { root_task_id: params().id } }),
    check: (response: { disarmed: unknown[] }) => assert.deepEqual(response.disarmed, []),
    bad: [['no task', () => ({ query: { root_task_id: 'x' } }), 'bad_request']],
  },
  layerTexts: {
    unknownId: 'fine',
    good: async () => ({ params: params(), body: { paths: ['a/b'], bytes_max: 100 } }),
    check: (response: { texts: { after_base64: unknown }[] }) =>
      assert.equal(response.texts[0]?.after_base64, null),
    bad: [['an absolute path', (good) => withBody(good, { paths: ['/etc'] }), 'bad_request']],
  },
  applyLayer: {
    refused: 'not_found',
    good: async () => ({ params: params(), body: { apply_id: 'apply-1', allow: [] } }),
    bad: [['a path with ..', (good) => withBody(good, { paths: ['a/../b'] }), 'bad_request']],
  },
  discardLayer: {
    unknownId: 'fine',
    good: async () => ({ params: params(), body: {} }),
    check: (response: { discarded: number }) => assert.equal(response.discarded, 0),
  },
  undoApply: {
    refused: 'not_found',
    good: async () => ({ params: params(), body: { apply_id: 'apply-1' } }),
  },
});
