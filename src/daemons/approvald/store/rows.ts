// approvald's tables and rows, and the API's views of them. Times are milliseconds since 1970;
// lists and objects are JSON text.

import { toTimestamp } from '../../../platform/clock.ts';
import type { IdColumns } from '../../../platform/find-ids.ts';
import { OUTBOX_TABLES } from '../../../platform/outbox.ts';
import type { Migrations } from '../../../platform/sql/database.ts';
import type { ProposedMemory } from '../../../wire/approvald/proposals.ts';
import type {
  ApprovalStatus,
  ApprovalSummary,
  ApprovalView,
  ChainLink,
  DecisionChannel,
  PermitView,
  PersonAnswer,
  Reversibility,
  Risk,
} from '../../../wire/approvald.ts';
import type { MemoryId } from '../../../wire/memoryd/records.ts';
import type {
  ApprovalId,
  CallId,
  Label,
  PermitId,
  RunId,
  TaskId,
} from '../../../wire/primitives.ts';
import {
  type DecisionRecord,
  describePermits,
  type PermitScope,
  type RequestScope,
  selectApprovals,
} from '../rules.ts';
import { REPLY_CODES_TABLE } from './reply-code-row.ts';

export const ID_COLUMNS: IdColumns = {
  approval: ['approvals', 'id'],
  permit: ['permits', 'id'],
};

/** A row of approvals is what people decide on; a row of asks is one call that waits for it. */
export const MIGRATIONS: Migrations = [
  `
CREATE TABLE approvals (
  id TEXT PRIMARY KEY,
  status TEXT NOT NULL,
  group_key TEXT NOT NULL,
  agent TEXT NOT NULL,
  task_id TEXT NOT NULL,
  root_task_id TEXT NOT NULL,
  action TEXT NOT NULL,
  class TEXT NOT NULL,
  risk TEXT NOT NULL,
  reversibility TEXT NOT NULL,
  chain TEXT NOT NULL,
  repo TEXT,
  summary TEXT NOT NULL,
  reason TEXT NOT NULL,
  rules TEXT NOT NULL,
  labels TEXT NOT NULL,
  arguments TEXT NOT NULL,
  arguments_hash TEXT NOT NULL,
  edited TEXT,
  edited_hash TEXT,
  diff TEXT,
  diff_hash TEXT,
  rollback TEXT,
  nonce TEXT NOT NULL,
  approvers_needed INTEGER NOT NULL,
  said TEXT NOT NULL,
  thread TEXT NOT NULL,
  permit_id TEXT,
  refusals INTEGER NOT NULL,
  requested_ms BIGINT NOT NULL,
  expires_ms BIGINT NOT NULL,
  decided_ms BIGINT,
  decided_by TEXT
);
CREATE INDEX approvals_by_status ON approvals (status, id);
CREATE INDEX approvals_by_root ON approvals (root_task_id, id);
CREATE INDEX approvals_pending ON approvals (group_key) WHERE status = 'pending';
CREATE INDEX approvals_by_expiry ON approvals (expires_ms) WHERE status = 'pending';
CREATE TABLE asks (
  call_id TEXT PRIMARY KEY,
  approval_id TEXT NOT NULL,
  run_id TEXT NOT NULL,
  task_id TEXT NOT NULL,
  purpose TEXT NOT NULL,
  nonce TEXT NOT NULL,
  asked_ms BIGINT NOT NULL,
  /** Set when nobody asks any more. */
  withdrawn_ms BIGINT,
  redeemed_ms BIGINT,
  redeemed TEXT,
  redeemed_seq BIGINT,
  /** Whether agentd has ended the wait of this call. */
  told INTEGER NOT NULL
);
CREATE INDEX asks_by_approval ON asks (approval_id, call_id);
CREATE INDEX asks_by_run ON asks (run_id) WHERE withdrawn_ms IS NULL AND redeemed_ms IS NULL;
CREATE INDEX asks_untold ON asks (approval_id) WHERE told = 0;
CREATE TABLE permits (
  id TEXT PRIMARY KEY,
  scope TEXT NOT NULL,
  agent TEXT NOT NULL,
  action TEXT,
  class TEXT NOT NULL,
  risk TEXT NOT NULL,
  reversibility TEXT NOT NULL,
  root_task_id TEXT,
  repo TEXT,
  approval_id TEXT NOT NULL,
  granted_by TEXT NOT NULL,
  granted_ms BIGINT NOT NULL,
  expires_ms BIGINT NOT NULL,
  revoked_ms BIGINT,
  revoked_by TEXT,
  uses INTEGER NOT NULL
);
CREATE INDEX permits_by_agent ON permits (agent, expires_ms) WHERE revoked_ms IS NULL;
CREATE TABLE notices (
  id TEXT PRIMARY KEY,
  target TEXT NOT NULL,
  body TEXT NOT NULL,
  attempts INTEGER NOT NULL,
  next_ms BIGINT NOT NULL
);
CREATE INDEX notices_by_time ON notices (next_ms);
${OUTBOX_TABLES}
`,
  // Earlier, a rule of this name said that the tool requires approval of every call.
  `
ALTER TABLE approvals ADD COLUMN each_call INTEGER NOT NULL DEFAULT 0;
UPDATE approvals SET each_call = 1 WHERE rules LIKE '%"tool:%:approval"%';
`,
  `
CREATE INDEX approvals_by_task ON approvals (task_id, id);
CREATE INDEX approvals_by_agent ON approvals (agent, id);
CREATE INDEX approvals_by_agent_and_status ON approvals (agent, status, id);
`,
  `
CREATE TABLE tombstones (id TEXT PRIMARY KEY, root_task_id TEXT NOT NULL, pruned_ms BIGINT NOT NULL);
CREATE INDEX tombstones_by_time ON tombstones (pruned_ms);
CREATE INDEX permits_by_approval ON permits (approval_id);
CREATE INDEX approvals_by_permit ON approvals (permit_id) WHERE permit_id IS NOT NULL;
`,
  // Proposed memories. They have no task, and no text here.
  `
ALTER TABLE approvals ADD COLUMN memory_id TEXT;
ALTER TABLE approvals ADD COLUMN memory_scope TEXT;
ALTER TABLE approvals ADD COLUMN memory TEXT;
CREATE INDEX approvals_by_memory ON approvals (memory_id) WHERE memory_id IS NOT NULL;
CREATE INDEX memory_approvals_by_end ON approvals (decided_ms) WHERE memory_id IS NOT NULL;
`,
  REPLY_CODES_TABLE,
];

