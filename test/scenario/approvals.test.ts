// Approvals over real sockets: a call needs approval, its run parks without a process, a person
// decides, the run is woken and gets exactly what was approved. The test acts as toold and as the
// run.
import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { approvald } from '../../src/daemons/approvald/daemon.ts';
import { makeReviewer, type Reviewer } from '../../src/daemons/approvald/testing/reviewer.ts';
import { hostDaemon, socketPathFor } from '../../src/platform/daemon.ts';
import { deriveId } from '../../src/platform/ids.ts';
import { hashJson } from '../../src/platform/json.ts';
import { type Client, makeClient, socketLink } from '../../src/platform/link.ts';
import { verifyJson } from '../../src/platform/signed-json.ts';
import { agentdRoutes } from '../../src/wire/agentd.ts';
import type { Redeemed } from '../../src/wire/approvald/statement.ts';
import { type AskApproval, approvaldRoutes } from '../../src/wire/approvald.ts';
import type { DaemonName } from '../../src/wire/daemons.ts';
import type { CallId } from '../../src/wire/primitives.ts';
import type { RouteTable } from '../../src/wire/route.ts';
import {
  callSocket,
  type IdleWorld,
  type LiveRun,
  runSocketOf,
  startIdleWorld,
} from '../support/callers.ts';
import { allEvents } from '../support/reconcile.ts';
import { eventually } from '../support/runtime.ts';
import { refusedWith } from '../support/scripted-world.ts';

let world: IdleWorld;
/** Calls as toold, through toold's sockets. */
let agentdByToold: Client<typeof agentdRoutes>;
let approvaldByToold: Client<typeof approvaldRoutes>;
let alice: Reviewer;
let bob: Reviewer;
const KEYS = { alice: 'a'.repeat(43), bob: 'b'.repeat(43) };

const to = <T extends RouteTable>(
  daemon: DaemonName,
  as: string,
  table: T,
  headers: Record<string, string> = {},
): Client<T> =>
  makeClient(
    table,
    socketLink({ socketPath: socketPathFor(world.runtimeDir, daemon, as), headers }),
  );
const person = (key: string, name?: string) =>
  makeReviewer(
    to('approvald', 'operator', approvaldRoutes, {
      authorization: `Bearer ${key}`,
      ...(name === undefined ? {} : { 'agentd-person': name }),
    }),
  );

before(async () => {
  world = await startIdleWorld({ approvald: { expires_s: 3_600 } });
  mkdirSync(join(world.stateDir, 'people'), { mode: 0o700 });
  for (const [name, key] of Object.entries(KEYS))
    writeFileSync(join(world.stateDir, 'people', `${name}.key`), key, { mode: 0o600 });
  agentdByToold = to('agentd', 'peer-toold', agentdRoutes);
  connect();
});
/** Connects, again after each restart. */
function connect(): void {
  approvaldByToold = to('approvald', 'peer-toold', approvaldRoutes);
  [alice, bob] = [person(KEYS.alice), person(KEYS.bob)];
}
after(() => world.stop());

type ParkedCall = {
  run: LiveRun;
  body: AskApproval;
  id: AskApproval['call_id'] & string;
  params: { id: never };
};
let made = 0;

/** Acts as toold when policy asks: requests the approval, opens the wait; then the run parks. */
async function requestApproval(run: LiveRun, more: Partial<AskApproval> = {}): Promise<ParkedCall> {
  const args = { commit: 'abc123', n: made };
  const body: AskApproval = {
    call_id: deriveId<CallId>('call', run.id, 'approve', made++),
    run_id: run.id,
    agent: 'worker',
    task_id: run.taskId,
    root_task_id: run.taskId,
    action: 'deploy.run',
    class: 'production.change',
    risk: 'high',
    reversibility: 'irreversible',
    repo: null,
    summary: 'Deploy abc123',
    arguments: args,
    arguments_hash: hashJson(args),
    diff: '+fast\n',
    rollback: null,
    labels: [],
    rules: ['base:production'],
    reason: 'prod',
    each_call: false,
    ...more,
  };
  const { approval, status } = await approvaldByToold.askApproval({ body });
  assert.equal(status, 'pending');
  await agentdByToold.toolAwaitApproval({
    body: {
      run_id: run.id,
      fence: run.fence,
      call_id: body.call_id,
      approval_id: approval.id,
      expires_at: approval.expires_at,
    },
  });
  return { run, body, id: body.call_id, params: { id: approval.id as never } };
}

