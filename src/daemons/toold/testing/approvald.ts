// For tests: an approvald that answers the routes toold uses from memory, with a real key. What a
// person would say is said here.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { deriveId } from '../../../platform/ids.ts';
import { canonicalJson, sha256Hex } from '../../../platform/json.ts';
import { openSigningKey } from '../../../platform/signed-json.ts';
import {
  type ApprovalView,
  type AskApproval,
  approvaldRoutes,
  type Redeemed,
  type Statement,
} from '../../../wire/approvald.ts';
import { fault } from '../../../wire/errors.ts';
import type { ApprovalId } from '../../../wire/primitives.ts';
import { AT, dispatchOf } from './peers.ts';

const { askApproval, redeemApproval, approvalKey } = approvaldRoutes;
const usedRoutes = { askApproval, redeemApproval, approvalKey };

type Said = { decision: Redeemed['decision']; edited?: Record<string, unknown>; text?: string };
type Asked = { ask: AskApproval; said: Said };

export type FakeApprovald = ReturnType<typeof fakeApprovald>;

export function fakeApprovald() {
  const dir = mkdtempSync(join(tmpdir(), 'toold-a-'));
  const key = openSigningKey(join(dir, 'key'));
  rmSync(dir, { recursive: true });
  const approvals = new Map<string, Asked>();
  const state = {
    approvals,
    redeemed: [] as string[],
    /** As a permit would: the next asks are granted at once. */
    permits: false,
    /** Changes what is handed over; a liar's approvald. */
    forge: (answer: Redeemed): Redeemed => answer,
    gate: (_route: string): void => {},
  };
  const idOf = (callId: string) => deriveId<ApprovalId>('approval', callId);

  const dispatch = dispatchOf('approvald', usedRoutes, {
    async askApproval({ body }) {
      state.gate('ask');
      const id = idOf(body.call_id);
      const found = approvals.get(id) ?? { ask: body, said: { decision: 'pending' } };
      approvals.set(id, found);
      if (state.permits) found.said = { decision: 'approved' };
      const ended = state.permits ? ('granted' as const) : ('ended' as const);
      const status = found.said.decision === 'pending' ? ('pending' as const) : ended;
      return { approval: viewOf(id, found), status };
    },
    async redeemApproval({ params, body }) {
      state.gate('redeem');
      const found = approvals.get(params.id);
      const ask = found?.ask;
      if (found === undefined || ask === undefined || ask.call_id !== body.call_id)
        throw fault('denied', 'it was not asked for this call');
      if (ask.arguments_hash !== body.arguments_hash)
        throw fault('denied', 'it was asked with other arguments');
      state.redeemed.push(body.call_id);
      const shown = ask.diff === null ? null : sha256Hex(ask.diff);
      if (found.said.decision === 'approved' && shown !== body.diff_hash)
        found.said = { decision: 'changed', text: 'it is not what the person saw any more' };
      const args = found.said.edited ?? ask.arguments;
      const statement: Statement = {
        v: 1,
        approval_id: params.id,
        call_id: body.call_id,
        run_id: body.run_id,
        agent: ask.agent,
        task_id: ask.task_id,
        action: ask.action,
        decision: found.said.decision as Statement['decision'],
        asked_hash: ask.arguments_hash,
        arguments_hash: sha256Hex(canonicalJson(args)),
        diff_hash: found.said.edited || ask.diff === null ? null : sha256Hex(ask.diff),
        by: ['person:alice'],
        permit_id: null,
        nonce: 'n',
        at: AT,
      };
      return state.forge({
        decision: found.said.decision,
        arguments: found.said.decision === 'approved' ? args : null,
        edited: found.said.edited !== undefined,
        text: found.said.text ?? null,
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
    /** As approvald itself would sign it, whatever it says. */
    signed: (answer: Redeemed, statement: Statement): Redeemed => ({
      ...answer,
      statement,
      signature: key.signJson(statement),
    }),
    approvalOf: (callId: string): Asked | undefined => approvals.get(idOf(callId)),
    say(callId: string, said: Said): void {
      approvals.get(idOf(callId))!.said = said;
    },
  };
}

function viewOf(id: ApprovalId, { ask }: Asked): ApprovalView {
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
    arguments_asked: null,
    nonce: 'n',
    answers: [],
    thread: [],
    would_permit: {},
    asks: [{ call_id, run_id, task_id: ask.task_id, purpose, asked_at: AT, redeemed_at: null }],
  };
}
