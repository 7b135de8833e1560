// The audit events of approvals and permits. Their ids follow from the journal; they carry hashes,
// sizes and ids, never arguments, diffs or what people wrote.
import type { EventDraft } from '../../wire/events.ts';
import type { ApprovalRow, DecisionRow, PermitRow, RequestRow } from './store/rows.ts';

const about = (row: ApprovalRow, ask?: Pick<RequestRow, 'call_id' | 'run_id' | 'task_id'>) => ({
  agent: row.agent,
  task_id: ask?.task_id ?? row.task_id,
  root_task_id: row.root_task_id,
  tool: row.action,
  ...(ask === undefined ? {} : { run_id: ask.run_id, call_id: ask.call_id }),
});

export function requested(row: ApprovalRow, ask: RequestRow): EventDraft {
  return {
    id: `${row.id}.requested.${ask.call_id}`,
    event: 'approval.requested',
    principal: `agent:${row.agent}`,
    ...about(row, ask),
    status: row.status === 'approved' ? 'granted' : 'pending',
    policy: (JSON.parse(row.rules) as string[]).join(' ').slice(0, 512),
    data: {
      approval_id: row.id,
      class: row.class,
      risk: row.risk,
      reversibility: row.reversibility,
      arguments_hash: row.arguments_hash,
      diff_hash: row.diff_hash,
      marks: (JSON.parse(row.labels) as string[]).join(' '),
      approvers_needed: row.approvers_needed,
      permit_id: row.permit_id,
    },
  };
}

const STATUS = {
  approve: 'approved',
  reject: 'rejected',
  'request-info': 'info',
  escalate: 'escalated',
} as const;

/** One for each thing a person said; `final` when it ended the approval. */
export function decided(
  row: ApprovalRow,
  said: DecisionRow,
  place: { number: number; calls: readonly RequestRow[]; final: boolean },
): EventDraft {
  return {
    id: `${row.id}.decided.${place.number}`,
    event: 'approval.decided',
    principal: said.by,
    ...about(row, place.calls.length === 1 ? place.calls[0] : undefined),
    allowed: said.answer === 'approve',
    policy: said.rule.slice(0, 512),
    status: STATUS[said.answer],
    data: {
      approval_id: row.id,
      final: place.final,
      calls: place.calls.length,
      for: said.for,
      to: said.to,
      arguments_hash: row.arguments_hash,
      edited_hash: said.edited_hash,
      text_bytes: Buffer.byteLength(said.text ?? ''),
    },
  };
}

export function expired(row: ApprovalRow): EventDraft {
  return {
    id: `${row.id}.expired`,
    event: 'approval.expired',
    principal: 'service:approvald',
    ...about(row),
    allowed: false,
    status: row.status,
    data: { approval_id: row.id, arguments_hash: row.arguments_hash },
  };
}

export function redeemed(
  row: ApprovalRow,
  ask: RequestRow,
  outcome: { decision: string; by: readonly string[]; hash: string },
): EventDraft {
  return {
    id: `${row.id}.redeemed.${ask.call_id}`,
    event: 'approval.redeemed',
    principal: `agent:${row.agent}`,
    ...about(row, ask),
    allowed: outcome.decision === 'approved',
    status: outcome.decision,
    data: {
      approval_id: row.id,
      by: outcome.by.join(' '),
      arguments_hash: outcome.hash,
      permit_id: row.permit_id,
      nonce: ask.nonce,
    },
  };
}

/** Somebody tried to use an approval for something else. */
export function refused(
  row: ApprovalRow,
  asked: { call_id: string; run_id: string },
  why: { code: string; number: number },
): EventDraft {
  return {
    id: `${row.id}.refused.${why.number}`,
    event: 'approval.redeemed',
    principal: 'service:toold',
    agent: row.agent,
    task_id: row.task_id,
    root_task_id: row.root_task_id,
    run_id: asked.run_id,
    call_id: asked.call_id,
    tool: row.action,
    allowed: false,
    status: 'refused',
    data: { approval_id: row.id, why: why.code },
  };
}

const aboutPermit = (row: PermitRow) => ({
  agent: row.agent,
  ...(row.action === null ? {} : { tool: row.action }),
  ...(row.root_task_id === null ? {} : { root_task_id: row.root_task_id }),
});

export function permitGranted(row: PermitRow, approval: ApprovalRow): EventDraft {
  return {
    id: `${row.id}.granted`,
    event: 'permit.granted',
    principal: (JSON.parse(row.granted_by) as string[]).at(-1)!,
    ...aboutPermit(row),
    task_id: approval.task_id,
    root_task_id: approval.root_task_id,
    status: row.scope,
    data: {
      permit_id: row.id,
      approval_id: approval.id,
      class: row.class,
      risk: row.risk,
      expires_ms: row.expires_ms,
      repo: row.repo?.slice(0, 1_024) ?? null,
    },
  };
}

export function permitUsed(row: PermitRow, approval: ApprovalRow, ask: RequestRow): EventDraft {
  return {
    id: `${row.id}.used.${ask.call_id}`,
    event: 'permit.used',
    principal: `agent:${row.agent}`,
    ...about(approval, ask),
    status: row.scope,
    data: { permit_id: row.id, approval_id: approval.id },
  };
}

export function permitRevoked(row: PermitRow, by: string): EventDraft {
  return {
    id: `${row.id}.revoked`,
    event: 'permit.revoked',
    principal: by,
    ...aboutPermit(row),
    status: row.scope,
    data: { permit_id: row.id, approval_id: row.approval_id, uses: row.uses },
  };
}
