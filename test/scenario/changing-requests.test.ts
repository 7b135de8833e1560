// Requests that change something at a real server: they ask a person, unless the manifest or a rule
// of the site names method and host. Nothing arrives before the approval, and it covers no other.
import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, it } from 'node:test';
import { makeReviewer } from '../../src/daemons/approvald/testing/reviewer.ts';
import { startHttp, type WirePosition } from '../../src/daemons/egressd/testing/wires.ts';
import { eventually, taskEnded } from '../support/runtime.ts';
import { call, finishes, says } from '../support/scripted-model.ts';
import {
  create,
  doTask,
  manifestOf,
  type ScriptedWorld,
  startScriptedWorld,
} from '../support/scripted-world.ts';

const HOSTS = ['issues.example.com', 'pay.example.com'];
const RULE = `permit (principal == Agent::"ruled", action == Action::"net.connect",
  resource == Host::"issues.example.com")
when { context has method && context.method == "POST" };
`;

describe('requests that change something', () => {
  let world: ScriptedWorld;
  let site: WirePosition;
  let seen: string[] = [];
  before(async () => {
    site = await startHttp((request, response) => {
      seen.push(`${request.method} ${request.headers.host?.split(':')[0]}`);
      response.end('done');
    });
    const hosts = HOSTS.map((host) => `${host}:${site.port}`);
    const spec = (change: object) =>
      JSON.stringify({
        tools: { allow: ['http.fetch'] },
        network: { mode: 'restricted', allow: hosts, ...change },
      });
    world = await startScriptedWorld({
      agents: {
        plain: manifestOf('plain', spec({})),
        named: manifestOf('named', spec({ change: { [hosts[0]!]: ['POST'] } })),
        ruled: manifestOf('ruled', spec({})),
      },
      policies: { '10-issues': RULE },
      egressd: {
        hosts: Object.fromEntries(HOSTS.map((host) => [host, '127.0.0.1'])),
        allow_private: hosts,
      },
    });
  });
  after(async () => {
    await world.stop();
    await site.close();
  });
  beforeEach(() => {
    seen = [];
  });

  let goals = 0;
  const plan = (...requests: [method: string, host: string][]): string => {
    const goal = `Send ${goals++}.`;
    const steps = requests.map(([method, host]) =>
      says(call('http.fetch', { url: `http://${host}:${site.port}/`, method })),
    );
    world.model.on(goal, ...steps, ({ results }) => finishes(results.join('\n')));
    return goal;
  };
  const pending = (taskId: string) =>
    eventually('the approval', async () => {
      const query = { status: 'pending' as const };
      const { approvals } = await world.approvald.listApprovals({ query });
      return approvals.find(({ task_id }) => task_id === taskId);
    });
  const [issues, pay] = HOSTS as [string, string];

  for (const method of ['POST', 'PUT', 'PATCH', 'DELETE'])
    it(`[R414] ${method} waits for a person, and is sent once when approved`, async () => {
      const task = await create(world, plan([method, issues]), { agent: 'plain' });
      const { id, action } = await pending(task.id);
      assert.deepEqual(seen, []);
      assert.equal(action, `http.fetch ${method} ${issues}:${site.port}`);
      const { approval } = await world.approvald.getApproval({ params: { id } });
      assert.deepEqual(approval.rules, ['base:changing-request']);
      await makeReviewer(world.approvald).approve({ params: { id }, body: {} });
      await taskEnded(world, task.id);
      assert.deepEqual(seen, [`${method} ${issues}`]);
    });

  it('[R414] rejected, nothing is sent, and the agent reads why it was asked', async () => {
    const task = await create(world, plan(['POST', issues]), { agent: 'plain' });
    const { id } = await pending(task.id);
    const { approval } = await world.approvald.getApproval({ params: { id } });
    assert.match(approval.reason, /network\.change/);
    await makeReviewer(world.approvald).reject({ params: { id }, body: { reason: 'not now' } });
    assert.match((await taskEnded(world, task.id)).result ?? '', /not now/);
    assert.deepEqual(seen, []);
  });

  for (const agent of ['named', 'ruled'])
    it(`[R414] control: where method and host are named, ${agent} asks nobody`, async () => {
      const task = await doTask(world, plan(['POST', issues]), { agent });
      assert.match(task.result ?? '', /done/);
      assert.deepEqual(seen, [`POST ${issues}`]);
      for (const other of [
        ['POST', pay],
        ['DELETE', issues],
      ] as [string, string][]) {
        const asked = await create(world, plan(other), { agent });
        await pending(asked.id);
        await world.agentd.cancelTask({ params: { id: asked.id }, body: {} });
      }
      assert.equal(seen.length, 1);
    });

  it('[R414] an approval for the task covers this method at this host only', async () => {
    const goal = plan(['POST', issues], ['DELETE', issues]);
    const task = await create(world, goal, { agent: 'plain' });
    const first = await pending(task.id);
    const body = { for: 'task' as const };
    await makeReviewer(world.approvald).approve({ params: { id: first.id }, body });
    const second = await eventually('another approval', async () => {
      const found = await pending(task.id);
      return found.id === first.id ? undefined : found;
    });
    assert.equal(second.action, `http.fetch DELETE ${issues}:${site.port}`);
    assert.deepEqual(seen, [`POST ${issues}`]);
    await makeReviewer(world.approvald).reject({ params: { id: second.id }, body: {} });
    await taskEnded(world, task.id);
  });
});
