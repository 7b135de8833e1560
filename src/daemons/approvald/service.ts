// Runs the steps of an approval in order: a call requests it, people decide, the call redeems it.
// Decisions are in rules.ts, state is in the store.
import type { Metrics } from '../../platform/metrics.ts';
import type { Outbox } from '../../platform/outbox.ts';
import type { PersonKeys } from '../../platform/person-keys.ts';
import type { WakeLoop } from '../../platform/wake-loop.ts';
import type { ApprovalReach, ApprovalView, AskApproval, Redeemed } from '../../wire/approvald.ts';
import type { OperatorCaller } from '../../wire/caller.ts';
import { fault } from '../../wire/errors.ts';
import type { ApprovaldConfig } from './config.ts';
import type { MayDecide, MayDecideQuery } from './may-decide.ts';
import { isSamePerson, type Person } from './rules.ts';
import type { DecisionInput } from './store/decisions.ts';
import type { RedemptionInput } from './store/redeem.ts';
import { type ApprovalRow, readDecisions, readLabels, toApprovalView } from './store/rows.ts';
import type { ApprovaldStore } from './store/store.ts';

/** A person's decision, before policy was asked if they may take it. */
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
  requestApproval(
    body: AskApproval,
  ): Promise<{ approval: ApprovalView; status: 'pending' | 'granted' | 'ended' }>;
  getView(id: string): Promise<ApprovalView>;
  decide(
    caller: OperatorCaller,
    id: string,
    body: DecisionBody,
    nonce: string,
  ): Promise<ApprovalView>;
  redeem(input: RedemptionInput): Promise<Redeemed>;
};

