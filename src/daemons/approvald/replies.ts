// Decisions by reply to a mail. Whoever may decide this way is asked again at each step: when the
// mail is written, and when the reply comes. The decision itself is the same as over the API.
import { isTransient } from '../../platform/backoff.ts';
import type { Clock } from '../../platform/clock.ts';
import type { PersonKeys } from '../../platform/person-keys.ts';
import type { ActingPerson } from '../../wire/approvald/proposals.ts';
import type { ApprovalView } from '../../wire/approvald.ts';
import type { OperatorCaller } from '../../wire/caller.ts';
import { Fault } from '../../wire/errors.ts';
import type { ApprovalId } from '../../wire/primitives.ts';
import type { ApprovaldConfig } from './config.ts';
import type { MayDecide } from './may-decide.ts';
import { REPLY_TEXT_CHARS_MAX, renderForReply } from './reply-text.ts';
import { findObstacle, isSamePerson, selectApprovals } from './rules.ts';
import { type ApprovaldService, toDecideSubject } from './service.ts';
import { type ApprovalRow, readDecisions } from './store/rows.ts';
import type { ApprovaldStore } from './store/store.ts';

export type ApprovalReply = {
  mail_id: string;
  person: ActingPerson;
  answer: 'approve' | 'reject';
  code: string;
  answers: ApprovalId | null;
  reason?: string | undefined;
};
export type ReplyResult = { decided: boolean; approval_id: ApprovalId | null; text: string };

/** The part of a mail about an approval that is for a person who may reply. */
export type ReplyOffer =
  | { code: string; expiresMs: number; text: string }
  /** Why there is no code. */
  | { obstacle: string };

export type Replies = {
  /** Undefined: this person does not decide by reply. */
  offer(id: string, principal: string): Promise<ReplyOffer | undefined>;
  decide(reply: ApprovalReply): Promise<ReplyResult>;
};

const PERSON = 'person:';

export function makeReplies(deps: {
  store: Pick<ApprovaldStore, 'getApproval' | 'issueReplyCode' | 'takeReplyCode'>;
  service: Pick<ApprovaldService, 'getView' | 'decide'>;
  config: Pick<ApprovaldConfig, 'approve_by_reply' | 'reply_code_expires_s'>;
  mayDecide: MayDecide;
  people: Pick<PersonKeys, 'findRole'>;
  clock: Clock;
}): Replies {
  const { store, service, config, mayDecide, people, clock } = deps;

  /** With the person's own key, of which approvald knows the role itself. */
  const findCaller = (principal: string, key: string): OperatorCaller | string => {
    const name = principal.startsWith(PERSON) ? principal.slice(PERSON.length) : '';
    if (!config.approve_by_reply.includes(name))
      return `deciding by reply is switched off for ${principal.replace(PERSON, '')}`;
    if (key !== `people/${name}`) return 'deciding by reply takes a key of your own';
    const role = people.findRole(name);
    if (role !== 'approver' && role !== 'operator')
      return `${name} has no valid key that may decide`;
    return { kind: 'operator', principal, key };
  };

  const findReplyObstacle = async (
    row: ApprovalRow,
    { principal, key = '' }: OperatorCaller,
    answer: 'approve' | 'reject',
  ): Promise<string | undefined> => {
    if (row.reversibility === 'irreversible') return 'it cannot be undone';
    const { allow, reason } = await mayDecide({
      person: principal,
      answer,
      reach: 'once',
      channel: 'mail',
      approval: toDecideSubject(row),
    });
    return allow ? findObstacle(readDecisions(row), { principal, key }) : reason;
  };

  return {
    async offer(id, principal) {
      const caller = findCaller(principal, `people/${principal.slice(PERSON.length)}`);
      if (typeof caller === 'string') return undefined;
      const { row } = await store.getApproval(id);
      if (row.status !== 'pending') return undefined;
      const person = { principal, key: caller.key ?? '' };
      const hasApproved = selectApprovals(readDecisions(row)).some(({ by, key }) =>
        isSamePerson({ principal: by, key }, person),
      );
      if (hasApproved) return { obstacle: 'you have approved it, and another person must, too' };
      const obstacle = await findReplyObstacle(row, caller, 'approve');
      if (obstacle !== undefined) return { obstacle };
      const view = await service.getView(caller, id);
      const text = renderForReply(view);
      if (text.length > REPLY_TEXT_CHARS_MAX)
        return { obstacle: 'it is too long for a mail to show it whole' };
      const code = await store.issueReplyCode({
        approvalId: view.id,
        person: principal,
        nonce: view.nonce,
        expiresMs: Math.min(
          clock.nowMs() + config.reply_code_expires_s * 1000,
          Date.parse(view.expires_at),
        ),
      });
      return { code: code.code, expiresMs: Number(code.expires_ms), text };
    },
    async decide({ mail_id: mailId, person, answer, code, answers, reason }) {
      const caller = findCaller(person.principal, person.key);
      if (typeof caller === 'string') return refuse(null, caller);
      const taken = await store.takeReplyCode({
        code,
        person: caller.principal,
        answers,
        mailId,
      });
      if (!taken.ok) return refuse(taken.approvalId, taken.why);
      const { approval_id: id, nonce } = taken.row;
      try {
        const { row } = await store.getApproval(id);
        if (row.reversibility === 'irreversible') return refuse(id, 'it cannot be undone');
        const body =
          answer === 'approve'
            ? ({ answer, reach: 'once', expiresInS: undefined, edited: undefined } as const)
            : ({ answer, text: reason ?? null } as const);
        return describe(await service.decide(caller, id, body, { nonce, channel: 'mail' }));
      } catch (error) {
        // Maild tries again what may succeed later, with the same code.
        if (!(error instanceof Fault) || isTransient(error)) throw error;
        return refuse(id, error.message);
      }
    },
  };
}

const refuse = (id: ApprovalId | null, why: string): ReplyResult => ({
  decided: false,
  approval_id: id,
  text: `${why}.${id === null ? '' : ` See agentctl approvals ${id}.`}`,
});

function describe({ id, status, summary, approvers_needed, approved_by }: ApprovalView) {
  const open = approvers_needed - approved_by.length;
  const text =
    status === 'pending'
      ? `Your approval is recorded; ${open} more ${open === 1 ? 'is' : 'are'} needed`
      : status === 'approved'
        ? 'Approved'
        : 'Rejected';
  return { decided: true, approval_id: id, text: `${text}: ${summary}\n\n${id}` };
}
