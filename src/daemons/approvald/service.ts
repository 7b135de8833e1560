// The steps of approvald's jobs, in order: a call asks, people answer, the answer is redeemed. What
// is decided is in rules; what lasts is in the store.
import type { Metrics } from '../../platform/metrics.ts';
import type { Outbox } from '../../platform/outbox.ts';
import type { PersonKeys } from '../../platform/person-keys.ts';
import type { WakeLoop } from '../../platform/wake-loop.ts';
import type { ApprovalReach, ApprovalView, AskApproval, Redeemed } from '../../wire/approvald.ts';
import type { OperatorCaller } from '../../wire/caller.ts';
import { fault } from '../../wire/errors.ts';
import type { ApprovaldConfig } from './config.ts';
import type { DecideQuestion, MayDecide } from './may-decide.ts';
import { isSamePerson, type Person } from './rules.ts';
import type { DecisionInput } from './store/decisions.ts';
import type { Redeeming } from './store/redeem.ts';
import { type ApprovalRow, labelsOf, saidOf, viewOf } from './store/rows.ts';
import type { ApprovaldStore } from './store/store.ts';

/** What a person says, before it is known whether they may. */
export type DecisionBody =
  | {
      answer: 'approve';
      reach: ApprovalReach;
      expiresInS: number | undefined;
      edited: Record<string, unknown> | undefined;
    }
  | { answer: 'reject' | 'request-info'; text: string | null }
  | { answer: 'escalate'; text: string | null; to: string | null };

export type ApprovaldService = {
  ask(
    body: AskApproval,
  ): Promise<{ approval: ApprovalView; status: 'pending' | 'granted' | 'ended' }>;
  view(id: string): Promise<ApprovalView>;
  answer(
    caller: OperatorCaller,
    id: string,
    said: DecisionBody,
    nonce: string,
  ): Promise<ApprovalView>;
  redeem(given: Redeeming): Promise<Redeemed>;
};

export function makeService(parts: {
  store: ApprovaldStore;
  outbox: Pick<Outbox, 'delivered' | 'assertAuditAccepting'>;
  config: ApprovaldConfig;
  mayDecide: MayDecide;
  /** Those with a key of their own. */
  people: Pick<PersonKeys, 'names'>;
  /** Woken when an approval is pending that may be the next to expire. */
  expiry: Pick<WakeLoop, 'wake'>;
  metrics: Pick<Metrics, 'count'>;
  failpoint(name: string): void;
}): ApprovaldService {
  const { store, outbox, config, mayDecide, people, expiry, metrics, failpoint } = parts;

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

  const asAnswer = (said: DecisionBody): WithoutContext<DecisionInput> => {
    if (said.answer !== 'approve') return said;
    const { answer, reach, edited, expiresInS } = said;
    return { answer, reach, edited, permitExpiresMs: permitExpiresMs(expiresInS) };
  };

  /** Who could decide it after this person has passed it on, so that it is not locked for good. */
  const othersThan = async (row: ApprovalRow, passer: Person, to: string | null) => {
    const passed = saidOf(row).filter(({ answer }) => answer === 'escalate');
    const out = [passer, ...passed.map(({ by, key }) => ({ principal: by, key }))];
    const own = people.names();
    const keyless = to !== null && !own.includes(nameOf(to)) ? to : 'person:operator';
    const all = [
      ...own.map((name) => ({ principal: `person:${name}`, key: `people/${name}` })),
      { principal: keyless, key: OPERATOR_KEY },
    ];
    const others: string[] = [];
    for (const one of all) {
      if (out.some((gone) => isSamePerson(gone, one))) continue;
      const question = { person: one.principal, answer: 'approve', reach: 'once' } as const;
      const { allow } = await mayDecide({ ...question, approval: subjectOf(row) });
      if (allow) others.push(one.principal);
    }
    return others;
  };

  return {
    view,
    async ask(body) {
      outbox.assertAuditAccepting();
      failpoint('approvald.before-ask');
      const { approval, status } = await store.ask(body);
      if (status === 'pending') expiry.wake();
      failpoint('approvald.after-ask');
      metrics.count('approvals_requested', { status });
      return { approval: await view(approval.id), status };
    },
    async answer(caller, id, said, nonce) {
      const { row } = await store.approval(id);
      const person = personOf(caller);
      const reach = said.answer === 'approve' ? said.reach : 'once';
      const { allow, second, rule, reason } = await mayDecide({
        person: person.principal,
        answer: said.answer,
        reach,
        approval: subjectOf(row),
      });
      if (!allow)
        throw fault('denied', `${person.principal} may not answer ${id}: ${reason} (${rule})`, {
          hint: 'Pass it on to somebody who may, or change the rule.',
        });
      if (said.answer === 'escalate' && row.status === 'pending' && said.to !== person.principal)
        assertPassable(row, said.to, await othersThan(row, person, said.to));
      outbox.assertAuditAccepting();
      failpoint('approvald.before-answer');
      const answered = await store.answer({ id, person, rule, second, nonce, ...asAnswer(said) });
      failpoint('approvald.after-answer');
      if (answered.refusal !== undefined) throw answered.refusal;
      metrics.count('approvals_answered', { answer: said.answer });
      return view(id);
    },
    async redeem(given) {
      failpoint('approvald.before-redeem');
      const result = await store.redeem(given);
      failpoint('approvald.after-redeem');
      if ('refusal' in result) throw result.refusal;
      // Who approved is in the log before anybody acts on it.
      if (result.seq > 0) await outbox.delivered(result.seq);
      return result.answer;
    },
  };
}

type WithoutContext<T> = T extends unknown
  ? Omit<T, 'id' | 'person' | 'rule' | 'second' | 'nonce'>
  : never;

const nameOf = (principal: string): string => principal.slice('person:'.length);

function assertPassable(row: ApprovalRow, to: string | null, others: readonly string[]): void {
  if (others.length === 0)
    throw fault('conflict', `nobody else could decide ${row.id}, so it cannot be passed on`, {
      hint: 'Decide it yourself, or give somebody a key first: agentctl person add NAME',
    });
  if (to === null || others.includes(to)) return;
  const names = others.map(nameOf).join(', ');
  throw fault('conflict', `${to} could not decide ${row.id}`, {
    hint:
      `Pass it on to one of: ${names} (agentctl escalate ${row.id} --to NAME), ` +
      'or give them a key first: agentctl person add NAME',
  });
}

const subjectOf = (row: ApprovalRow): DecideQuestion['approval'] => ({
  id: row.id,
  agent: row.agent,
  action: row.action,
  class: row.class,
  risk: row.risk,
  reversibility: row.reversibility,
  taskId: row.task_id,
  rootTaskId: row.root_task_id,
  labels: labelsOf(row),
});

const OPERATOR_KEY = 'operator';

/** No agent and no service answers: only people do. */
function personOf(caller: OperatorCaller): Person {
  if (!caller.principal.startsWith('person:'))
    throw fault('denied', `${caller.principal} is not a person`);
  return { principal: caller.principal, key: caller.key ?? OPERATOR_KEY };
}