export function makeService(deps: {
  store: ApprovaldStore;
  outbox: Pick<Outbox, 'delivered' | 'assertAuditAccepting'>;
  config: ApprovaldConfig;
  mayDecide: MayDecide;
  /** People who have their names key. */
  people: Pick<PersonKeys, 'names' | 'findRole'>;
  /** Woken when an approval is pending that may be the next to expire. */
  expiry: Pick<WakeLoop, 'wake'>;
  metrics: Pick<Metrics, 'count'>;
  failpoint(name: string): void;
}): ApprovaldService {
  const { store, outbox, config, mayDecide, people, expiry, metrics, failpoint } = deps;

  const view = async (id: string): Promise<ApprovalView> => {
    const { row, asks } = await store.getApproval(id);
    return toApprovalView(row, asks);
  };

  const computePermitLifetimeMs = (expiresInS: number | undefined): number => {
    if (expiresInS !== undefined && expiresInS > config.permit_expires_s_max)
      throw fault(
        'bad_request',
        `body expires_in_s: a permit may last up to ${config.permit_expires_s_max} seconds`,
      );
    return Math.min(expiresInS ?? config.permit_expires_s, config.permit_expires_s_max) * 1000;
  };

  const toDecisionInput = (body: DecisionBody): WithoutContext<DecisionInput> => {
    if (body.answer !== 'approve') return body;
    const { answer, reach, edited, expiresInS } = body;
    return { answer, reach, edited, permitExpiresMs: computePermitLifetimeMs(expiresInS) };
  };

  /** Returns the people who could still decide it after this person has escalated it. */
  const findOtherApprovers = async (row: ApprovalRow, escalator: Person, to: string | null) => {
    const escalations = readDecisions(row).filter(({ answer }) => answer === 'escalate');
    const excluded = [escalator, ...escalations.map(({ by, key }) => ({ principal: by, key }))];
    const names = people.names();
    const keyless = to !== null && !names.includes(stripPersonPrefix(to)) ? to : 'person:operator';
    const candidates = [
      ...names
        .filter((name) => ['approver', 'operator'].includes(people.findRole(name) ?? ''))
        .map((name) => ({ principal: `person:${name}`, key: `people/${name}` })),
      { principal: keyless, key: OPERATOR_KEY },
    ];
    const others: string[] = [];
    for (const candidate of candidates) {
      if (excluded.some((person) => isSamePerson(person, candidate))) continue;
      const question = { person: candidate.principal, answer: 'approve', reach: 'once' } as const;
      const { allow } = await mayDecide({ ...question, approval: toDecideSubject(row) });
      if (allow) others.push(candidate.principal);
    }
    return others;
  };

  return {
    getView: view,
    async requestApproval(body) {
      outbox.assertAuditAccepting();
      failpoint('approvald.before-ask');
      const { approval, status } = await store.requestApproval(body);
      if (status === 'pending') expiry.wake();
      failpoint('approvald.after-ask');
      metrics.count('approvals_requested', { status });
      return { approval: await view(approval.id), status };
    },
    async decide(caller, id, body, nonce) {
      const { row } = await store.getApproval(id);
      const person = requirePerson(caller);
      const reach = body.answer === 'approve' ? body.reach : 'once';
      const { allow, second, rule, reason } = await mayDecide({
        person: person.principal,
        answer: body.answer,
        reach,
        approval: toDecideSubject(row),
      });
      if (!allow) {
        await store.recordDenial(row, { by: person.principal, answer: body.answer, rule });
        throw fault('denied', `${person.principal} may not decide ${id}: ${reason} (${rule})`, {
          hint: 'Escalate it to a person who may, or change the rule.',
        });
      }
      if (body.answer === 'escalate' && row.status === 'pending' && body.to !== person.principal)
        assertCanEscalate(row, body.to, await findOtherApprovers(row, person, body.to));
      outbox.assertAuditAccepting();
      failpoint('approvald.before-answer');
      const result = await store.decide({
        id,
        person,
        rule,
        second,
        nonce,
        ...toDecisionInput(body),
      });
      failpoint('approvald.after-answer');
      if (result.refusal !== undefined) throw result.refusal;
      metrics.count('approvals_answered', { answer: body.answer });
      return view(id);
    },
    async redeem(input) {
      failpoint('approvald.before-redeem');
      const result = await store.redeem(input);
      failpoint('approvald.after-redeem');
      if ('refusal' in result) throw result.refusal;
      // The approval must be durable in the audit log before the caller acts on it.
      if (result.seq > 0) await outbox.delivered(result.seq);
      return result.answer;
    },
  };
}

type WithoutContext<T> = T extends unknown
  ? Omit<T, 'id' | 'person' | 'rule' | 'second' | 'nonce'>
  : never;

const stripPersonPrefix = (principal: string): string => principal.slice('person:'.length);

function assertCanEscalate(row: ApprovalRow, to: string | null, others: readonly string[]): void {
  if (others.length === 0)
    throw fault('conflict', `no other person could decide ${row.id}, so it cannot be escalated`, {
      hint: 'Decide it yourself, or first add another person: agentctl person add NAME',
    });
  if (to === null || others.includes(to)) return;
  const names = others.map(stripPersonPrefix).join(', ');
  throw fault('conflict', `${to} could not decide ${row.id}`, {
    hint:
      `Escalate it to one of: ${names} (agentctl escalate ${row.id} --to NAME), ` +
      'or give them a key first: agentctl person add NAME',
  });
}

const toDecideSubject = (row: ApprovalRow): MayDecideQuery['approval'] => ({
  id: row.id,
  agent: row.agent,
  action: row.action,
  class: row.class,
  risk: row.risk,
  reversibility: row.reversibility,
  taskId: row.task_id,
  rootTaskId: row.root_task_id,
  labels: readLabels(row),
});

const OPERATOR_KEY = 'operator';

/** Throws `denied` for agents and services: only people decide. */
function requirePerson(caller: OperatorCaller): Person {
  if (!caller.principal.startsWith('person:'))
    throw fault('denied', `${caller.principal} is not a person`);
  return { principal: caller.principal, key: caller.key ?? OPERATOR_KEY };
}
