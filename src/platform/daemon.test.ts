// Hosted daemons: links to peers, run sockets and fences, health, and requests while stopping.
import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import * as z from 'zod';
import { errorCode, exchange, jsonOf, requestText } from '../../test/support/raw-http.ts';
import type { RunCaller } from '../wire/caller.ts';
import { DAEMON_TABLE, DAEMONS } from '../wire/daemons.ts';
import type { RunId, TaskId } from '../wire/primitives.ts';
import { route, routes } from '../wire/route.ts';
import { manualClock } from './clock.ts';
import {
  type DaemonContext,
  defineDaemon,
  hostDaemon,
  type RunningDaemon,
  socketPathFor,
} from './daemon.ts';
import { deriveId, makeIdMaker } from './ids.ts';
import { silentLog } from './log.ts';

const table = routes({
  who: route({
    method: 'GET',
    path: '/v1/who',
    callers: ['run', 'operator', 'agentd'],
    output: z.object({ principal: z.string(), fence: z.int() }),
  }),
});
const KEY = 'a-key-that-is-long-enough-to-be-one-0123456789';

describe('a hosted daemon', () => {
  const dir = mkdtempSync(join(tmpdir(), 'agentd-d-'));
  let context: DaemonContext;
  let hosted: RunningDaemon;
  const calls: string[] = [];
  const toold = defineDaemon({
    name: 'toold',
    routes: table,
    config: z.strictObject({ size: z.int() }),
    async start(given) {
      context = given;
      return {
        handlers: {
          who: async ({ caller }) => ({
            principal: caller.principal,
            fence: caller.kind === 'run' ? caller.fence : 0,
          }),
        },
        drain: async () => void calls.push('drain'),
        stop: async () => void calls.push('stop'),
      };
    },
  });

  before(async () => {
    const clock = manualClock(1_800_000_000_000);
    hosted = await hostDaemon(toold, {
      version: 'test',
      mode: 'split',
      stateDir: dir,
      runtimeDir: dir,
      operatorKey: KEY,
      config: { toold: { size: 3 } },
      clock,
      random: (n) => new Uint8Array(n),
      newId: makeIdMaker(clock),
      log: silentLog,
      here: new Map(),
    });
  });
  after(() => rmSync(dir, { recursive: true, force: true }));

  const who = async (path: string, headers: Record<string, string> = {}) => {
    const { responses } = await exchange({ path }, requestText('GET', '/v1/who', headers));
    return responses[0]!.status === 200 ? jsonOf(responses[0]!) : errorCode(responses[0]!);
  };
  const runId = deriveId<RunId>('run', 1);
  const caller = (fence: number, mode: 'live' | 'replay' = 'live'): RunCaller => ({
    kind: 'run',
    principal: 'agent:coder',
    runId,
    fence,
    mode,
    agent: 'coder',
    taskId: deriveId<TaskId>('task', 1),
  });

  it('gets its own section of the configuration', () =>
    assert.deepEqual(context.config, { size: 3 }));

  it('cannot get a client of a daemon that its row does not list', () => {
    for (const name of DAEMONS) {
      const get = () => context.peer(name, table);
      if (DAEMON_TABLE.toold.calls.includes(name)) assert.doesNotThrow(get);
      else assert.throws(get, /has no such link/);
    }
  });

  it('has one socket for the operator and one for each peer that may call, and no other', async () => {
    const operator = socketPathFor(dir, 'toold', 'operator');
    assert.equal(await who(operator), 'unauthenticated');
    const named = { authorization: `Bearer ${KEY}`, 'agentd-person': 'ann' };
    assert.deepEqual(await who(operator, named), { principal: 'person:ann', fence: 0 });
    const peer = await who(socketPathFor(dir, 'toold', 'peer-agentd'));
    assert.deepEqual(peer, { principal: 'service:agentd', fence: 0 });
    for (const name of ['modeld', 'auditd-ai', 'toold'])
      assert.equal(existsSync(socketPathFor(dir, 'toold', `peer-${name}`)), false);
  });

  it('opens a directory for a run; the socket says who calls and under which fence', async () => {
    const path = await context.runSockets.open(caller(1));
    // The box's own user must get in; no other user reaches this directory.
    assert.equal(statSync(dirname(path)).mode & 0o777, 0o755);
    assert.equal(statSync(path).mode & 0o777, 0o666);
    assert.equal(statSync(dirname(dirname(path))).mode & 0o777, 0o700);
    const lie = { 'agentd-person': 'eve', authorization: `Bearer ${KEY}` };
    assert.deepEqual(await who(path, lie), { principal: 'agent:coder', fence: 1 });
  });

  it('a higher fence replaces the socket, a lower one is refused', async () => {
    const before = await context.runSockets.open(caller(2));
    const path = await context.runSockets.open(caller(3));
    assert.notEqual(dirname(before), dirname(path), 'a holder of one does not see the other');
    assert.equal(existsSync(dirname(before)), false);
    assert.deepEqual(await who(path), { principal: 'agent:coder', fence: 3 });
    await assert.rejects(context.runSockets.open(caller(2)), { code: 'stale_fence' });
    assert.deepEqual(await who(path), { principal: 'agent:coder', fence: 3 });
  });

  it('a replay has a socket of its own, and closing one leaves the other', async () => {
    const live = await context.runSockets.open(caller(4));
    const replay = await context.runSockets.open(caller(4, 'replay'));
    assert.notEqual(live, replay);
    await context.runSockets.close(runId, 4, 'replay');
    assert.equal(existsSync(dirname(replay)), false);
    assert.deepEqual(await who(live), { principal: 'agent:coder', fence: 4 });
    await context.runSockets.close(runId, 4);
    assert.equal(existsSync(dirname(live)), false);
    await context.runSockets.close(runId, 4);
  });

  it('opening and closing the socket of one run do not overlap, and a late close is ignored', async () => {
    await context.runSockets.open(caller(5));
    const closing = context.runSockets.close(runId, 5);
    const opening = context.runSockets.open(caller(6));
    const again = context.runSockets.open(caller(7));
    const late = context.runSockets.close(runId, 6);
    await closing;
    await opening;
    const path = await again;
    await late;
    assert.deepEqual(await who(path), { principal: 'agent:coder', fence: 7 });
    await context.runSockets.close(runId, 7);
    assert.equal(existsSync(dirname(path)), false);
  });

  it('[R356] reports its health and its counters to the operator', async () => {
    const path = socketPathFor(dir, 'toold', 'operator');
    const headers = { authorization: `Bearer ${KEY}` };
    const health = await exchange({ path }, requestText('GET', '/healthz', headers));
    const body = jsonOf(health.responses[0]!) as Record<string, unknown>;
    assert.equal(body.daemon, 'toold');
    assert.equal(body.pid, process.pid);
    const metrics = await exchange({ path }, requestText('GET', '/metrics', headers));
    assert.match(metrics.responses[0]!.body.toString(), /agentd_requests_total\{daemon="toold"/);
  });

  it('stopping: refuses people, serves peers and health, then removes its sockets', async () => {
    await hosted.drain();
    const operator = socketPathFor(dir, 'toold', 'operator');
    const headers = { authorization: `Bearer ${KEY}` };
    assert.equal(await who(operator, headers), 'stopping');
    assert.deepEqual(await who(socketPathFor(dir, 'toold', 'peer-agentd')), {
      principal: 'service:agentd',
      fence: 0,
    });
    const health = await exchange({ path: operator }, requestText('GET', '/healthz', headers));
    assert.equal((jsonOf(health.responses[0]!) as { status: string }).status, 'stopping');
    await hosted.stop();
    assert.deepEqual(calls, ['drain', 'stop']);
    assert.equal(existsSync(operator), false);
  });
});
