// The routes of approvald: for each, what makes it succeed and what of its own it must refuse.
import assert from 'node:assert/strict';
import { writePersonKey } from '../../src/daemons/approvald/testing/person-key.ts';
import { deriveId } from '../../src/platform/ids.ts';
import { hashJson } from '../../src/platform/json.ts';
import { type ApprovalView, approvaldRoutes, type Redeemed } from '../../src/wire/approvald.ts';
import type { CallId, PermitId } from '../../src/wire/primitives.ts';
import { askSocket, type Quiet, socketOf } from '../support/callers.ts';
import { type Bad, type Good, rows, withBody } from './row.ts';

let made = 0;

const asking = (world: Quiet) => {
  const { id, taskId } = world.someRun;
  const args = { commit: `abc${made++}`, target: 'production' };
  return {
    call_id: deriveId<CallId>('call', 'wire', made++),
    run_id: id,
    agent: 'worker',
    task_id: taskId,
    root_task_id: taskId,
    action: 'deploy.run',
    class: 'production.change',
    risk: 'high',
    reversibility: 'externally-reversible',
    repo: '/srv/repo',
    summary: `Deploy ${args.commit}`,
    arguments: args,
    arguments_hash: hashJson(args),
    diff: '-slow\n+fast\n',
    rollback: 'deploy the commit before',
    labels: [],
    rules: ['base'],
    reason: 'production needs a person',
    each_call: false,
  };
};
type Asking = ReturnType<typeof asking>;

async function asked(world: Quiet): Promise<{ body: Asking; approval: ApprovalView }> {
  const body = asking(world);
  const path = socketOf(world, 'approvald', 'toold', world.someRun)!;
  const outcome = await askSocket(path, approvaldRoutes.askApproval, { body });
  assert.ok(outcome.ok, JSON.stringify(outcome));
  return { body, approval: (outcome.value as { approval: ApprovalView }).approval };
}
const idOf = async (world: Quiet): Promise<Good> => ({
  params: { id: (await asked(world)).approval.id },
});
/** An answer to what the person saw. */
const answering = async (world: Quiet, body: object): Promise<Good> => {
  const { id, nonce } = (await asked(world)).approval;
  return { params: { id }, body: { ...body, nonce } };
};
const unseen: Bad = [
  'the nonce of something else',
  (g) => withBody(g, { nonce: 'x'.repeat(22) }),
  'conflict',
];
const becomes = (status: string) => (answer: { approval: ApprovalView }) =>
  assert.equal(answer.approval.status, status);

async function permit(world: Quiet): Promise<PermitId> {
  const { id, nonce } = (await asked(world)).approval;
  const body = { for: 'task', nonce } as const;
  const { approval } = await world.approvald.approve({ params: { id }, body });
  await world.approvald.revokePermit({ params: { id: approval.permit_id! } });
  return approval.permit_id!;
}

export const ROWS = rows({
  askApproval: {
    good: async (world) => ({ body: asking(world) }),
    check: (answer: { status: string; approval: ApprovalView }, good) => {
      assert.equal(answer.status, 'pending');
      assert.deepEqual(answer.approval.arguments, (good.body as Asking).arguments);
    },
    bad: [
      ['other arguments', (g) => withBody(g, { arguments: { commit: 'evil' } }), 'bad_request'],
      ['a risk there is not', (g) => withBody(g, { risk: 'none' }), 'bad_request'],
      ['no word on permits', (g) => withBody(g, { each_call: undefined }), 'bad_request'],
      ['an agent of no name', (g) => withBody(g, { agent: '../x' }), 'bad_request'],
    ],
  },
  redeemApproval: {
    good: async (world) => {
      const { body, approval } = await asked(world);
      const answer = { nonce: approval.nonce };
      await world.approvald.approve({ params: { id: approval.id }, body: answer });
      const { call_id, run_id, arguments_hash } = body;
      return { params: { id: approval.id }, body: { call_id, run_id, arguments_hash, labels: [] } };
    },
    check: (answer: Redeemed) => {
      assert.equal(answer.decision, 'approved');
      assert.deepEqual(answer.statement?.by, ['person:tester']);
    },
    bad: [
      ['other arguments', (g) => withBody(g, { arguments_hash: 'f'.repeat(64) }), 'denied'],
      ['another run', (g) => withBody(g, { run_id: `run_${'0'.repeat(26)}` }), 'denied'],
      ['another call', (g) => withBody(g, { call_id: `call_${'0'.repeat(26)}` }), 'denied'],
    ],
  },
  withdrawApprovals: {
    good: async (world) => {
      const { body } = await asked(world);
      return { body: { run_id: body.run_id, call_id: body.call_id, reason: 'over' } };
    },
    check: (answer: { withdrawn: number }) => assert.equal(answer.withdrawn, 1),
  },
  approvalKey: {
    good: async () => ({}),
    check: (answer: { public_key_pem: string }) =>
      assert.match(answer.public_key_pem, /^-----BEGIN PUBLIC KEY-----/),
  },
  listApprovals: {
    cites: '[R294]',
    good: async (world) => {
      await asked(world);
      return { query: { limit: '1', status: 'pending' } };
    },
    check: (answer: { approvals: unknown[]; pending: number }) => {
      assert.equal(answer.approvals.length, 1);
      assert.ok(answer.pending >= 1);
    },
    bad: [['a cursor of nobody', (g) => ({ ...g, query: { cursor: 'garbage' } }), 'bad_request']],
  },
  getApproval: {
    cites: '[R295] [R108]',
    good: idOf,
    check: (answer: { approval: ApprovalView }) =>
      assert.equal(answer.approval.diff, '-slow\n+fast\n'),
  },
  approve: {
    cites: '[R296] [R109]',
    good: (world) => answering(world, { for: 'once' }),
    check: becomes('approved'),
    bad: [['for ever', (g) => withBody(g, { for: 'ever' }), 'bad_request'], unseen],
  },
  reject: {
    cites: '[R297] [R113]',
    good: (world) => answering(world, { reason: 'not on a Friday' }),
    check: becomes('rejected'),
    bad: [unseen],
  },
  requestInfo: {
    cites: '[R298] [R114]',
    good: (world) => answering(world, { question: 'Was it tested?' }),
    check: becomes('info'),
    bad: [['no question', (g) => withBody(g, { question: '' }), 'bad_request'], unseen],
  },
  escalate: {
    cites: '[R115]',
    good: async (world) => {
      writePersonKey(world.stateDir, 'dora');
      return answering(world, { to: 'person:dora' });
    },
    check: becomes('pending'),
    bad: [
      ['an agent', (g) => withBody(g, { to: 'agent:worker' }), 'bad_request'],
      ['somebody without a key', (g) => withBody(g, { to: 'person:nobody' }), 'conflict'],
      unseen,
    ],
  },
  listPermits: {
    good: async (world) => {
      await permit(world);
      return { query: { limit: '1' } };
    },
    check: (answer: { permits: unknown[] }) => assert.equal(answer.permits.length, 1),
    bad: [['a cursor of nobody', (g) => ({ ...g, query: { cursor: 'garbage' } }), 'bad_request']],
  },
  revokePermit: {
    good: async (world) => ({ params: { id: await permit(world) } }),
    check: (answer: { permit: { active: boolean } }) => assert.equal(answer.permit.active, false),
  },
});
