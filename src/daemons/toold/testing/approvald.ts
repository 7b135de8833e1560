// Test helper: an approvald that serves the routes toold uses from memory, with a real key. Tests
// set the decisions.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { deriveId } from '../../../platform/ids.ts';
import { canonicalJson, sha256Hex } from '../../../platform/json.ts';
import { openSigningKey } from '../../../platform/signed-json.ts';
import type { Redeemed, Statement } from '../../../wire/approvald/statement.ts';
import { type ApprovalView, type AskApproval, approvaldRoutes } from '../../../wire/approvald.ts';
import { fault } from '../../../wire/errors.ts';
import type { ApprovalId } from '../../../wire/primitives.ts';
import { AT, dispatchOf } from './peers.ts';

const { askApproval, redeemApproval, approvalKey } = approvaldRoutes;
const usedRoutes = { askApproval, redeemApproval, approvalKey };

type DecisionInput = {
  decision: Redeemed['decision'];
  edited?: Record<string, unknown>;
  text?: string;
};
type FakeApproval = { ask: AskApproval; decision: DecisionInput };

export type FakeApprovald = ReturnType<typeof fakeApprovald>;

export function fakeApprovald() {
  const dir = mkdtempSync(join(tmpdir(), 'toold-a-'));
  const key = openSigningKey(join(dir, 'key'));
  rmSync(dir, { recursive: true });
  const approvals = new Map<string, FakeApproval>();
  const state = {
    approvals,
    redeemed: [] as string[],
    /** As with a permit: the next requests are granted at once. */
    permits: false,
    /** Changes the response, as a lying approvald would. */
    forge: (answer: Redeemed): Redeemed => answer,
    gate: (_route: string): void => {},
  };
  const idOf = (callId: string) => deriveId<ApprovalId>('approval', callId);

  const dispatch = dispatchOf('approvald', usedRoutes, {
    async askApproval({ body }) {
      state.gate('ask');
      const id = idOf(body.call_id);
      const found = approvals.get(id) ?? { ask: body, decision: { decision: 'pending' } };
      approvals.set(id, found);
      if (state.permits) found.decision = { decision: 'approved' };
      const ended = state.permits ? ('granted' as const) : ('ended' as const);
      const status = found.decision.decision === 'pending' ? ('pending' as const) : ended;
      return { approval: viewOf(id, found), status };
    },
    async redeemApproval({ params, body }) {
      state.gate('redeem');
      const found = approvals.get(params.id);
      const ask = found?.ask;
      if (found === undefined || ask === undefined || ask.call_id !== body.call_id)
        throw fault('denied', 'it was requested for another call');
      if (ask.arguments_hash !== body.arguments_hash)
        throw fault('denied', 'it was requested with other arguments');
      state.redeemed.push(body.call_id);
      const shown = ask.diff === null ? null : sha256Hex(ask.diff);
      if (found.decision.decision === 'approved' && shown !== body.diff_hash)
        found.decision = { decision: 'changed', text: 'it is no longer what the person saw' };
      const args = found.decision.edited ?? ask.arguments;
      const statement: Statement = {
        v: 1,
        approval_id: params.id,
        call_id: body.call_id,
        run_id: body.run_id,
        agent: ask.agent,
        task_id: ask.task_id,
        action: ask.action,
        decision: found.decision.decision as Statement['decision'],
        asked_hash: ask.arguments_hash,
        arguments_hash: sha256Hex(canonicalJson(args)),
        diff_hash: found.decision.edited || ask.diff === null ? null : sha256Hex(ask.diff),
        by: ['person:alice'],
        permit_id: null,
        nonce: 'n',
        at: AT,
      };
      return state.forge({
        decision: found.decision.decision,
        arguments: found.decision.decision === 'approved' ? args : null,
        edited: found.decision.edited !== undefined,
        text: found.decision.text ?? null,
        statement,
        signature: key.signJson(statement),
        key_id: key.keyId,
      });
    },
    async approvalKey() {
      return { key_id: key.keyId, public_key_pem: key.publicKeyPem };
    },
  });

  return {
    state,
    dispatch,
    /** Signs the statement as approvald would, whatever it states. */
    signed: (answer: Redeemed, statement: Statement): Redeemed => ({
      ...answer,
      statement,
      signature: key.signJson(statement),
    }),
    approvalOf: (callId: string): FakeApproval | undefined => approvals.get(idOf(callId)),
    decide(callId: string, decision: DecisionInput): void {
      approvals.get(idOf(callId))!.decision = decision;
    },
  };
}

function viewOf(id: ApprovalId, { ask }: FakeApproval): ApprovalView {
  const { call_id, run_id, purpose = '', repo, diff, rollback, chain = [], ...rest } = ask;
  return {
    ...rest,
    id,
    status: 'pending',
    repo,
    diff,
    rollback,
    chain,
    arguments_bytes: 0,
    diff_bytes: null,
    calls: 1,
    approvers_needed: 1,
    approved_by: [],
    escalated_to: null,
    permit_id: null,
    requested_at: AT,
    expires_at: '2026-06-30T18:00:00.000Z',
    decided_at: null,
    decided_by: null,
    memory: null,
    arguments_asked: null,
    nonce: 'n',
    answers: [],
    thread: [],
    would_permit: {},
    asks: [{ call_id, run_id, task_id: ask.task_id, purpose, asked_at: AT, redeemed_at: null }],
  };
}