async function park({ run, id }: ParkedCall): Promise<void> {
  const parked = await callSocket(runSocketOf(world, 'agentd', run), agentdRoutes.runPark, {
    body: { call_ids: [id] },
  });
  assert.ok(parked.ok, JSON.stringify(parked));
  await eventually('the run to be parked', async () => {
    const { run: now } = await world.agentd.getRun({ params: { id: run.id } });
    return now.status === 'parked' ? true : undefined;
  });
}

const woken = ({ run }: ParkedCall) =>
  eventually('the run to be woken', async () => {
    const { run: now } = await world.agentd.getRun({ params: { id: run.id } });
    return now.status === 'live' && now.fence > run.fence ? now : undefined;
  });

const redeem = ({ params, body }: ParkedCall): Promise<Redeemed> => {
  const { call_id, run_id, arguments_hash, labels } = body;
  return approvaldByToold.redeemApproval({
    params,
    body: { call_id, run_id, arguments_hash, labels },
  });
};

async function restartApprovald(): Promise<void> {
  await world.hosted.get('approvald')!.stop();
  await hostDaemon(approvald, world.options);
  await world.hosted.get('approvald')!.begin();
  connect();
}

describe('a person’s approval', () => {
  it('[R18] a run parks, is woken by the approval, and may do exactly what was approved', async () => {
    const parked = await requestApproval(await world.startRun());
    await park(parked);
    const task = (await world.agentd.getTask({ params: { id: parked.run.taskId } })).task;
    assert.equal(task.status, 'waiting');
    assert.equal(task.reason, 'waiting for an approval');
    await alice.approve({ params: parked.params, body: {} });
    await woken(parked);
    const redeemed = await redeem(parked);
    assert.equal(redeemed.decision, 'approved');
    assert.deepEqual(redeemed.arguments, parked.body.arguments);
    const { public_key_pem } = await approvaldByToold.approvalKey({});
    assert.ok(verifyJson(redeemed.statement, redeemed.signature!, public_key_pem));
    const { waits } = await world.agentd.listWaits({ query: { task_id: parked.run.taskId } });
    assert.equal(waits[0]?.kind, 'approval');
    assert.equal(waits[0]?.answered_by, 'person:alice');
  });

  it('[R143] [R144] the log has the request, the decision and its use, with the person and the rule', async () => {
    const parked = await requestApproval(await world.startRun());
    await alice.approve({ params: parked.params, body: { for: 'once' } });
    await redeem(parked);
    const events = await eventually('the events', async () => {
      const all = await allEvents(world);
      const own = all.filter(({ data }) => data?.approval_id === parked.params.id);
      return own.length === 3 ? own : undefined;
    });
    assert.deepEqual(
      events.map(({ event, principal }) => `${event} ${principal}`),
      [
        'approval.requested agent:worker',
        'approval.decided person:alice',
        'approval.redeemed agent:worker',
      ],
    );
    assert.match(events[1]?.policy ?? '', /base/);
    assert.equal(events[2]?.data?.by, 'person:alice');
  });

  for (const [what, redeemed, decision] of [
    [
      'a no',
      (p: ParkedCall) => bob.reject({ params: p.params, body: { reason: 'no' } }),
      'rejected',
    ],
    [
      'a question',
      (p: ParkedCall) => bob.requestInfo({ params: p.params, body: { question: 'Why?' } }),
      'info',
    ],
  ] as const)
    it(`${what} also wakes the run, which can read it`, async () => {
      const parked = await requestApproval(await world.startRun());
      await park(parked);
      await redeemed(parked);
      await woken(parked);
      assert.equal((await redeem(parked)).decision, decision);
    });

  it('a decision before the call waits is not lost', async () => {
    const run = await world.startRun();
    const args = { commit: 'early' };
    const early = { arguments: args, arguments_hash: hashJson(args) };
    const call_id = deriveId<CallId>('call', run.id, 'early');
    const whole = await requestApproval(run);
    const body = { ...whole.body, ...early, call_id };
    const { approval } = await approvaldByToold.askApproval({ body });
    await alice.approve({ params: { id: approval.id }, body: {} });
    const waiting = { run_id: run.id, fence: run.fence, call_id, approval_id: approval.id };
    const { wait } = await agentdByToold.toolAwaitApproval({
      body: { ...waiting, expires_at: approval.expires_at },
    });
    await eventually('the wait to end', async () => {
      world.clock.advance(200);
      const { wait: now } = await world.agentd.getWait({ params: { id: wait.id } });
      return now.status === 'ended' ? true : undefined;
    });
  });
});

