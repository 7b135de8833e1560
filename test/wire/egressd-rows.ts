// The rows of egressd's routes: for each, a request that succeeds and specific ones it must refuse.
import assert from 'node:assert/strict';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { deriveId } from '../../src/platform/ids.ts';
import { egressdRoutes } from '../../src/wire/egressd.ts';
import type { CallId, RunId, TaskId } from '../../src/wire/primitives.ts';
import { callSocket, type IdleWorld, socketOf } from '../support/callers.ts';
import { eraseCopiesRow } from './erasure-rows.ts';
import { pruneRow } from './prune-rows.ts';
import { type Good, rows, withBody } from './row.ts';

let made = 0;

/** A page on loopback; the world of the test must list it as a private target. */
const page = http.createServer((_, response) => response.end('hello'));
await new Promise<void>((resolve) => page.listen(0, '127.0.0.1', resolve));
page.unref();
const pagePort = (page.address() as AddressInfo).port;
export const PAGE = `127.0.0.1:${pagePort}`;

const opening = (port = 443) => {
  const task_id = deriveId<TaskId>('task', 'wire', 'egress', made++);
  return {
    fence: 1,
    agent: 'worker',
    task_id,
    root_task_id: task_id,
    labels: [],
    allow: [{ host: '127.0.0.1', port }],
    granted: [],
    bytes_max: 1_000_000,
  };
};

async function opened(world: IdleWorld, port?: number): Promise<RunId> {
  const id = deriveId<RunId>('run', 'wire', 'egress', made++);
  const path = socketOf(world, 'egressd', 'toold', world.someRun)!;
  const request = { params: { id }, body: opening(port) };
  const outcome = await callSocket(path, egressdRoutes.putEgress, request);
  assert.ok(outcome.ok, JSON.stringify(outcome));
  return id;
}

const params = async (world: IdleWorld): Promise<Good> => ({ params: { id: await opened(world) } });

/** A call that has sent something. */
async function fetched(world: IdleWorld): Promise<Good> {
  const id = await opened(world, pagePort);
  const call_id = deriveId<CallId>('call', 'wire', 'egress', made++);
  const path = socketOf(world, 'egressd', 'toold', world.someRun)!;
  const body = { fence: 1, call_id, method: 'POST', url: `http://${PAGE}/`, headers: {} };
  const outcome = await callSocket(path, egressdRoutes.fetch, { params: { id }, body });
  assert.ok(outcome.ok, JSON.stringify(outcome));
  return { params: { id, call_id } };
}

export const ROWS = rows({
  putEgress: {
    unknownId: 'fine',
    good: async () => ({
      params: { id: deriveId<RunId>('run', 'wire', 'egress', made++) },
      body: opening(),
    }),
    check: (response: { socket: string; cut: number }) => {
      assert.match(response.socket, /\/egressd\/run_\w{26}\.1\/proxy\.sock$/);
      assert.equal(response.cut, 0);
    },
    bad: [
      ['a rule without a host', (g) => withBody(g, { allow: [{ port: 1 }] }), 'bad_request'],
      ['a host that is none', (g) => withBody(g, { allow: [{ host: 'a b' }] }), 'bad_request'],
      ['an odd address', (g) => withBody(g, { allow: [{ host: '0x7f.1' }] }), 'bad_request'],
    ],
  },
  dropEgress: {
    unknownId: 'fine',
    good: async (world) => ({ ...(await params(world)), query: { fence: '1' } }),
    check: (response: { dropped: boolean }) => assert.equal(response.dropped, true),
  },
  getEgress: {
    good: params,
    check: (response: { egress: { open: number } }) => assert.equal(response.egress.open, 0),
  },
  listEgress: {
    good: async (world) => {
      await opened(world);
      return {};
    },
    check: (response: { egress: unknown[] }) => assert.ok(response.egress.length > 0),
  },
  getFetch: {
    unknownId: 'fine',
    good: fetched,
    check: (response: { outcome: string }) => assert.equal(response.outcome, 'answered'),
  },
  forgetFetch: {
    unknownId: 'fine',
    good: fetched,
    check: (response: { forgotten: boolean }) => assert.equal(response.forgotten, false),
  },
  fetch: {
    good: async (world) => ({
      params: { id: await opened(world, pagePort) },
      body: {
        fence: 1,
        call_id: deriveId<CallId>('call', 'wire', 'egress', made++),
        method: 'GET',
        url: `http://${PAGE}/`,
        headers: {},
      },
    }),
    check: (response: { status: number; body_base64: string }) => {
      assert.equal(response.status, 200);
      assert.equal(Buffer.from(response.body_base64, 'base64').toString(), 'hello');
    },
    bad: [
      ['another activation', (g) => withBody(g, { fence: 2 }), 'stale_fence'],
      ['a host not listed', (g) => withBody(g, { url: 'http://example.com/' }), 'denied'],
      ['an unsupported URL', (g) => withBody(g, { url: 'ftp://example.com/' }), 'denied'],
    ],
  },
  prune: pruneRow,
  eraseCopies: eraseCopiesRow,
});
