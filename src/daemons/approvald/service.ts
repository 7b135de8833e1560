// Runs the steps of an approval in order: a call requests it, people decide, the call redeems it.
// Decisions are in rules.ts, state is in the store.
import type { Metrics } from '../../platform/metrics.ts';
import type { Outbox } from '../../platform/outbox.ts';
import type { PersonKeys } from '../../platform/person-keys.ts';
import type { WakeLoop } from '../../platform/wake-loop.ts';
import type { ActingPerson, AskProposal } from '../../wire/approvald/proposals.ts';
import type { Redeemed } from '../../wire/approvald/statement.ts';
import type {
  ApprovalReach,
  ApprovalStatus,
  ApprovalView,
  AskApproval,
  DecisionChannel,
} from '../../wire/approvald.ts';
import type { OperatorCaller } from '../../wire/caller.ts';
import { fault } from '../../wire/errors.ts';
import type { MemoryId } from '../../wire/memoryd/records.ts';
import type { ApprovalId, Label } from '../../wire/primitives.ts';
import type { ApprovaldConfig } from './config.ts';
import type { MayDecide, MayDecideQuery } from './may-decide.ts';
import { addVersion, missingApprovalFault, type Proposals, splitNonce } from './proposals.ts';
import { isSamePerson, type Person } from './rules.ts';
import type { DecisionInput, SeenProposal } from './store/decisions.ts';
import { toCallIds } from './store/proposals.ts';
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

/** The nonce of the view that the person saw, and how their decision came. */
export type SeenApproval = { nonce: string; channel: DecisionChannel };

export type ProposalDecision = {
  person: ActingPerson;
  answer: 'approve' | 'reject';
  /** The version that the person saw. */
  version: number;
};

export type ProposalRedemption = {
  memory_id: MemoryId;
  /** The version for which approval was requested. */
  version: number;
  labels: readonly Label[];
};

export type ApprovaldService = {
  requestApproval(
    body: AskApproval,
  ): Promise<{ approval: ApprovalView; status: 'pending' | 'granted' | 'ended' }>;
  getView(caller: OperatorCaller, id: string): Promise<ApprovalView>;
  decide(
    caller: OperatorCaller,
    id: string,
    body: DecisionBody,
    seen: SeenApproval,
  ): Promise<ApprovalView>;
  redeem(input: RedemptionInput): Promise<Redeemed>;
  requestProposal(
    body: AskProposal,
  ): Promise<{ approval_id: ApprovalId; status: 'pending' | 'ended' }>;
  /** A person decides through memoryd, which has authenticated them. */
  decideProposal(id: string, decision: ProposalDecision): Promise<ApprovalStatus>;
  /** For memoryd: a decision on exactly this proposal. */
  redeemProposal(id: string, proposal: ProposalRedemption): Promise<Redeemed>;
};

