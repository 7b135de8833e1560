// Proposed memories as people see and decide them: memoryd says what a person may see of one and
// whether they may write its scope, approvald who may decide approvals. Both must hold.
import type { Client } from '../../platform/link.ts';
import type { ActingPerson } from '../../wire/approvald/proposals.ts';
import type { ApprovalView } from '../../wire/approvald.ts';
import type { Caller, OperatorCaller } from '../../wire/caller.ts';
import { fault } from '../../wire/errors.ts';
import type { MemoryId } from '../../wire/memoryd/records.ts';
import type { memorydRoutes } from '../../wire/memoryd.ts';
import type { Label } from '../../wire/primitives.ts';
import type { MayRead } from './may-read.ts';
import type { SeenProposal } from './store/decisions.ts';
import { toArguments } from './store/proposals.ts';
import { type ApprovalRow, type CountedRow, readMemory, toApprovalView } from './store/rows.ts';
import type { ApprovaldStore, ApprovalFilter } from './store/store.ts';

type Memoryd = Pick<
  Client<typeof memorydRoutes>,
  'reviewProposal' | 'editProposal' | 'filterProposed'
>;
type FoundApproval = Awaited<ReturnType<ApprovaldStore['getApproval']>>;

const OPERATOR_KEY = 'operator';
const RECONCILED_MAX = 1_000;

export const toActingPerson = ({ principal, key }: OperatorCaller): ActingPerson => ({
  principal: principal as ActingPerson['principal'],
  key: key ?? OPERATOR_KEY,
});

/** The nonce that people see names the version, too: memoryd may have got a newer one. */
export const addVersion = (nonce: string, version: number): string => `${nonce}.${version}`;

export function splitNonce(seen: string): { nonce: string; version: number } {
  const at = seen.lastIndexOf('.');
  return { nonce: seen.slice(0, Math.max(0, at)), version: Number(seen.slice(at + 1)) };
}

export const missingApprovalFault = (id: string) =>
  fault('not_found', `approval ${id} not found`, { hint: 'See agentctl approvals.' });

export function makeProposals(deps: { store: ApprovaldStore; memoryd: Memoryd; mayRead: MayRead }) {
  const { store, memoryd, mayRead } = deps;

  const review = (row: ApprovalRow, person: OperatorCaller) =>
    memoryd.reviewProposal({
      body: { memory_id: row.memory_id!, person: toActingPerson(person) },
    });

  /** One decision for each scope of a list. */
  const rememberScopes = (caller: Caller) => {
    const decided = new Map<string, Promise<boolean>>();
    return async (scope: string | null): Promise<boolean> => {
      if (scope === null) return true;
      const known = decided.get(scope) ?? mayRead(caller, scope);
      decided.set(scope, known);
      return known;
    };
  };

  const isReadable = async ({ memory_scope: scope }: ApprovalRow, caller: Caller) =>
    scope === null || mayRead(caller, scope);

  return {
    isReadable,
    /** Throws as for an approval that does not exist. */
    async assertReadable(row: ApprovalRow, caller: Caller): Promise<void> {
      if (!(await isReadable(row, caller))) throw missingApprovalFault(row.id);
    },

    /** Ids of other approvals tell nothing. */
    async isFindable(caller: Caller, id: string): Promise<boolean> {
      const scope = await store.findMemoryScope(id);
      return scope === undefined || mayRead(caller, scope);
    },

    /** A page without what the caller may not read, however much that is. */
    async listReadable(
      caller: Caller,
      filter: ApprovalFilter,
      { before, limit }: { before: string | undefined; limit: number },
    ): Promise<CountedRow[]> {
      const isReadable = rememberScopes(caller);
      const readable: CountedRow[] = [];
      for (let last = before; ; ) {
        const rows = await store.listApprovals(filter, { before: last, limit });
        for (const row of rows)
          if (readable.length < limit && (await isReadable(row.memory_scope))) readable.push(row);
        if (readable.length === limit || rows.length < limit) return readable;
        last = rows.at(-1)!.id;
      }
    },

    async countPending(caller: Caller): Promise<number> {
      const isReadable = rememberScopes(caller);
      let pending = 0;
      for (const { memory_scope: scope, n } of await store.countPending())
        if (await isReadable(scope)) pending += Number(n);
      return pending;
    },

    /** While it is pending, with the texts as this person may see them. */
    async view({ row, asks }: FoundApproval, person: OperatorCaller): Promise<ApprovalView> {
      const view = toApprovalView(row, asks);
      if (row.status !== 'pending') return view;
      const { status, version, labels, diff } = await review(row, person);
      if (status !== 'proposed') {
        await store.withdrawProposals([row.memory_id!]);
        const found = await store.getApproval(row.id);
        return toApprovalView(found.row, found.asks);
      }
      const memory = { ...readMemory(row)!, version };
      return {
        ...view,
        labels,
        memory,
        arguments: toArguments(memory),
        diff,
        diff_bytes: Buffer.byteLength(diff),
        nonce: addVersion(row.nonce, version),
      };
    },

    /**
     * Throws unless memoryd lets this person decide on the version that they saw.
     */
    async assertMayDecide(
      row: ApprovalRow,
      person: OperatorCaller,
      decision: { answer: string; version: number },
    ): Promise<SeenProposal> {
      const found = await review(row, person);
      const obstacle =
        decision.answer === 'approve' ? found.approve_obstacle : found.reject_obstacle;
      if (obstacle !== null) {
        const denied = { by: person.principal, answer: decision.answer, rule: 'memory.write' };
        await store.recordDenial(row, denied as Parameters<ApprovaldStore['recordDenial']>[1]);
        throw fault('denied', `${row.id}: ${obstacle}`);
      }
      if (found.status !== 'proposed')
        throw fault('conflict', `${row.memory_id} is ${found.status}, and not a proposal`);
      if (found.version !== decision.version)
        throw fault('conflict', `${row.id} has changed since you looked at it`, {
          hint: `Look again: agentctl approvals ${row.id}`,
        });
      return toSeen(row, found);
    },

    /** The person's own words are a new version, which is then the one that is decided on. */
    async edit(
      row: ApprovalRow,
      person: OperatorCaller,
      given: { version: number; edited: Record<string, unknown> },
    ): Promise<SeenProposal> {
      const body = {
        memory_id: row.memory_id!,
        person: toActingPerson(person),
        version: given.version,
        text: readEditedText(given.edited),
      };
      return toSeen(row, await memoryd.editProposal({ body }));
    },

    /** Withdraws those that memoryd no longer keeps as proposals. */
    async reconcile(): Promise<void> {
      const pending = (await store.listPendingProposals(RECONCILED_MAX)) as MemoryId[];
      if (pending.length === 0) return;
      const { memory_ids } = await memoryd.filterProposed({ body: { memory_ids: pending } });
      const open = new Set<string>(memory_ids);
      const gone = pending.filter((id) => !open.has(id));
      if (gone.length > 0) await store.withdrawProposals(gone);
    },
  };
}
const toSeen = (
  row: ApprovalRow,
  { version, labels }: { version: number; labels: readonly Label[] },
): SeenProposal => ({ labels, arguments: toArguments({ ...readMemory(row)!, version }) });

export type Proposals = ReturnType<typeof makeProposals>;

function readEditedText(edited: Record<string, unknown>): string {
  const { text, ...others } = edited;
  if (typeof text === 'string' && text !== '' && Object.keys(others).length === 0) return text;
  throw fault('bad_request', 'body edited_arguments: a proposed memory has only a text to edit');
}
