// The rows of sandboxd's routes. Runners and boxes are real.
import assert from 'node:assert/strict';
import { socketPathFor } from '../../src/platform/daemon.ts';
import { deriveId } from '../../src/platform/ids.ts';
import type { BoxId, CallId, RunId, TaskId } from '../../src/wire/primitives.ts';
import type { CommandEnd, FeaturesView } from '../../src/wire/sandboxd.ts';
import { sandboxdRoutes } from '../../src/wire/sandboxd.ts';
import { callSocket, type IdleWorld } from '../support/callers.ts';
import { type Good, rows, withBody } from './row.ts';
import { LAYER_ROWS } from './sandboxd-layer-rows.ts';

let made = 0;
const fresh = () => ({
  run_id: deriveId<RunId>('run', 'sandboxd', made++),
  fence: 1,
  agent: 'worker',
  task_id: deriveId<TaskId>('task', 'sandboxd', made),
  root_task_id: deriveId<TaskId>('task', 'sandboxd', made),
});
const rules = { read: [], write: ['/workspace'], deny: [] };
const boxBody = () => ({ ...fresh(), level: 'L2', rules, network: { egress_socket: null } });
const command = () => ({
  call_id: deriveId<CallId>('call', 'sandboxd', made++),
  argv: ['/usr/bin/id', '-u'],
  collect: true,
});

const peer = (world: IdleWorld, daemon: 'agentd' | 'toold') =>
  socketPathFor(world.runtimeDir, 'sandboxd', `peer-${daemon}`);

async function startedRunner(world: IdleWorld) {
  const body = { ...fresh(), mode: 'live' };
  const outcome = await callSocket(peer(world, 'agentd'), sandboxdRoutes.startRunner, { body });
  assert.ok(outcome.ok, JSON.stringify(outcome));
  return { params: { id: body.run_id }, query: { fence: '1' } };
}

async function openedBox(world: IdleWorld) {
  const params = { id: deriveId<BoxId>('box', 'wire', made++) };
  const body = boxBody();
  const outcome = await callSocket(peer(world, 'toold'), sandboxdRoutes.openBox, { params, body });
  assert.ok(outcome.ok, JSON.stringify(outcome));
  return { params };
}

const isUid = (end: CommandEnd & { stdout_base64: string }): void => {
  assert.equal(end.exit_code, 0);
  assert.match(Buffer.from(end.stdout_base64, 'base64').toString(), /^[1-9]\d*\n$/);
};
const tooHigh = ['a level that is not built', 'level_unavailable'] as const;

