// Builds the audit events of approvals and permits. Their ids follow from the journal; they carry
// hashes, sizes and ids, never arguments, diffs or text that people wrote.
import type { EventDraft } from '../../wire/events.ts';
import {
  type ApprovalRow,
  type DecisionRow,
  type PermitRow,
  type RequestRow,
  readMemory,
} from './store/rows.ts';

const approvalFields = (
  row: ApprovalRow,
  request?: Pick<RequestRow, 'call_id' | 'run_id' | 'task_id'>,
) => ({
  tool: row.action,
  ...(row.memory_id === null
    ? {
        agent: row.agent,
        task_id: request?.task_id ?? row.task_id,
        root_task_id: row.root_task_id,
        ...(request === undefined ? {} : { run_id: request.run_id, call_id: request.call_id }),
      }
    : describeMemory(row)),
});

/** The run that wrote the memory, if one did. */
function describeMemory(row: ApprovalRow) {
  const { by, run_id, task_id } = readMemory(row)!;
  return {
    ...(by.startsWith('agent:') ? { agent: row.agent } : {}),
    ...(run_id === null ? {} : { run_id }),
    ...(task_id === null ? {} : { task_id }),
  };
}

const requester = (row: ApprovalRow): string => readMemory(row)?.by ?? `agent:${row.agent}`;

export function requested(row: ApprovalRow, request: RequestRow): EventDraft {
  return {
    id: `${row.id}.requested.${request.call_id}`,
    event: 'approval.requested',
    principal: requester(row),
    ...approvalFields(row, request),
    status: row.status === 'approved' ? 'granted' : 'pending',
    policy: (JSON.parse(row.rules) as string[]).join(' ').slice(0, 512),
    data: {
      approval_id: row.id,
      ...(row.memory_id === null ? {} : { memory_id: row.memory_id }),
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

/** One for each decision of a person; `final` when it ended the approval. */
export function decided(
  row: ApprovalRow,
  decision: DecisionRow,
  context: { number: number; calls: readonly RequestRow[]; final: boolean },
): EventDraft {
  return {
    id: `${row.id}.decided.${context.number}`,
    event: 'approval.decided',
    principal: decision.by,
    ...approvalFields(row, context.calls.length === 1 ? context.calls[0] : undefined),
    allowed: decision.answer === 'approve',
    policy: decision.rule.slice(0, 512),
    status: STATUS[decision.answer],
    data: {
      approval_id: row.id,
      final: context.final,
      calls: context.calls.length,
      for: decision.for,
      to: decision.to,
      channel: decision.channel ?? 'api',
      arguments_hash: row.arguments_hash,
      edited_hash: decision.edited_hash,
      text_bytes: Buffer.byteLength(decision.text ?? ''),
    },
  };
}

/** Policy did not let this person decide it. */
export function decisionDenied(
  row: ApprovalRow,
  denied: { id: string; by: string; answer: DecisionRow['answer']; rule: string },
): EventDraft {
  return {
    id: denied.id,
    event: 'policy.denied',
    principal: denied.by,
    ...approvalFields(row),
    allowed: false,
    policy: denied.rule.slice(0, 512),
    status: 'approval.decide',
    data: { approval_id: row.id, decision: denied.answer },
  };
}

export function expired(row: ApprovalRow): EventDraft {
  return {
    id: `${row.id}.expired`,
    event: 'approval.expired',
    principal: 'service:approvald',
    ...approvalFields(row),
    allowed: false,
    status: row.status,
    data: { approval_id: row.id, arguments_hash: row.arguments_hash },
  };
}

export function redeemed(
  row: ApprovalRow,
  request: RequestRow,
  outcome: { decision: string; by: readonly string[]; hash: string },
): EventDraft {
  return {
    id: `${row.id}.redeemed.${request.call_id}`,
    event: 'approval.redeemed',
    principal: row.memory_id === null ? requester(row) : 'service:memoryd',
    ...approvalFields(row, request),
    allowed: outcome.decision === 'approved',
    status: outcome.decision,
    data: {
      approval_id: row.id,
      by: outcome.by.join(' '),
      arguments_hash: outcome.hash,
      permit_id: row.permit_id,
      nonce: request.nonce,
    },
  };
}

/** An approval was presented for something other than what it was requested for. */
export function refused(
  row: ApprovalRow,
  request: { call_id: string; run_id: string },
  reason: { code: string; number: number },
): EventDraft {
  return {
    id: `${row.id}.refused.${reason.number}`,
    event: 'approval.redeemed',
    principal: 'service:toold',
    agent: row.agent,
    task_id: row.task_id,
    root_task_id: row.root_task_id,
    run_id: request.run_id,
    call_id: request.call_id,
    tool: row.action,
    allowed: false,
    status: 'refused',
    data: { approval_id: row.id, why: reason.code },
  };
}

const permitFields = (row: PermitRow) => ({
  agent: row.agent,
  ...(row.action === null ? {} : { tool: row.action }),
  ...(row.root_task_id === null ? {} : { root_task_id: row.root_task_id }),
});

export function permitGranted(row: PermitRow, approval: ApprovalRow): EventDraft {
  return {
    id: `${row.id}.granted`,
    event: 'permit.granted',
    principal: (JSON.parse(row.granted_by) as string[]).at(-1)!,
    ...permitFields(row),
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

export function permitUsed(row: PermitRow, approval: ApprovalRow, request: RequestRow): EventDraft {
  return {
    id: `${row.id}.used.${request.call_id}`,
    event: 'permit.used',
    principal: `agent:${row.agent}`,
    ...approvalFields(approval, request),
    status: row.scope,
    data: { permit_id: row.id, approval_id: approval.id },
  };
}

export function permitRevoked(row: PermitRow, by: string): EventDraft {
  return {
    id: `${row.id}.revoked`,
    event: 'permit.revoked',
    principal: by,
    ...permitFields(row),
    status: row.scope,
    data: { permit_id: row.id, approval_id: row.approval_id, uses: row.uses },
  };
}
