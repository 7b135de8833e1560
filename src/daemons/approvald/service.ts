// The steps of approvald's jobs, in order: a call asks, people answer, the answer is redeemed. What
// is decided is in rules; what lasts is in the store.
import type { Metrics } from '../../platform/metrics.ts';
import type { Outbox } from '../../platform/outbox.ts';
import type { ApprovalReach, ApprovalView, AskApproval, Redeemed } from '../../wire/approvald.ts';
import type { OperatorCaller } from '../../wire/caller.ts';
import { fault } from '../../wire/errors.ts';
import type { ApprovaldConfig } from './config.ts';
import type { Expiry } from './expiry.ts';
import type { MayDecide } from './may-decide.ts';
import type { Person } from './rules.ts';
import type { Answer } from './store/answers.ts';
import type { Redeeming } from './store/redeem.ts';
import { labelsOf, viewOf } from './store/rows.ts';
import type { Store } from './store/store.ts';

/** What a person says, before it is known whether they may. */
export type Said =
  | {
      answer: 'approve';
      reach: ApprovalReach;
      expiresInS: number | undefined;
      edited: Record<string, unknown> | undefined;
    }
  | { answer: 'reject' | 'request-info'; text: string | null }
  | { answer: 'escalate'; text: string | null; to: string | null };

export type Service = {
  ask(
    body: AskApproval,
  ): Promise<{ approval: ApprovalView; status: 'pending' | 'granted' | 'ended' }>;
  view(id: string): Promise<ApprovalView>;
  answer(
    caller: OperatorCaller,
    id: string,
    said: Said,
    nonce: string | undefined,
  ): Promise<ApprovalView>;
  redeem(given: Redeeming): Promise<Redeemed>;
};

export function makeService(parts: {
  store: Store;
  outbox: Pick<Outbox, 'delivered' | 'assertTaking'>;
  config: ApprovaldConfig;
  mayDecide: MayDecide;
  expiry: Pick<Expiry, 'note'>;
  metrics: Pick<Metrics, 'count'>;
  moment(name: string): void;
}): Service {
  const { store, outbox, config, mayDecide, expiry, metrics, moment } = parts;

  const view = async (id: string): Promise<ApprovalView> => {
    const { row, asks } = await store.approval(id);
    return viewOf(row, asks);
  };

  const permitExpiresMs = (expiresInS: number | undefined): number => {
    if (expiresInS !== undefined && expiresInS > config.permit_expires_s_max)
      throw fault(
        'bad_request',
        `body expires_in_s: a permit may last at most ${config.permit_expires_s_max} seconds here`,
      );
    return Math.min(expiresInS ?? config.permit_expires_s, config.permit_expires_s_max) * 1000;
  };

  const asAnswer = (said: Said): Parts<Answer> => {
    if (said.answer !== 'approve') return said;
    const { answer, reach, edited, expiresInS } = said;
    return { answer, reach, edited, permitExpiresMs: permitExpiresMs(expiresInS) };
  };

  return {
    view,
    async ask(body) {
      outbox.assertTaking();
      moment('approvald.before-ask');
      const { approval, status } = await store.ask(body);
      if (status === 'pending') expiry.note(Number(approval.expires_ms));
      moment('approvald.after-ask');
      metrics.count('approvals_requested', { status });
      return { approval: await view(approval.id), status };
    },
    async answer(caller, id, said, nonce) {
      const { row } = await store.approval(id);
      const person = personOf(caller);
      const { allow, second, rule, reason } = await mayDecide({
        person: person.principal,
        answer: said.answer,
        reach: said.answer === 'approve' ? said.reach : 'once',
        approval: {
          id: row.id,
          agent: row.agent,
          action: row.action,
          class: row.class,
          risk: row.risk,
          reversibility: row.reversibility,
          taskId: row.task_id,
          rootTaskId: row.root_task_id,
          labels: labelsOf(row),
        },
      });
      if (!allow)
        throw fault('denied', `${person.principal} may not answer ${id}: ${reason} (${rule})`, {
          hint: 'Pass it on to somebody who may, or change the rule.',
        });
      outbox.assertTaking();
      moment('approvald.before-answer');
      const answered = await store.answer({ id, person, rule, second, nonce, ...asAnswer(said) });
      moment('approvald.after-answer');
      if (answered.refusal !== undefined) throw answered.refusal;
      metrics.count('approvals_answered', { answer: said.answer });
      return view(id);
    },
    async redeem(given) {
      moment('approvald.before-redeem');
      const result = await store.redeem(given);
      moment('approvald.after-redeem');
      if ('refusal' in result) throw result.refusal;
      // Who approved is in the log before anybody acts on it.
      if (result.seq > 0) await outbox.delivered(result.seq);
      return result.answer;
    },
  };
}

type Parts<T> = T extends unknown ? Omit<T, 'id' | 'person' | 'rule' | 'second' | 'nonce'> : never;

/** No agent and no service answers: only people do. */
function personOf(caller: OperatorCaller): Person {
  if (!caller.principal.startsWith('person:'))
    throw fault('denied', `${caller.principal} is not a person`);
  return { principal: caller.principal, key: caller.key ?? 'operator' };
}
