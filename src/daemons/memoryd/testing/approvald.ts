// Test helper: an approvald in memory for memoryd, with a real key. It asks memoryd what a person
// may do, as the real one does, and lets tests decide.
import { join } from 'node:path';
import type { RunningDaemon } from '../../../platform/daemon.ts';
import { makeDispatch } from '../../../platform/dispatch.ts';
import { deriveId } from '../../../platform/ids.ts';
import { hashJson } from '../../../platform/json.ts';
import { localLink, makeClient } from '../../../platform/link.ts';
import { silentLog } from '../../../platform/log.ts';
import { makeMetrics } from '../../../platform/metrics.ts';
import { openSigningKey } from '../../../platform/signed-json.ts';
import type { ActingPerson, AskProposal } from '../../../wire/approvald/proposals.ts';
import type { Redeemed, Statement } from '../../../wire/approvald/statement.ts';
import { approvaldRoutes } from '../../../wire/approvald.ts';
import { fault } from '../../../wire/errors.ts';
import { memorydRoutes } from '../../../wire/memoryd.ts';
import type { ApprovalId, CallId, RunId } from '../../../wire/primitives.ts';

export type FakeProposal = {
  asked: AskProposal;
  decision: 'pending' | 'approved' | 'rejected' | 'expired' | 'canceled';
  by: string[];
  /** The version that was approved. */
  version: number;
};
export type FakeProposals = {
  daemon: RunningDaemon;
  proposals: Map<ApprovalId, FakeProposal>;
  /** Changes the answer, as a lying approvald would. */
  forge(answer: Redeemed): Redeemed;
  /** May throw. */
  beforeCall(route: string): void;
};

const AT = '2026-06-29T18:00:00Z';
const argumentsOf = ({ memory_id, class: kind, scope }: AskProposal, version: number) => ({
  memory_id,
  version,
  class: kind,
  scope,
});

export function fakeProposals(stateDir: string, memoryd: () => RunningDaemon): FakeProposals {
  const key = openSigningKey(join(stateDir, 'approvald.key'));
  const reviewer = makeClient(
    memorydRoutes,
    localLink(() => memoryd().dispatch, {
      kind: 'daemon',
      principal: 'service:approvald',
      daemon: 'approvald',
    }),
  );
  const proposals = new Map<ApprovalId, FakeProposal>();
  const find = (id: ApprovalId): FakeProposal => {
    const found = proposals.get(id);
    if (found === undefined) throw fault('not_found', `approval ${id} not found`);
    return found;
  };
  const assertAllowed = async (
    { asked }: FakeProposal,
    person: ActingPerson,
    decision: { answer: 'approve' | 'reject'; version: number },
  ): Promise<void> => {
    const { memory_id } = asked;
    const review = await reviewer.reviewProposal({ body: { memory_id, person } });
    const obstacle =
      decision.answer === 'approve' ? review.approve_obstacle : review.reject_obstacle;
    if (obstacle !== null) throw fault('denied', obstacle);
    if (review.version !== decision.version) throw fault('conflict', 'it has changed');
  };
  const state: FakeProposals = {
    daemon: undefined as never,
    proposals,
    forge: (answer) => answer,
    beforeCall: () => {},
  };
  const { askProposal, decideProposal, redeemProposal, withdrawProposals, approvalKey } =
    approvaldRoutes;
  const dispatch = makeDispatch({
    routes: { askProposal, decideProposal, redeemProposal, withdrawProposals, approvalKey },
    handlers: {
      async askProposal({ body }) {
        state.beforeCall('ask');
        const id = deriveId<ApprovalId>('approval', body.memory_id, body.version);
        const fresh: FakeProposal = {
          asked: body,
          decision: 'pending',
          by: [],
          version: body.version,
        };
        const known = proposals.get(id) ?? fresh;
        proposals.set(id, known);
        const isPending = known.decision === 'pending';
        return { approval_id: id, status: isPending ? ('pending' as const) : ('ended' as const) };
      },
      async decideProposal({ params, body: { person, answer, version } }) {
        const found = find(params.id);
        await assertAllowed(found, person, { answer, version });
        if (found.decision !== 'pending') throw fault('conflict', `it is ${found.decision}`);
        const decision = answer === 'approve' ? ('approved' as const) : ('rejected' as const);
        Object.assign(found, { decision, version, by: [person.principal] });
        return { status: found.decision };
      },
      async redeemProposal({ params }) {
        state.beforeCall('redeem');
        const { asked, decision, by, version } = find(params.id);
        if (decision === 'pending') return { ...NOTHING, decision, key_id: key.keyId };
        const given = argumentsOf(asked, version);
        const statement: Statement = {
          v: 1,
          approval_id: params.id,
          call_id: deriveId<CallId>('call', params.id),
          run_id: deriveId<RunId>('run', params.id),
          agent: 'nobody',
          task_id: null,
          action: 'memory.write',
          decision,
          asked_hash: hashJson(argumentsOf(asked, asked.version)),
          arguments_hash: hashJson(given),
          diff_hash: null,
          by: by as Statement['by'],
          permit_id: null,
          nonce: 'n',
          at: AT,
        };
        return state.forge({
          decision,
          arguments: decision === 'approved' ? given : null,
          edited: version !== asked.version,
          text: null,
          statement,
          signature: key.signJson(statement),
          key_id: key.keyId,
        });
      },
      async withdrawProposals({ body }) {
        const gone = [...proposals.values()].filter(({ asked }) =>
          body.memory_ids.includes(asked.memory_id),
        );
        for (const each of gone) each.decision = 'canceled';
        return { withdrawn: gone.length };
      },
      approvalKey: async () => ({ key_id: key.keyId, public_key_pem: key.publicKeyPem }),
    },
    log: silentLog,
    metrics: makeMetrics('approvald'),
  });
  const nothing = async () => {};
  state.daemon = { name: 'approvald', dispatch, begin: nothing, drain: nothing, stop: nothing };
  return state;
}

const NOTHING = { arguments: null, edited: false, text: null, statement: null, signature: null };
