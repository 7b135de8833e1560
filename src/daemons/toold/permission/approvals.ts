// Requests approvals from approvald and redeems them; the run waits at agentd meanwhile. An
// approval counts only for exactly what was requested, and only with approvald's signature.
import { canonicalJson, sha256Hex } from '../../../platform/json.ts';
import type { Client } from '../../../platform/link.ts';
import { verifyJson } from '../../../platform/signed-json.ts';
import type { WaitView } from '../../../wire/agentd.ts';
import type { Redeemed } from '../../../wire/approvald/statement.ts';
import type { approvaldRoutes } from '../../../wire/approvald.ts';
import { Fault, fault } from '../../../wire/errors.ts';
import type { ApprovalId, Label } from '../../../wire/primitives.ts';
import type { ToolView } from '../../../wire/toold.ts';
import { type Job, permanentFault } from '../attempts/job.ts';
import { neutralise, truncateText } from '../results/output.ts';
import { buildCallError, type CallError } from '../rules.ts';
import {
  type AgentdClient,
  type Basis,
  changedFault,
  forRun,
  peerOptions,
  type ToolContext,
  toCallError,
} from '../tools/tool.ts';
import type { Chains } from './chain.ts';
import type { Permission } from './permission.ts';

export type ApprovaldClient = Client<typeof approvaldRoutes>;

type NeedsApproval = Permission & { kind: 'ask' };
export type PendingApproval = {
  approvalId: ApprovalId;
  /** `answered`: by a permit, or by an earlier decision. */
  status: 'pending' | 'answered';
  expiresAt: string;
};
/** The state a person approved: the call is done on exactly that, or not at all. */
export type ReviewedState = { shownHash: string | null; basis: Basis | undefined };
type Approved = {
  approved: true;
  edited: Record<string, unknown> | undefined;
  seen: ReviewedState;
};
export type ApprovalResult = Approved | { approved: false; error: CallError };

export type Approvals = {
  request(job: Job, may: NeedsApproval, context: ToolContext): Promise<PendingApproval>;
  /** Opens the run's wait, once per call. */
  wait(asked: PendingApproval, context: ToolContext): Promise<WaitView>;
  /** Renders the diff again: an approval of another one does not count. */
  redeem(job: Job, approvalId: ApprovalId, now: RedeemInput): Promise<ApprovalResult>;
  /** The state to bind the call to; for edited arguments, the current one. */
  reviewedState(
    job: Job,
    answer: Approved,
    now: RedeemInput & { edited: EditedCall },
  ): Promise<ReviewedState | CallError>;
  /** Called right before the effect. Without a basis, it throws when the preview has changed. */
  bindToApproved(
    job: Job,
    input: unknown,
    by: ApprovalBinding,
  ): Promise<Pick<ToolContext, 'approvalId' | 'basis'>>;
};
type ApprovalBinding = { approvalId: ApprovalId; seen: ReviewedState; context: ToolContext };
type EditedCall = Pick<RedeemInput, 'input' | 'context'>;
export type RedeemInput = { labels: readonly Label[]; context: ToolContext; input: unknown };

export function makeApprovals(options: {
  approvald: ApprovaldClient;
  chains: Chains;
  agentd: Pick<AgentdClient, 'toolAwaitApproval'>;
}): Approvals {
  const { approvald, agentd, chains } = options;
  let known: Promise<string> | undefined;

  const fetchPublicKey = (): Promise<string> => {
    known ??= approvald.approvalKey({}, peerOptions).then((answer) => answer.public_key_pem);
    known.catch(() => {
      known = undefined;
    });
    return known;
  };

  return {
    async request(job, may, context) {
      const { tool, run, request } = job;
      const { risk, view } = tool!;
      const { reversibility } = may.decision.verdict.facts.tool as Pick<ToolView, 'reversibility'>;
      const action = describeCallAction(job, may.input);
      const body = {
        call_id: job.callId,
        run_id: run.runId,
        agent: run.agent,
        task_id: run.taskId,
        root_task_id: run.rootTaskId,
        action,
        class: action === job.toolName ? (view.capabilities[0] ?? action) : action,
        risk,
        reversibility,
        repo: readRepo(request.arguments),
        chain: await chains.linksFor(job, may.input),
        summary: `${run.agent} wants to use ${job.toolName}`,
        ...(request.purpose === undefined ? {} : { purpose: request.purpose }),
        arguments: request.arguments,
        arguments_hash: job.argumentsHash,
        diff: (await renderPreview(job, may.input, context)).shown,
        rollback: tool!.rollback ?? null,
        labels: [...may.labels],
        rules: may.decision.verdict.rules.map((rule) => rule.slice(0, 200)).slice(0, 64),
        reason: may.decision.verdict.reason.slice(0, 2_000),
        each_call: tool!.approval === 'required',
      };
      const { approval, status } = await approvald.askApproval({ body }, peerOptions);
      return {
        approvalId: approval.id,
        status: status === 'pending' ? 'pending' : 'answered',
        expiresAt: approval.expires_at,
      };
    },

    async wait({ approvalId, expiresAt }, context) {
      const body = { ...forRun(context), approval_id: approvalId, expires_at: expiresAt };
      return (await agentd.toolAwaitApproval({ body }, peerOptions)).wait;
    },

    async redeem(job, approvalId, { labels, context, input }) {
      const seen = await readReviewedState(job, input, context).catch(permanentFault);
      if (seen instanceof Fault) return { approved: false, error: unshowableError(seen) };
      const body = {
        call_id: job.callId,
        run_id: job.run.runId,
        arguments_hash: job.argumentsHash,
        diff_hash: seen.shownHash,
        brings: await chains.consequencesFor(job, input),
        labels: [...labels],
      };
      const params = { id: approvalId };
      const redeemed = await approvald.redeemApproval({ params, body }, peerOptions);
      if (redeemed.decision !== 'approved')
        return { approved: false, error: decisionError(redeemed) };
      const action = describeCallAction(job, input);
      assertSigned(job, approvalId, { ...redeemed, action, ...seen }, await fetchPublicKey());
      const edited = redeemed.edited ? (redeemed.arguments ?? undefined) : undefined;
      return { approved: true, edited, seen };
    },

    async reviewedState(job, answer, { input, edited, context }) {
      if (answer.edited === undefined) return answer.seen;
      const now = await readReviewedState(job, edited.input, edited.context).catch(permanentFault);
      if (now instanceof Fault) return toCallError(now);
      // The person edited based on this preview, so it must still be the same.
      const still = await readReviewedState(job, input, context).catch(permanentFault);
      const isSame = !(still instanceof Fault) && still.shownHash === answer.seen.shownHash;
      return isSame ? now : changedError('');
    },

    async bindToApproved(job, input, { approvalId, seen, context }) {
      if (seen.basis !== undefined) return { approvalId, basis: seen.basis };
      const now = await readReviewedState(job, input, context);
      if (now.shownHash !== seen.shownHash) throw changedFault('the preview');
      return { approvalId };
    },
  };
}

