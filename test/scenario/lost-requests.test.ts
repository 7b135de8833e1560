// A request that may change something, with an unknown outcome: the server closed the connection
// after it had arrived. A person is asked, as for every such call; a read can be retried.
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, beforeEach, describe, it } from 'node:test';
import { makeReviewer } from '../../src/daemons/approvald/testing/reviewer.ts';
import { agentdRoutes } from '../../src/wire/agentd.ts';
import {
  callSocket,
  callTool,
  type IdleWorld,
  type LiveRun,
  runSocketOf,
  startIdleWorld,
} from '../support/callers.ts';
import { eventually } from '../support/runtime.ts';
import { manifestOf } from '../support/scripted-world.ts';

const NAME = 'pay.example.com';

describe('a request aborted after it was sent', () => {
  let world: IdleWorld;
  let site: http.Server;
  let url: string;
  let seen: string[] = [];
  let hangsUp = false;
  before(async () => {
    site = http.createServer((request, response) => {
      request.resume().on('end', () => {
        seen.push(request.method ?? '');
        if (hangsUp) request.socket.destroy();
        else response.end('done');
      });
    });
    await new Promise<void>((resolve) => site.listen(0, '127.0.0.1', resolve));
    const { port } = site.address() as AddressInfo;
    url = `http://${NAME}:${port}/`;
    const host = `'${NAME}:${port}'`;
    const network = `network: { mode: restricted, allow: [${host}], change: { ${host}: [POST] } }`;
    const spec = `{ replicas: 9, tools: { allow: [http.fetch] }, ${network} }`;
    world = await startIdleWorld({
      agents: { worker: manifestOf('worker', spec) },
      egressd: { hosts: { [NAME]: '127.0.0.1' }, allow_private: [`${NAME}:${port}`] },
    });
  });
  after(async () => {
    await world.stop();
    site.close();
  });
  beforeEach(() => {
    seen = [];
    hangsUp = true;
  });

  let step = 0;
  const fetch = async (run: LiveRun, method: string, callId = run.callId(step++)) => {
    const args = { url, method, ...(method === 'POST' ? { body: 'pay' } : {}) };
    const body = { call_id: callId, tool: 'http.fetch', arguments: args };
    return callTool(world, run, body);
  };

  const woken = (run: LiveRun): Promise<LiveRun> =>
    eventually('the run to be woken', async () => {
      const { run: now } = await world.agentd.getRun({ params: { id: run.id } });
      const isUp = now.status === 'live' && now.fence > run.fence;
      const next = { ...run, fence: now.fence };
      const isOpen = (name: 'agentd' | 'toold') => existsSync(runSocketOf(world, name, next));
      return isUp && isOpen('agentd') && isOpen('toold') ? next : undefined;
    });
  const park = async (run: LiveRun, callId: string): Promise<void> => {
    const path = runSocketOf(world, 'agentd', run);
    const parked = await callSocket(path, agentdRoutes.runPark, { body: { call_ids: [callId] } });
    assert.ok(parked.ok, JSON.stringify(parked));
  };

  /** The run parks, a person answers, the next activation repeats the call. */
  async function posted(said: string) {
    const run = await world.startRun();
    const callId = run.callId(step++);
    const first = await fetch(run, 'POST', callId);
    assert.deepEqual([first.status, first.wait?.kind], ['waiting', 'question']);
    assert.deepEqual(seen, ['POST']);
    const { call } = await world.toold.getCall({ params: { id: callId } });
    assert.equal(call.status, 'unknown');
    const { wait } = await world.agentd.getWait({ params: { id: first.wait!.id } });
    assert.match(wait.question ?? '', /Did this happen\? The tool http\.fetch of agent worker/);
    hangsUp = false;
    await park(run, callId);
    await world.agentd.answerWait({ params: { id: wait.id }, body: { answer: said } });
    const next = await woken(run);
    return { run: next, callId, result: await fetch(next, 'POST', callId) };
  }

  it('a person says that it happened: it is not sent again', async () => {
    const { result } = await posted('it happened');
    assert.equal(result.status, 'completed');
    assert.equal(result.result?.happened, true);
    assert.deepEqual(seen, ['POST']);
  });

  it('a person says that it did not happen: it is sent once more, after a new approval', async () => {
    const { run, callId, result } = await posted('it did not happen');
    // The run is marked by then, so sending needs approval.
    assert.deepEqual([result.status, result.wait?.kind], ['waiting', 'approval']);
    assert.deepEqual(seen, ['POST']);
    const { approvals } = await world.approvald.listApprovals({ query: { status: 'pending' } });
    const params = { id: approvals.find(({ task_id }) => task_id === run.taskId)!.id };
    await park(run, callId);
    await makeReviewer(world.approvald).approve({ params, body: { for: 'once' } });
    const next = await woken(run);
    const sent = await fetch(next, 'POST', callId);
    assert.deepEqual([sent.status, sent.result?.text], ['completed', 'done']);
    assert.deepEqual(seen, ['POST', 'POST']);
    assert.equal((await fetch(next, 'POST', callId)).recorded, true);
    assert.equal(seen.length, 2);
  });

  it('a failed read is reported to the agent, which may retry', async () => {
    const run = await world.startRun();
    const cut = await fetch(run, 'GET');
    assert.deepEqual([cut.status, cut.error?.code], ['failed', 'unreachable']);
    hangsUp = false;
    assert.equal((await fetch(run, 'GET')).result?.text, 'done');
  });
});