/** A person's decision, as stored in the column `said`. */
export type DecisionRow = DecisionRecord & {
  rule: string;
  /** An earlier version stored none. */
  channel?: DecisionChannel;
  at_ms: number;
};

export type ApprovalRow = {
  id: ApprovalId;
  status: ApprovalStatus;
  group_key: string;
  agent: string;
  task_id: TaskId;
  root_task_id: TaskId;
  action: string;
  class: string;
  risk: Risk;
  reversibility: Reversibility;
  chain: string;
  repo: string | null;
  summary: string;
  reason: string;
  rules: string;
  each_call: number;
  labels: string;
  /** Canonical JSON. */
  arguments: string;
  arguments_hash: string;
  edited: string | null;
  edited_hash: string | null;
  diff: string | null;
  diff_hash: string | null;
  rollback: string | null;
  nonce: string;
  approvers_needed: number;
  said: string;
  thread: string;
  permit_id: PermitId | null;
  refusals: number;
  requested_ms: number;
  expires_ms: number;
  decided_ms: number | null;
  decided_by: string | null;
  /** Set for a proposed memory; it stands in the place of its task, too, since it has none. */
  memory_id: MemoryId | null;
  memory_scope: string | null;
  memory: string | null;
};

export type RequestRow = {
  call_id: CallId;
  approval_id: ApprovalId;
  run_id: RunId;
  task_id: TaskId;
  purpose: string;
  nonce: string;
  asked_ms: number;
  withdrawn_ms: number | null;
  redeemed_ms: number | null;
  redeemed: string | null;
  redeemed_seq: number | null;
  told: number;
};

export type PermitRow = {
  id: PermitId;
  scope: 'task' | 'repo' | 'class';
  agent: string;
  action: string | null;
  class: string;
  risk: Risk;
  reversibility: Reversibility;
  root_task_id: TaskId | null;
  repo: string | null;
  approval_id: ApprovalId;
  granted_by: string;
  granted_ms: number;
  expires_ms: number;
  revoked_ms: number | null;
  revoked_by: string | null;
  uses: number;
};

const toTimestampOrNull = (ms: number | null): string | null =>
  ms === null ? null : toTimestamp(Number(ms));
const parseList = <T>(text: string): T[] => JSON.parse(text) as T[];
export const readDecisions = (row: Pick<ApprovalRow, 'said'>): DecisionRow[] => parseList(row.said);
export const readLabels = (row: Pick<ApprovalRow, 'labels'>): Label[] => parseList(row.labels);

/** With the version that an approval would put in force, or has put. */
export function readMemory(row: ApprovalRow): ProposedMemory | null {
  if (row.memory === null) return null;
  const { version } = JSON.parse(row.edited ?? row.arguments) as { version: number };
  return { ...(JSON.parse(row.memory) as ProposedMemory), version };
}

/** An earlier version stored links without `part` and `what`. */
type StoredLink = Omit<ChainLink, 'part' | 'what'> & Partial<ChainLink>;

export const readChain = (row: Pick<ApprovalRow, 'chain'>): ChainLink[] =>
  parseList<StoredLink>(row.chain).map((link, i) => ({
    part: i === 0 ? 'call' : 'brings',
    what: '',
    ...link,
  }));