async function renderPreview(job: Job, input: unknown, context: ToolContext) {
  const made = await job.tool!.preview?.(input, context);
  if (made === undefined) return { shown: null, basis: undefined };
  if (typeof made === 'string') return { shown: made, basis: undefined };
  const { text, basis } = made;
  const lines = Object.entries(basis).map(([name, value]) => `${name}: ${value}\n`);
  return { shown: `${lines.join('')}${text}`, basis };
}

async function readReviewedState(
  job: Job,
  input: unknown,
  context: ToolContext,
): Promise<ReviewedState> {
  const { shown, basis } = await renderPreview(job, input, context);
  return { shownHash: shown === null ? null : sha256Hex(shown), basis };
}

/** Throws unless approvald signed for this call, these arguments and this preview. */
function assertSigned(
  job: Job,
  approvalId: ApprovalId,
  given: Redeemed & ReviewedState & { action: string },
  publicKeyPem: string,
): void {
  const { statement, signature, arguments: approved, edited, action, shownHash } = given;
  const signed = verifyJson(statement, signature ?? '', publicKeyPem);
  const own =
    statement?.approval_id === approvalId &&
    statement.call_id === job.callId &&
    statement.run_id === job.run.runId &&
    statement.agent === job.run.agent &&
    statement.action === action &&
    statement.decision === 'approved' &&
    statement.asked_hash === job.argumentsHash &&
    statement.arguments_hash === sha256Hex(canonicalJson(approved)) &&
    (edited ||
      (statement.arguments_hash === job.argumentsHash && statement.diff_hash === shownHash));
  if (!signed || !own)
    throw fault('denied', `${approvalId} carries no valid approvald signature for this call`, {
      hint: 'Stop. An operator should inspect the audit log.',
    });
}

function decisionError({ decision, text }: Redeemed): CallError {
  const comment = text === null ? '' : `: ${neutralise(truncateText(text))}`;
  switch (decision) {
    case 'info':
      return buildCallError(
        'more_information',
        `a person needs more information to decide${comment}`,
        'Call again and answer the question in the purpose, or do without it.',
      );
    case 'changed':
      return changedError(comment);
    case 'rejected':
      return buildCallError(
        'rejected',
        `a person rejected this${comment}`,
        'Do not request the same again. Find another way, or end the task and say why.',
      );
    default:
      return buildCallError(
        decision === 'expired' ? 'expired' : 'denied',
        decision === 'expired'
          ? 'the approval request expired'
          : `the approval is not valid (${decision})${comment}`,
        'Continue without it, or end the task and say what was missing.',
      );
  }
}

const changedError = (comment: string): CallError =>
  buildCallError(
    'changed',
    `what a person approved differs from what would happen now${comment}`,
    'Nothing was done. Check the current state, and call again if you still want it.',
  );

const unshowableError = ({ message }: Fault): CallError => changedError(`: ${neutralise(message)}`);

/** The action a person approves, and the most a permit could cover. */
const describeCallAction = ({ tool, toolName }: Job, input: unknown): string =>
  (tool!.describeAction?.(input) ?? toolName).slice(0, 64);

function readRepo(given: Record<string, unknown>): string | null {
  const { repo } = given;
  return typeof repo === 'string' && repo !== '' && repo.length <= 4_096 ? repo : null;
}
