// The rows of approvald's routes: for each, a request that succeeds and specific ones it must
// refuse.
import assert from 'node:assert/strict';
import { writePersonKey } from '../../src/daemons/approvald/testing/person-key.ts';
import { deriveId } from '../../src/platform/ids.ts';
import { hashJson } from '../../src/platform/json.ts';
import type { Redeemed } from '../../src/wire/approvald/statement.ts';
import { type ApprovalView, approvaldRoutes } from '../../src/wire/approvald.ts';
import type { MemoryView } from '../../src/wire/memoryd/records.ts';
import type { ApprovalId, CallId, PermitId } from '../../src/wire/primitives.ts';
import { callSocket, type IdleWorld, socketOf } from '../support/callers.ts';
import { eraseCopiesRow } from './erasure-rows.ts';
import { expireRow, pruneRow } from './prune-rows.ts';
import { type Bad, type Good, rows, withBody } from './row.ts';

let made = 0;

const newRequest = (world: IdleWorld) => {
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
type ApprovalBody = ReturnType<typeof newRequest>;

async function requestApproval(
  world: IdleWorld,
): Promise<{ body: ApprovalBody; approval: ApprovalView }> {
  const body = newRequest(world);
  const path = socketOf(world, 'approvald', 'toold', world.someRun)!;
  const outcome = await callSocket(path, approvaldRoutes.askApproval, { body });
  assert.ok(outcome.ok, JSON.stringify(outcome));
  return { body, approval: (outcome.value as { approval: ApprovalView }).approval };
}
const idOf = async (world: IdleWorld): Promise<Good> => ({
  params: { id: (await requestApproval(world)).approval.id },
});
/** A decision on what the person saw. */
const answering = async (world: IdleWorld, body: object): Promise<Good> => {
  const { id, nonce } = (await requestApproval(world)).approval;
  return { params: { id }, body: { ...body, nonce } };
};
const unseen: Bad = [
  'the nonce of another approval',
  (g) => withBody(g, { nonce: 'x'.repeat(22) }),
  'conflict',
];
const becomes = (status: string) => (response: { approval: ApprovalView }) =>
  assert.equal(response.approval.status, status);

async function permit(world: IdleWorld): Promise<PermitId> {
  const { id, nonce } = (await requestApproval(world)).approval;
  const body = { for: 'task', nonce } as const;
  const { approval } = await world.approvald.approve({ params: { id }, body });
  await world.approvald.revokePermit({ params: { id: approval.permit_id! } });
  return approval.permit_id!;
}

async function proposed(world: IdleWorld): Promise<MemoryView> {
  const text = `Fact ${made++} about storks.`;
  const body = { class: 'semantic', scope: 'project:wire', text } as const;
  return (await world.memoryd.proposeMemory({ body })).memory;
}
const toProposal = ({ id, version, class: kind, scope, by, labels }: MemoryView) => ({
  memory_id: id,
  version,
  class: kind,
  scope,
  by,
  run_id: null,
  task_id: null,
  labels,
  rules: [],
  reason: 'it was proposed',
  is_named: true,
});

/** As memoryd has requested it, or would. */
async function requestProposal(
  world: IdleWorld,
): Promise<{ memory: MemoryView; approval_id: ApprovalId }> {
  const memory = await proposed(world);
  const path = socketOf(world, 'approvald', 'memoryd', world.someRun)!;
  const outcome = await callSocket(path, approvaldRoutes.askProposal, { body: toProposal(memory) });
  assert.ok(outcome.ok, JSON.stringify(outcome));
  return { memory, approval_id: (outcome.value as { approval_id: ApprovalId }).approval_id };
}

export const ROWS = rows({
  askApproval: {
    good: async (world) => ({ body: newRequest(world) }),
    check: (response: { status: string; approval: ApprovalView }, good) => {
      assert.equal(response.status, 'pending');
      assert.deepEqual(response.approval.arguments, (good.body as ApprovalBody).arguments);
    },
    bad: [
      ['other arguments', (g) => withBody(g, { arguments: { commit: 'evil' } }), 'bad_request'],
      ['an unknown risk', (g) => withBody(g, { risk: 'none' }), 'bad_request'],
      ['no word on permits', (g) => withBody(g, { each_call: undefined }), 'bad_request'],
      ['an agent of no name', (g) => withBody(g, { agent: '../x' }), 'bad_request'],
    ],
  },
  redeemApproval: {
    good: async (world) => {
      const { body, approval } = await requestApproval(world);
      const answer = { nonce: approval.nonce };
      await world.approvald.approve({ params: { id: approval.id }, body: answer });
      const { call_id, run_id, arguments_hash } = body;
      return { params: { id: approval.id }, body: { call_id, run_id, arguments_hash, labels: [] } };
    },
    check: (response: Redeemed) => {
      assert.equal(response.decision, 'approved');
      assert.deepEqual(response.statement?.by, ['person:tester']);
    },
    bad: [
      ['other arguments', (g) => withBody(g, { arguments_hash: 'f'.repeat(64) }), 'denied'],
      ['another run', (g) => withBody(g, { run_id: `run_${'0'.repeat(26)}` }), 'denied'],
      ['another call', (g) => withBody(g, { call_id: `call_${'0'.repeat(26)}` }), 'denied'],
    ],
  },
  askProposal: {
    good: async (world) => ({ body: toProposal(await proposed(world)) }),
    check: (response: { status: string }) => assert.equal(response.status, 'pending'),
    bad: [
      ['a class of its own', (g) => withBody(g, { class: 'audit' }), 'bad_request'],
      ['no version', (g) => withBody(g, { version: 0 }), 'bad_request'],
    ],
  },
  decideProposal: {
    good: async (world) => {
      const { approval_id } = await requestProposal(world);
      const person = { principal: 'person:tester', key: 'operator' };
      return { params: { id: approval_id }, body: { person, answer: 'approve', version: 1 } };
    },
    check: (response: { status: string }) => assert.equal(response.status, 'approved'),
    bad: [
      ['a version that the memory does not have', (g) => withBody(g, { version: 7 }), 'conflict'],
      [
        'an agent',
        (g) => withBody(g, { person: { principal: 'agent:worker', key: 'operator' } }),
        'denied',
      ],
    ],
  },
  decideByReply: {
    // Nobody is switched on in this world: the refusal is a value, for the person.
    good: async () => ({
      body: {
        mail_id: deriveId('mail', 'wire', made++),
        person: { principal: 'person:tester', key: 'people/tester' },
        answer: 'approve',
        code: 'abcde-fghij',
        answers: null,
      },
    }),
    check: (response: { decided: boolean; text: string }) => {
      assert.equal(response.decided, false);
      assert.match(response.text, /switched off for tester/);
    },
    bad: [
      ['another answer', (g) => withBody(g, { answer: 'escalate' }), 'bad_request'],
      ['no mail', (g) => withBody(g, { mail_id: 'x' }), 'bad_request'],
    ],
  },
  redeemProposal: {
    good: async (world) => {
      const { memory, approval_id } = await requestProposal(world);
      return {
        params: { id: approval_id },
        body: { memory_id: memory.id, version: 1, labels: [] },
      };
    },
    check: (response: Redeemed) => assert.equal(response.decision, 'pending'),
    bad: [
      [
        'another memory',
        (g) => withBody(g, { memory_id: `memory_${'0'.repeat(26)}` }),
        'not_found',
      ],
      ['another version', (g) => withBody(g, { version: 7 }), 'not_found'],
    ],
  },
  withdrawProposals: {
    good: async (world) => ({
      body: { memory_ids: [(await requestProposal(world)).memory.id] },
    }),
    check: (response: { withdrawn: number }) => assert.equal(response.withdrawn, 1),
  },
  withdrawApprovals: {
    good: async (world) => {
      const { body } = await requestApproval(world);
      return { body: { run_id: body.run_id, call_id: body.call_id, reason: 'over' } };
    },
    check: (response: { withdrawn: number }) => assert.equal(response.withdrawn, 1),
  },
  approvalKey: {
    good: async () => ({}),
    check: (response: { public_key_pem: string }) =>
      assert.match(response.public_key_pem, /^-----BEGIN PUBLIC KEY-----/),
  },
  listApprovals: {
    cites: '[R294]',
    good: async (world) => {
      await requestApproval(world);
      return { query: { limit: '1', status: 'pending' } };
    },
    check: (response: { approvals: unknown[]; pending: number }) => {
      assert.equal(response.approvals.length, 1);
      assert.ok(response.pending >= 1);
    },
    bad: [['an invalid cursor', (g) => ({ ...g, query: { cursor: 'garbage' } }), 'bad_request']],
  },
  listPendingFor: {
    good: async (world) => {
      await requestApproval(world);
      return { body: { person: { principal: 'person:tester', key: 'operator' }, limit: 1 } };
    },
    check: (response: { approvals: unknown[]; pending: number }) => {
      assert.equal(response.approvals.length, 1);
      assert.ok(response.pending >= 1);
    },
  },
  getApproval: {
    cites: '[R295] [R108]',
    good: idOf,
    check: (response: { approval: ApprovalView }) =>
      assert.equal(response.approval.diff, '-slow\n+fast\n'),
  },
  approve: {
    cites: '[R296] [R109]',
    good: (world) => answering(world, { for: 'once' }),
    check: becomes('approved'),
    bad: [['an invalid scope', (g) => withBody(g, { for: 'ever' }), 'bad_request'], unseen],
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
      ['a person without a key', (g) => withBody(g, { to: 'person:nobody' }), 'conflict'],
      unseen,
    ],
  },
  listPermits: {
    good: async (world) => {
      await permit(world);
      return { query: { limit: '1' } };
    },
    check: (response: { permits: unknown[] }) => assert.equal(response.permits.length, 1),
    bad: [['an invalid cursor', (g) => ({ ...g, query: { cursor: 'garbage' } }), 'bad_request']],
  },
  revokePermit: {
    good: async (world) => ({ params: { id: await permit(world) } }),
    check: (response: { permit: { active: boolean } }) =>
      assert.equal(response.permit.active, false),
  },
  prune: pruneRow,
  eraseCopies: eraseCopiesRow,
  expireTombstones: expireRow,
});