export const ROWS = rows({
  identity: {
    good: async (): Promise<Good> => ({}),
    check: (response: { identity: string }) =>
      assert.ok(['users', 'dynamic', 'single'].includes(response.identity)),
  },
  checkWorkspace: {
    good: async ({ workspace }) => ({ body: { path: workspace } }),
    bad: [
      ['a path that is not allowed', (good) => withBody(good, { path: '/etc' }), 'denied'],
      [
        'a missing one',
        (good) => withBody(good, { path: `${(good.body as { path: string }).path}/none` }),
        'not_found',
      ],
    ],
  },
  releaseWorkspace: {
    unknownId: 'fine',
    good: async () => ({ params: { id: fresh().root_task_id } }),
    check: (response: { freed: boolean }) => assert.equal(response.freed, true),
  },
  listTreeFiles: { good: async () => ({ query: { kind: 'homes', limit: '10' } }) },
  pruneTreeFiles: {
    unknownId: 'fine',
    good: async () => ({ params: { id: fresh().root_task_id }, query: { kind: 'workspaces' } }),
    check: (answer: { entries: number }) => assert.equal(answer.entries, 0),
  },
  fileSizes: { good: async () => ({}) },
  ...LAYER_ROWS,
  features: {
    good: async (): Promise<Good> => ({}),
    check: (response: FeaturesView) =>
      assert.deepEqual(
        response.levels.map(({ name, works }) => [name, works]),
        [
          ['L1', true],
          ['L2', true],
          ['L3', false],
          ['L4', false],
        ],
        JSON.stringify(response),
      ),
  },
  watchLive: {
    unknownId: 'fine',
    good: async () => ({ query: { root_task_id: fresh().root_task_id, seconds: '1' } }),
    bad: [['no task', (good) => ({ ...good, query: { seconds: '1' } }), 'bad_request']],
  },
  listBoxes: {
    good: async () => ({ query: { limit: '10' } }),
    check: (response: { boxes: unknown[] }) => assert.ok(response.boxes.length > 0),
    bad: [['an invalid cursor', (good) => ({ ...good, query: { cursor: 'x' } }), 'bad_request']],
  },
  startRunner: {
    unknownRun: 'fine',
    good: async () => ({ body: { ...fresh(), mode: 'live' } }),
    check: (response: { pid: number }) => assert.ok(response.pid > 1),
  },
  runnerEnds: {
    good: async (world) => {
      const runner = await startedRunner(world);
      await callSocket(peer(world, 'agentd'), sandboxdRoutes.endRunner, runner);
      return { query: { after: '0' } };
    },
    check: (response: { epoch: string }) => assert.match(response.epoch, /^life_/),
  },
  tellRunner: {
    unknownId: 'fine',
    good: async (world) => ({ ...(await startedRunner(world)), body: { line: '{}' } }),
  },
  endRunner: {
    unknownId: 'fine',
    good: startedRunner,
    check: (response: { ended: boolean }) => assert.equal(response.ended, true),
  },
  endRunners: {
    good: async (world) => {
      await startedRunner(world);
      return {};
    },
    check: (response: { ended: number }) => assert.ok(response.ended >= 1),
  },
  openBox: {
    unknownRun: 'fine',
    unknownId: 'fine',
    good: async () => ({
      params: { id: deriveId<BoxId>('box', 'wire', made++) },
      body: boxBody(),
    }),
    check: (response: { workspace: string }) => assert.equal(response.workspace, '/workspace'),
    bad: [
      [tooHigh[0], (good) => withBody(good, { level: 'L3' }), tooHigh[1]],
      [
        'a workspace that the operator did not allow',
        (good) => ({
          ...withBody(good, { workspace_path: '/etc', root_task_id: fresh().root_task_id }),
          params: { id: deriveId<BoxId>('box', 'wire', made++) },
        }),
        'denied',
      ],
      [
        'a mode that does not exist',
        (good) => withBody(good, { workspace_mode: 'copy' }),
        'bad_request',
      ],
    ],
  },
  startProgram: {
    good: async (world) => ({ ...(await openedBox(world)), body: { argv: ['/usr/bin/true'] } }),
    check: (response: { token: string }) => assert.match(response.token, /^[\w-]{43}$/),
    bad: [['no command', (good) => withBody(good, { argv: [] }), 'bad_request']],
  },
  attachProgram: {
    // The scenario of programs attaches.
    refused: 'not_found',
    good: async () => ({
      params: { id: deriveId<RunId>('run', 'sandboxd', made++) },
      body: { token: 'A'.repeat(43) },
    }),
    bad: [['a short token', (good) => withBody(good, { token: 'A' }), 'bad_request']],
  },
  execProgram: {
    // The scenario of commands for programs starts some.
    refused: 'not_found',
    good: async () => ({
      params: { id: deriveId<RunId>('run', 'sandboxd', made++) },
      body: { argv: ['true'] },
    }),
    bad: [['no command', (good) => withBody(good, { argv: [] }), 'bad_request']],
  },
  removeHome: {
    unknownId: 'fine',
    good: async () => ({ params: { id: `home_${'0'.repeat(24)}` } }),
    check: (response: { removed: boolean }) => assert.equal(response.removed, false),
  },
  execBox: {
    good: async (world) => ({ ...(await openedBox(world)), body: command() }),
    check: isUid,
    bad: [
      [
        'a missing program',
        (good) => withBody(good, { argv: ['/usr/bin/nothing-of-that-name'] }),
        'bad_request',
      ],
    ],
  },
  boxFiles: {
    good: async (world) => ({
      ...(await openedBox(world)),
      body: { op: 'list', path: '/workspace' },
    }),
    check: (response: { entries: unknown[] }) => assert.ok(Array.isArray(response.entries)),
    bad: [
      ['a path outside the box', (good) => withBody(good, { path: '/etc/passwd' }), 'denied'],
      ['a missing path', (good) => withBody(good, { path: '/workspace/x' }), 'not_found'],
    ],
  },
  closeBox: {
    unknownId: 'fine',
    good: openedBox,
    check: (response: { closed: boolean }) => assert.equal(response.closed, true),
  },
  closeBoxes: {
    good: async (world) => {
      await openedBox(world);
      return {};
    },
    check: (response: { closed: number }) => assert.ok(response.closed >= 1),
  },
  runOnce: {
    unknownRun: 'fine',
    good: async () => ({ body: { ...boxBody(), ...command() } }),
    check: isUid,
    bad: [[tooHigh[0], (good) => withBody(good, { level: 'L4' }), tooHigh[1]]],
  },
});