export const toRequestScope = (row: ApprovalRow): RequestScope => ({
  agent: row.agent,
  action: row.action,
  class: row.class,
  risk: row.risk,
  reversibility: row.reversibility,
  chain: readChain(row),
  rootTaskId: row.root_task_id,
  repo: row.repo,
  labels: readLabels(row),
  rules: parseList<string>(row.rules),
  eachCall: row.each_call !== 0,
});

export const toPermitScope = (row: PermitRow, shown: readonly ChainLink[]): PermitScope => ({
  scope: row.scope,
  agent: row.agent,
  action: row.action,
  class: row.class,
  risk: row.risk,
  reversibility: row.reversibility,
  rootTaskId: row.root_task_id,
  repo: row.repo,
  shown: shown.map((link) => link.class),
});

export const isActive = (row: PermitRow, nowMs: number): boolean =>
  row.revoked_ms === null && Number(row.expires_ms) > nowMs;

/** Returns the people whose approval counts: given here, or with the permit. */
export function listApprovers(row: ApprovalRow, permit: PermitRow | undefined): string[] {
  if (permit !== undefined && row.permit_id === permit.id && readDecisions(row).length === 0)
    return parseList<string>(permit.granted_by);
  return selectApprovals(readDecisions(row)).map(({ by }) => by);
}

export type CountedRow = ApprovalRow & { calls: number; permit_granted_by: string | null };

export function toApprovalSummary(row: CountedRow): ApprovalSummary {
  const approvers = selectApprovals(readDecisions(row)).map(({ by }) => by);
  const byPermit = approvers.length === 0 && row.permit_granted_by !== null;
  return {
    id: row.id,
    status: row.status,
    agent: row.agent,
    task_id: row.memory_id === null ? row.task_id : null,
    root_task_id: row.memory_id === null ? row.root_task_id : null,
    action: row.action,
    class: row.class,
    risk: row.risk,
    reversibility: row.reversibility,
    repo: row.repo,
    summary: row.summary,
    reason: row.reason,
    rules: parseList(row.rules),
    labels: readLabels(row),
    arguments_hash: row.edited_hash ?? row.arguments_hash,
    arguments_bytes: Buffer.byteLength(row.edited ?? row.arguments),
    diff_bytes: row.diff === null ? null : Buffer.byteLength(row.diff),
    calls: Number(row.calls),
    approvers_needed: row.approvers_needed,
    approved_by: byPermit ? parseList(row.permit_granted_by!) : approvers,
    escalated_to: readDecisions(row).findLast(({ answer }) => answer === 'escalate')?.to ?? null,
    permit_id: row.permit_id,
    requested_at: toTimestamp(Number(row.requested_ms)),
    expires_at: toTimestamp(Number(row.expires_ms)),
    decided_at: toTimestampOrNull(row.decided_ms),
    decided_by: row.decided_by,
    memory: readMemory(row),
  };
}

const toPersonAnswer = ({
  key: _key,
  channel = 'api',
  at_ms,
  ...rest
}: DecisionRow): PersonAnswer => ({
  ...rest,
  channel,
  at: toTimestamp(at_ms),
});

export function toApprovalView(row: CountedRow, asks: readonly RequestRow[]): ApprovalView {
  const requested = JSON.parse(row.arguments) as Record<string, unknown>;
  return {
    ...toApprovalSummary(row),
    arguments:
      row.edited === null ? requested : (JSON.parse(row.edited) as Record<string, unknown>),
    arguments_asked: row.edited === null ? null : requested,
    chain: readChain(row),
    diff: row.diff,
    rollback: row.rollback,
    nonce: row.nonce,
    asks: (row.memory_id === null ? asks : []).map((ask) => ({
      call_id: ask.call_id,
      run_id: ask.run_id,
      task_id: ask.task_id,
      purpose: ask.purpose,
      asked_at: toTimestamp(Number(ask.asked_ms)),
      redeemed_at: toTimestampOrNull(ask.redeemed_ms),
    })),
    answers: readDecisions(row).map(toPersonAnswer),
    thread: parseList(row.thread),
    would_permit: describePermits(toRequestScope(row)),
  };
}

export function toPermitView(row: PermitRow, nowMs: number): PermitView {
  return {
    id: row.id,
    scope: row.scope,
    agent: row.agent,
    action: row.action,
    class: row.class,
    risk: row.risk,
    reversibility: row.reversibility,
    root_task_id: row.root_task_id,
    repo: row.repo,
    approval_id: row.approval_id,
    granted_by: parseList(row.granted_by),
    granted_at: toTimestamp(Number(row.granted_ms)),
    expires_at: toTimestamp(Number(row.expires_ms)),
    revoked_at: toTimestampOrNull(row.revoked_ms),
    revoked_by: row.revoked_by,
    uses: row.uses,
    active: isActive(row, nowMs),
  };
}