export function makeService(deps: {
  store: ApprovaldStore;
  outbox: Pick<Outbox, 'delivered' | 'assertAuditAccepting'>;
  config: ApprovaldConfig;
  mayDecide: MayDecide;
  proposals: Proposals;
  /** People who have their names key. */
  people: Pick<PersonKeys, 'names' | 'findRole'>;
  /** Woken when an approval is pending that may be the next to expire. */
  expiry: Pick<WakeLoop, 'wake'>;
  metrics: Pick<Metrics, 'count'>;
  failpoint(name: string): void;
}): ApprovaldService {
  const { store, outbox, config, mayDecide, proposals, people, expiry, metrics, failpoint } = deps;

  const view = async (id: string): Promise<ApprovalView> => {
    const { row, asks } = await store.getApproval(id);
    return toApprovalView(row, asks);
  };

  const getView: ApprovaldService['getView'] = async (caller, id) => {
    const found = await store.getApproval(id);
    if (found.row.memory_id === null) return toApprovalView(found.row, found.asks);
    await proposals.assertReadable(found.row, caller);
    return proposals.view(found, caller);
  };

  /** The proposed memory as the person saw it, if they may decide on it. */
  const readProposal = async (
    row: ApprovalRow,
    caller: OperatorCaller,
    { answer, version }: Pick<DecisionBody, 'answer'> & { version: number },
  ): Promise<SeenProposal | undefined> => {
    if (row.memory_id === null) return undefined;
    await proposals.assertReadable(row, caller);
    if (answer === 'request-info')
      throw fault('conflict', `nobody waits for an answer about ${row.id}`, {
        hint: 'Approve it, also in other words (--edit FILE), or reject it.',
      });
    if (row.status !== 'pending') return { labels: readLabels(row), arguments: readArguments(row) };
    return proposals.assertMayDecide(row, caller, { answer, version });
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
      const question = {
        person: candidate.principal,
        answer: 'approve',
        reach: 'once',
        channel: 'api',
      } as const;
      const { allow } = await mayDecide({ ...question, approval: toDecideSubject(row) });
      const mayRead = proposals.isReadable(row, { kind: 'operator', ...candidate });
      if (allow && (await mayRead)) others.push(candidate.principal);
    }
    return others;
  };

  const service: ApprovaldService = {
    getView,
    async requestProposal(body) {
      outbox.assertAuditAccepting();
      failpoint('approvald.before-proposal');
      const answer = await store.requestProposal(body);
      failpoint('approvald.after-proposal');
      if (answer.status === 'pending') expiry.wake();
      metrics.count('approvals_requested', { status: answer.status });
      return answer;
    },
    async decideProposal(id, { person, answer, version }) {
      const { row } = await store.getApproval(id);
      const caller: OperatorCaller = { kind: 'operator', ...person };
      const body: DecisionBody =
        answer === 'approve'
          ? { answer, reach: 'once', expiresInS: undefined, edited: undefined }
          : { answer, text: null };
      const seen = { nonce: addVersion(row.nonce, version), channel: 'api' } as const;
      return (await service.decide(caller, id, body, seen)).status;
    },
    async requestApproval(body) {
      outbox.assertAuditAccepting();
      failpoint('approvald.before-ask');
      const { approval, status } = await store.requestApproval(body);
      if (status === 'pending') expiry.wake();
      failpoint('approvald.after-ask');
      metrics.count('approvals_requested', { status });
      return { approval: await view(approval.id), status };
    },
    async decide(caller, id, body, { nonce, channel }) {
      const { row } = await store.getApproval(id);
      const person = requirePerson(caller);
      const seen = row.memory_id === null ? { nonce, version: 0 } : splitNonce(nonce);
      const { answer } = body;
      let proposal = await readProposal(row, caller, { answer, version: seen.version });
      const reach = body.answer === 'approve' ? body.reach : 'once';
      const { allow, second, rule, reason } = await mayDecide({
        person: person.principal,
        answer: body.answer,
        reach,
        channel,
        approval: toDecideSubject(row, proposal),
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
      const edited = body.answer === 'approve' ? body.edited : undefined;
      if (proposal !== undefined && edited !== undefined && seen.nonce === row.nonce)
        proposal = await proposals.edit(row, caller, { version: seen.version, edited });
      failpoint('approvald.before-answer');
      const result = await store.decide({
        id,
        person,
        rule,
        second,
        channel,
        nonce: seen.nonce,
        proposal,
        ...toDecisionInput(body),
      });
      failpoint('approvald.after-answer');
      if (result.refusal !== undefined) throw result.refusal;
      metrics.count('approvals_answered', { answer: body.answer });
      return getView(caller, id);
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
    async redeemProposal(id, { memory_id, version, labels }) {
      const { row } = await store.getApproval(id);
      const asked = JSON.parse(row.arguments) as { version: number };
      if (row.memory_id !== memory_id || asked.version !== version) throw missingApprovalFault(id);
      const ids = toCallIds({ memory_id, version });
      return service.redeem({ id, ...ids, arguments_hash: row.arguments_hash, labels });
    },
  };
  return service;
}

const readArguments = (row: ApprovalRow): Record<string, unknown> =>
  JSON.parse(row.edited ?? row.arguments) as Record<string, unknown>;

type WithoutContext<T> = T extends unknown
  ? Omit<T, 'id' | 'person' | 'rule' | 'second' | 'channel' | 'nonce' | 'proposal'>
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

export const toDecideSubject = (
  row: ApprovalRow,
  proposal?: SeenProposal,
): MayDecideQuery['approval'] => ({
  id: row.id,
  agent: row.agent,
  action: row.action,
  class: row.class,
  risk: row.risk,
  reversibility: row.reversibility,
  task:
    row.memory_id === null ? { task_id: row.task_id, root_task_id: row.root_task_id } : undefined,
  labels: proposal?.labels ?? readLabels(row),
});

const OPERATOR_KEY = 'operator';

/** Throws `denied` for agents and services: only people decide. */
function requirePerson(caller: OperatorCaller): Person {
  if (!caller.principal.startsWith('person:'))
    throw fault('denied', `${caller.principal} is not a person`);
  return { principal: caller.principal, key: caller.key ?? OPERATOR_KEY };
}
