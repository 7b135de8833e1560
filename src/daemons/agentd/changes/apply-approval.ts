// Requests a person's approval of an apply from approvald, and redeems it. It counts only for the
// changes that were shown, and only with approvald's signature.
import { hashJson, sha256Hex } from '../../../platform/json.ts';
import type { Client } from '../../../platform/link.ts';
import { verifyJson } from '../../../platform/signed-json.ts';
import type { PolicyDecision } from '../../../policy/request.ts';
import type { Redeemed } from '../../../wire/approvald/statement.ts';
import { type approvaldRoutes, DIFF_CHARS_MAX } from '../../../wire/approvald.ts';
import { fault } from '../../../wire/errors.ts';
import type { AgentName, ApprovalId, CallId, Label, RunId } from '../../../wire/primitives.ts';
import { type LayerActionRow, readLayerRequest } from '../store/layer-actions.ts';
import type { TaskRow } from '../store/rows.ts';
import { countAll } from './change-rules.ts';

type Approvald = Pick<
  Client<typeof approvaldRoutes>,
  'askApproval' | 'redeemApproval' | 'approvalKey'
>;

/** An apply as the person sees it. */
export type ShownApply = {
  row: LayerActionRow;
  root: TaskRow;
  /** Every change, as text. */
  diff: string;
  labels: readonly Label[];
};

export type ApplyApprovals = {
  request(shown: ShownApply, decision: PolicyDecision): Promise<ApprovalId>;
  /** Throws unless a person approved exactly this, or has not decided yet. */
  redeem(shown: ShownApply): Promise<'approved' | 'pending'>;
};

const APPLY = 'workspace.apply';
/** Stands for the agent of a task that has none. */
export const NOBODY = 'nobody';

/** Approvals are for calls of runs; an apply has the ids of one that no agent can use. */
export const toCallIds = (actionId: string): { call_id: CallId; run_id: RunId } => {
  const tail = actionId.slice(actionId.indexOf('_') + 1);
  return { call_id: `call_${tail}` as CallId, run_id: `run_${tail}` as RunId };
};
export const toActionId = (runId: string): string => `apply_${runId.slice('run_'.length)}`;

const UNDO_TEXT = 'agentctl task undo ID restores what it overwrites.';

export function makeApplyApprovals(approvald: Approvald): ApplyApprovals {
  let known: Promise<string> | undefined;
  const fetchPublicKey = (): Promise<string> => {
    known ??= approvald.approvalKey({}).then((answer) => answer.public_key_pem);
    known.catch(() => {
      known = undefined;
    });
    return known;
  };
  return {
    async request({ row, root, diff, labels }, decision) {
      if (diff.length > DIFF_CHARS_MAX)
        throw fault('too_large', `the list of changes is ${diff.length} characters long`, {
          hint: 'Apply it in parts, so that a person can review each: name paths.',
        });
      const { counts, path } = readLayerRequest(row);
      const given = toArguments(row);
      const { approval } = await approvald.askApproval({
        body: {
          ...toCallIds(row.id),
          agent: (root.assigned_to ?? NOBODY) as AgentName,
          task_id: row.root_task_id as never,
          root_task_id: row.root_task_id as never,
          action: APPLY,
          class: APPLY,
          risk: 'medium',
          reversibility: 'reversible',
          repo: path,
          summary: `${row.principal} wants to apply ${countAll(counts!)} changes to ${path}`.slice(
            0,
            2_000,
          ),
          arguments: given,
          arguments_hash: hashJson(given),
          diff,
          rollback: UNDO_TEXT,
          labels: [...labels],
          rules: decision.rules.map((rule) => rule.slice(0, 200)).slice(0, 64),
          reason: decision.reason.slice(0, 2_000),
          each_call: true,
        },
      });
      return approval.id;
    },

    async redeem(shown) {
      const { row, diff, labels } = shown;
      const id = row.approval_id as ApprovalId;
      const redeemed = await approvald.redeemApproval({
        params: { id },
        body: {
          ...toCallIds(row.id),
          arguments_hash: hashJson(toArguments(row)),
          diff_hash: sha256Hex(diff),
          labels: [...labels],
        },
      });
      if (redeemed.decision === 'pending') return 'pending';
      if (redeemed.decision !== 'approved') throw notApprovedFault(id, redeemed);
      assertSigned(shown, redeemed, await fetchPublicKey());
      return 'approved';
    },
  };
}

/** Equal applies are one approval, so this has no id. */
function toArguments(row: LayerActionRow): Record<string, unknown> {
  const { path, paths = [], allow = [], change_sha256, counts, overwrite } = readLayerRequest(row);
  const { principal, root_task_id } = row;
  return {
    directory: path,
    root_task_id,
    requested_by: principal,
    paths,
    allow,
    ...(overwrite === true ? { overwrite } : {}),
    change_sha256,
    counts,
  };
}

function notApprovedFault(id: string, { decision, text }: Redeemed) {
  const why = text === null ? '' : `: ${text}`;
  if (decision === 'changed')
    return fault('conflict', `the changes are not those that were approved (${id})${why}`, {
      hint: 'Nothing was applied. Look at them again, and apply again.',
    });
  return fault('denied', `${id} is ${decision}${why}`, {
    hint: 'Nothing was applied. The changes stay in the layer.',
  });
}

function assertSigned({ row, diff }: ShownApply, redeemed: Redeemed, publicKeyPem: string): void {
  const { statement, signature } = redeemed;
  const { call_id, run_id } = toCallIds(row.id);
  const hash = hashJson(toArguments(row));
  const isOwn =
    statement?.approval_id === row.approval_id &&
    statement.call_id === call_id &&
    statement.run_id === run_id &&
    statement.action === APPLY &&
    statement.decision === 'approved' &&
    // Edited arguments are not what is applied.
    statement.arguments_hash === hash &&
    statement.diff_hash === sha256Hex(diff);
  if (isOwn && verifyJson(statement, signature ?? '', publicKeyPem)) return;
  throw fault('denied', `${row.approval_id} carries no valid signature for this apply`, {
    hint: 'Stop. An operator should inspect the audit log.',
  });
}