describe('restarts', () => {
  it('between request and decision: the approval is still pending, and the decision wakes the run', async () => {
    const parked = await requestApproval(await world.startRun());
    await park(parked);
    await restartApprovald();
    const { approval } = await alice.getApproval({ params: parked.params });
    assert.equal(approval.status, 'pending');
    await alice.approve({ params: parked.params, body: { nonce: approval.nonce } });
    await woken(parked);
    assert.equal((await redeem(parked)).decision, 'approved');
  });

  it('between decision and redeeming: the decision can still be redeemed, once', async () => {
    const parked = await requestApproval(await world.startRun());
    await alice.approve({ params: parked.params, body: {} });
    await restartApprovald();
    const first = await redeem(parked);
    await restartApprovald();
    assert.deepEqual(await redeem(parked), first);
  });
});

describe('cancellation', () => {
  it('canceling a task cancels its approval', async () => {
    const parked = await requestApproval(await world.startRun());
    await park(parked);
    await world.agentd.cancelTask({ params: { id: parked.run.taskId }, body: {} });
    await eventually('the approval to be over', async () => {
      const { approval } = await alice.getApproval({ params: parked.params });
      return approval.status === 'canceled' ? true : undefined;
    });
    await refusedWith('conflict', alice.approve({ params: parked.params, body: {} }));
  });
});

describe('people are identified by their key', () => {
  it("the operator's key can act neither as alice nor as a second person", async () => {
    const asOperator = (name: string) => person(world.operatorKey, name);
    const parked = await requestApproval(await world.startRun());
    const { params } = parked;
    const body = { nonce: 'x' };
    await refusedWith('unauthenticated', asOperator('alice').approve({ params, body }));
    await refusedWith('unauthenticated', person('c'.repeat(43)).approve({ params, body }));
    await asOperator('carol').escalate({ params, body: {} });
    await refusedWith('denied', asOperator('dave').approve({ params, body: {} }));
    await bob.approve({ params, body: {} });
    assert.deepEqual((await redeem(parked)).statement?.by, ['person:bob']);
  });

  it('no run and no daemon can decide', async () => {
    const parked = await requestApproval(await world.startRun());
    await refusedWith(
      'forbidden_caller',
      approvaldByToold.approve({ params: parked.params, body: { nonce: 'x' } }),
    );
    const path = socketPathFor(world.runtimeDir, 'approvald', parked.run.id);
    await refusedWith(
      'unavailable',
      makeClient(approvaldRoutes, socketLink({ socketPath: path })).approve({
        params: parked.params,
        body: { nonce: 'x' },
      }),
    );
  });
});

describe('expiry', () => {
  it('an approval that is not decided in time expires and wakes the run', async () => {
    const parked = await requestApproval(await world.startRun(), { risk: 'medium' });
    await park(parked);
    world.clock.advance(3_600_000);
    await woken(parked);
    assert.equal((await redeem(parked)).decision, 'expired');
    await refusedWith('conflict', alice.approve({ params: parked.params, body: {} }));
  });
});
