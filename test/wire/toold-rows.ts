// The rows of toold's routes.
import assert from 'node:assert/strict';
import { socketPathFor } from '../../src/platform/daemon.ts';
import { tooldRoutes } from '../../src/wire/toold.ts';
import { callSocket, type IdleWorld, type LiveRun, runSocketOf } from '../support/callers.ts';
import { admission, freshRun } from './admission.ts';
import { eraseCopiesRow } from './erasure-rows.ts';
import { expireRow, pruneRow } from './prune-rows.ts';
import { rows, withBody } from './row.ts';

let made = 0;

const echo = (run: LiveRun) => ({
  call_id: run.callId(100 + made++),
  tool: 'test.echo',
  arguments: { text: 'hello' },
});

/** Makes a call of `test.echo` and returns its id. */
export async function madeCall(world: IdleWorld) {
  const path = runSocketOf(world, 'toold', world.someRun);
  const body = echo(world.someRun);
  const outcome = await callSocket(path, tooldRoutes.call, { body });
  assert.ok(outcome.ok, JSON.stringify(outcome));
  return body.call_id;
}

const forTools = () => ({
  ...admission(),
  tools: ['test.echo'],
  grant_expires_at: null,
  workspace: null,
  workspace_mode: null,
  max_calls: 9,
  restored: null,
});

export const ROWS = rows({
  listTools: {
    cites: '[R287]',
    good: async (world) => ({ run: world.someRun }),
    check: (response: { tools: { name: string }[] }) =>
      assert.ok(response.tools.some(({ name }) => name === 'task.finish')),
  },
  call: {
    cites: '[R288]',
    good: async (world) => ({ run: world.someRun, body: echo(world.someRun) }),
    check: (response: { status: string; result: { text: string } }) => {
      assert.equal(response.status, 'completed');
      assert.equal(response.result.text, 'hello');
    },
    bad: [
      ['a call of another shape', (g) => withBody(g, { call_id: 'call_1' }), 'bad_request'],
      [
        'a call of another run',
        (g) => withBody(g, { call_id: `call_${'0'.repeat(26)}` }),
        'bad_request',
      ],
      ['arguments that are a list', (g) => withBody(g, { arguments: [1] }), 'bad_request'],
    ],
  },
  getCall: {
    cites: '[R289]',
    good: async (world) => ({ run: world.someRun, params: { id: await madeCall(world) } }),
  },
  listCalls: {
    good: async (world) => ({ query: { run_id: world.someRun.id } }),
    bad: [['an invalid cursor', (g) => ({ ...g, query: { cursor: 'garbage' } }), 'bad_request']],
  },
  checkArguments: {
    good: async () => ({ params: { name: 'test.echo' }, body: { arguments: { text: 1 } } }),
    check: (response: { problem: string }) => assert.match(response.problem, /^text: /),
    bad: [['arguments that are a list', (g) => withBody(g, { arguments: [1] }), 'bad_request']],
  },
  decideCall: {
    good: async () => ({
      params: { name: 'test.echo' },
      body: { agent: 'worker', arguments: { text: 'x' } },
    }),
    check: (response: { decision: { answer: string; is_whole: boolean } }) =>
      assert.deepEqual([response.decision.answer, response.decision.is_whole], ['allow', true]),
    bad: [
      ['invalid arguments', (g) => withBody(g, { agent: 'worker', arguments: {} }), 'bad_request'],
      ['an unknown tool', (g) => ({ ...g, params: { name: 'no.tool' } }), 'not_found'],
    ],
  },
  suspendTool: {
    good: async () => ({ params: { name: 'test.count_effect' }, body: { reason: 'looks odd' } }),
    check: (response: { tool: { suspended: { reason: string } } }) =>
      assert.equal(response.tool.suspended.reason, 'looks odd'),
    bad: [
      ['no reason', (g) => withBody(g, { reason: '' }), 'bad_request'],
      ['what every run needs', (g) => ({ ...g, params: { name: 'task.finish' } }), 'bad_request'],
    ],
  },
  resumeTool: {
    good: async (world) => {
      const params = { name: 'test.count_effect' };
      await world.toold.suspendTool({ params, body: { reason: 'x' } });
      return { params };
    },
    check: (response: { tool: { suspended?: object } }) =>
      assert.equal(response.tool.suspended, undefined),
    bad: [['one that is not suspended', () => ({ params: { name: 'test.echo' } }), 'conflict']],
  },
  admitRun: {
    unknownId: 'fine',
    good: async () => ({ params: { id: freshRun() }, body: forTools() }),
  },
  openProgram: {
    good: async (world) => {
      const id = freshRun();
      const path = socketPathFor(world.runtimeDir, 'toold', 'peer-agentd');
      const body = forTools();
      assert.ok((await callSocket(path, tooldRoutes.admitRun, { params: { id }, body })).ok);
      return { params: { id }, body: { fence: 1, command: { argv: ['/usr/bin/true'] } } };
    },
    check: (response: { token: string }) => assert.match(response.token, /^[\w-]{43}$/),
    unknownId: 'stale_fence',
    bad: [['an older fence', (g) => withBody(g, { fence: 9 }), 'stale_fence']],
  },
  dismissRun: {
    unknownId: 'fine',
    good: async (world) => {
      const id = freshRun();
      const body = forTools();
      const path = socketPathFor(world.runtimeDir, 'toold', 'peer-agentd');
      assert.ok((await callSocket(path, tooldRoutes.admitRun, { params: { id }, body })).ok);
      return { params: { id }, query: { fence: '1' } };
    },
    check: (response: { dismissed: boolean }) => assert.equal(response.dismissed, true),
  },
  markRun: {
    unknownId: 'fine',
    good: async () => ({ params: { id: freshRun() }, body: { labels: ['outside'] } }),
    check: (response: { labels: string[] }) =>
      assert.deepEqual(response.labels, [], 'not live here'),
    bad: [['no label', (g) => withBody(g, { labels: [] }), 'bad_request']],
  },
  markPlace: {
    good: async () => ({
      body: {
        root_task_id: admission().root_task_id,
        layer_task_id: admission().root_task_id,
        target: '/srv/app',
        labels: ['outside'],
      },
    }),
    check: (response: { labels: string[] }) => assert.deepEqual(response.labels, ['outside']),
    bad: [['a relative path', (g) => withBody(g, { target: 'srv' }), 'bad_request']],
  },
  prune: pruneRow,
  eraseCopies: eraseCopiesRow,
  expireTombstones: expireRow,
});
