// Maps approvald's routes to the service and the store.
import type { Clock } from '../../platform/clock.ts';
import type { Handlers } from '../../platform/dispatch.ts';
import { cutPage, readIdCursor } from '../../platform/page.ts';
import type { SigningKey } from '../../platform/signed-json.ts';
import type { approvaldRoutes } from '../../wire/approvald.ts';
import type { Caller, OperatorCaller } from '../../wire/caller.ts';
import type { EraseCopies, ErasedCopies } from '../../wire/copies.ts';
import { fault } from '../../wire/errors.ts';
import type { Proposals } from './proposals.ts';
import type { Replies } from './replies.ts';
import type { ApprovaldService, DecisionBody } from './service.ts';
import { toApprovalSummary, toPermitView } from './store/rows.ts';
import type { ApprovaldStore } from './store/store.ts';

export function makeHandlers(deps: {
  service: ApprovaldService;
  store: ApprovaldStore;
  signing: SigningKey;
  clock: Clock;
  prune: ApprovaldStore['pruneTree'];
  listReadable: Proposals['listReadable'];
  countPending: Proposals['countPending'];
  decideByReply: Replies['decide'];
  eraseCopies: (order: EraseCopies) => Promise<ErasedCopies>;
}): Handlers<typeof approvaldRoutes> {
  const { service, store, signing, clock } = deps;
  const decide = async (caller: Caller, id: string, body: DecisionBody, nonce: string) => ({
    approval: await service.decide(asPerson(caller), id, body, { nonce, channel: 'api' }),
  });
  return {
    askApproval: ({ body }) => service.requestApproval(body),
    askProposal: ({ body }) => service.requestProposal(body),
    async decideProposal({ params: { id }, body: { person, answer, version } }) {
      return { status: await service.decideProposal(id, { person, answer, version }) };
    },
    decideByReply: ({ body }) => deps.decideByReply(body),
    redeemProposal: ({ params, body }) => service.redeemProposal(params.id, body),
    withdrawProposals: async ({ body }) => ({
      withdrawn: await store.withdrawProposals(body.memory_ids),
    }),
    redeemApproval: ({ params, body }) => service.redeem({ id: params.id, ...body }),
    withdrawApprovals: async ({ body }) => ({ withdrawn: await store.withdraw(body) }),
    prune: ({ body }) => deps.prune(body.root_task_id),
    eraseCopies: ({ body }) => deps.eraseCopies(body),
    expireTombstones: async ({ body }) => ({
      expired: await store.expireTombstones(Date.parse(body.before)),
    }),
    approvalKey: async () => ({
      key_id: signing.keyId,
      public_key_pem: signing.publicKeyPem,
    }),
    async listApprovals({ caller, query }) {
      const { limit, cursor: from, ...filter } = query;
      const before = readIdCursor(from, 'approval');
      const found = await deps.listReadable(caller, filter, { before, limit: limit + 1 });
      const { rows, cursor } = cutPage(found, limit, ({ id }) => id);
      return {
        approvals: rows.map(toApprovalSummary),
        cursor,
        pending: await deps.countPending(caller),
      };
    },
    async listPendingFor({ body: { person, limit } }) {
      const caller = { kind: 'operator', ...person } as const;
      const page = { before: undefined, limit };
      const found = await deps.listReadable(caller, { status: 'pending' }, page);
      return {
        approvals: found.map(toApprovalSummary),
        pending: await deps.countPending(caller),
      };
    },
    getApproval: async ({ caller, params }) => ({
      approval: await service.getView(asPerson(caller), params.id),
    }),
    approve: ({ caller, params, body }) => {
      const { for: reach = 'once', expires_in_s: expiresInS, edited_arguments: edited } = body;
      const decision = { answer: 'approve', reach, expiresInS, edited } as const;
      return decide(caller, params.id, decision, body.nonce);
    },
    reject: ({ caller, params, body }) =>
      decide(caller, params.id, { answer: 'reject', text: body.reason ?? null }, body.nonce),
    requestInfo: ({ caller, params, body }) =>
      decide(caller, params.id, { answer: 'request-info', text: body.question }, body.nonce),
    escalate: async ({ caller, params, body }) => {
      const { to = null, reason = null } = body;
      if (to !== null && !to.startsWith('person:'))
        throw fault('bad_request', 'body to: must be a person such as person:alice');
      return decide(caller, params.id, { answer: 'escalate', to, text: reason }, body.nonce);
    },
    async listPermits({ query }) {
      const { limit, active } = query;
      const nowMs = clock.nowMs();
      const found = await store.listPermits({
        before: readIdCursor(query.cursor, 'permit'),
        limit: limit + 1,
        active: active === undefined ? undefined : active === 'true',
        nowMs,
      });
      const { rows, cursor } = cutPage(found, limit, ({ id }) => id);
      return { permits: rows.map((row) => toPermitView(row, nowMs)), cursor };
    },
    async revokePermit({ caller, params }) {
      const row = await store.revokePermit(params.id, asPerson(caller).principal);
      return { permit: toPermitView(row, clock.nowMs()) };
    },
  };
}

function asPerson(caller: Caller): OperatorCaller {
  if (caller.kind !== 'operator') throw fault('forbidden_caller', 'only people decide approvals');
  return caller;
}
