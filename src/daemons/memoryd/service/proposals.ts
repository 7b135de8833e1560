// Has people decide on proposals: requests an approval of each from approvald, and does what was
// decided, once. The journal says which memories are proposals; what was requested follows from it,
// so that a crash anywhere is repaired by requesting again.

import type { Clock } from '../../../platform/clock.ts';
import { isFault } from '../../../platform/daemon.ts';
import { hashJson } from '../../../platform/json.ts';
import type { Client } from '../../../platform/link.ts';
import type { Log } from '../../../platform/log.ts';
import { verifyJson } from '../../../platform/signed-json.ts';
import type { Database } from '../../../platform/sql/database.ts';
import type { ActingPerson } from '../../../wire/approvald/proposals.ts';
import type { Redeemed } from '../../../wire/approvald/statement.ts';
import type { approvaldRoutes } from '../../../wire/approvald.ts';
import { fault } from '../../../wire/errors.ts';
import type { MemoryClass, MemoryId, MemoryStatus } from '../../../wire/memoryd/records.ts';
import type { ApprovalId, Principal } from '../../../wire/primitives.ts';
import type { EntryRun } from '../journal/entry.ts';
import { filterMarks } from '../rules/marks.ts';
import { readLabels } from '../rules/view.ts';
import { findMemory, findParts, listProposedIds } from '../store/read.ts';
import type { MemoryRow, VersionRow } from '../store/schema.ts';
import type { MemoryChanges } from './changes.ts';
import type { Finder } from './finder.ts';
import { toActor } from './proposal-review.ts';
import type { Rights } from './rights.ts';

type Approvald = Pick<
  Client<typeof approvaldRoutes>,
  'askProposal' | 'decideProposal' | 'redeemProposal' | 'withdrawProposals' | 'approvalKey'
>;
/** An approval, and the version for which it was requested. */
type Requested = { approvalId: ApprovalId; version: number };
type Found = { memory: MemoryRow; row: VersionRow };

const MEMORY_WRITE = 'memory.write';
/** Those that are beyond approvald's limit are tried again. */
const LIMITED_RETRY_MS = 60_000;

export function makeProposals(deps: {
  approvald: Approvald;
  db: Pick<Database, 'read'>;
  rights: Rights;
  finder: Finder;
  changes: Pick<MemoryChanges, 'accept' | 'endProposal'>;
  clock: Clock;
  log: Log;
  failpoint(name: string): void;
  /** Something is to be requested. */
  onOpen(): void;
}) {
  const { approvald, db, rights, finder, changes, clock, log, failpoint, onOpen } = deps;
  const requested = new Map<string, Requested>();

  let known: Promise<string> | undefined;
  const fetchPublicKey = (): Promise<string> => {
    known ??= approvald.approvalKey({}).then((answer) => answer.public_key_pem);
    known.catch(() => {
      known = undefined;
    });
    return known;
  };

  const find = async (id: string): Promise<Found | undefined> => {
    const parts = await db.read((sql) => findParts(sql, id));
    return parts?.memory.status === 'proposed' ? parts : undefined;
  };

  /** Why it is a proposal: what policy says now about its author's write. */
  const explain = async ({ memory, row }: Found): Promise<{ rules: string[]; reason: string }> => {
    const proposed = { rules: [], reason: `${row.author} proposed it` };
    const [kind, name = ''] = row.author.split(':');
    if (kind !== 'agent' && kind !== 'person') return proposed;
    const marks = filterMarks(readLabels(row));
    const ids = row.run === null ? undefined : (JSON.parse(row.run) as EntryRun);
    const run = ids && { ...ids, agent: name, labels: marks };
    const actor = { principal: row.author, run };
    const decision = await rights.decide(actor, MEMORY_WRITE, memory.scope, marks);
    if (decision.answer === 'allow') return proposed;
    return {
      rules: decision.rules.map((rule) => rule.slice(0, 200)).slice(0, 64),
      reason: decision.reason.slice(0, 2_000),
    };
  };

  /** Idempotent: the same proposal gets the same approval. */
  const request = async (found: Found, isNamed: boolean): Promise<Requested> => {
    const { memory, row } = found;
    const before = requested.get(memory.id);
    if (before !== undefined) return before;
    const ids = JSON.parse(row.run ?? '{}') as Partial<EntryRun>;
    const version = Number(memory.version);
    failpoint('memoryd.before-request');
    const { approval_id, status } = await approvald.askProposal({
      body: {
        memory_id: memory.id as MemoryId,
        version,
        class: memory.class as MemoryClass,
        scope: memory.scope,
        by: row.author as Principal,
        run_id: ids.run_id ?? null,
        task_id: ids.task_id ?? null,
        labels: readLabels(row),
        ...(await explain(found)),
        is_named: isNamed,
      },
    });
    failpoint('memoryd.after-request');
    const made = { approvalId: approval_id, version };
    requested.set(memory.id, made);
    // Decided while nobody here knew of it.
    if (status === 'ended') await carryOut(memory.id, made);
    return made;
  };

  /** Does what was decided. What is done or undecided stays as it is. */
  const carryOut = async (id: string, { approvalId, version }: Requested): Promise<void> => {
    const found = await find(id);
    if (found === undefined) return;
    const redeemed = await approvald.redeemProposal({
      params: { id: approvalId },
      body: { memory_id: id as MemoryId, version, labels: readLabels(found.row) },
    });
    failpoint('memoryd.after-redeem');
    const decision = { approvalId, by: redeemed.statement?.by.at(-1) };
    switch (redeemed.decision) {
      case 'approved': {
        const approved = readApproved(id, approvalId, redeemed, await fetchPublicKey());
        const isDone = await changes.accept(id as MemoryId, { ...decision, version: approved });
        requested.delete(id);
        // It got another version at the last moment, which nobody has approved.
        if (!isDone) onOpen();
        return;
      }
      case 'rejected':
      case 'expired':
        await changes.endProposal(id as MemoryId, { ...decision, status: redeemed.decision });
        requested.delete(id);
        return;
      default:
        if (redeemed.decision !== 'pending')
          log.warn('a proposal is not decided by its approval', {
            memory_id: id,
            approval_id: approvalId,
            decision: redeemed.decision,
          });
    }
  };

  return {
    /** Requests what is not requested yet; resolves to when to try again. */
    async requestAll(): Promise<number | undefined> {
      let isLimited = false;
      for (const id of await db.read(listProposedIds)) {
        if (requested.has(id)) continue;
        const found = await find(id);
        if (found === undefined) continue;
        try {
          await request(found, false);
        } catch (error) {
          if (!isFault(error, 'limit')) throw error;
          isLimited = true;
        }
      }
      return isLimited ? clock.nowMs() + LIMITED_RETRY_MS : undefined;
    },

    /** The same decision as with `agentctl approve`, with the same checks. */
    async decide(person: ActingPerson, id: MemoryId, answer: 'approve' | 'reject'): Promise<void> {
      const { status } = await finder.findReadable(toActor(person), id);
      const found = await find(id);
      if (found === undefined) throw fault('conflict', `${id} is ${status}, and not a proposal`);
      const { approvalId, version } = await request(found, true);
      const body = { person, answer, version: Number(found.memory.version) };
      await approvald.decideProposal({ params: { id: approvalId }, body });
      await carryOut(id, { approvalId, version });
    },

    /** approvald notifies until this is answered. */
    async handleDecision(id: MemoryId, decided: Requested): Promise<MemoryStatus | undefined> {
      await carryOut(id, decided);
      onOpen();
      const memory = await db.read((sql) => findMemory(sql, id));
      return memory?.status as MemoryStatus | undefined;
    },

    filterProposed: async (ids: readonly MemoryId[]): Promise<MemoryId[]> => {
      const memories = await db.read((sql) => Promise.all(ids.map((id) => findMemory(sql, id))));
      return ids.filter((_, i) => memories[i]?.status === 'proposed');
    },

    /** They were forgotten. If this fails, approvald finds out by itself. */
    withdraw(ids: readonly string[]): void {
      const memory_ids = ids.filter((id) => requested.delete(id)) as MemoryId[];
      if (memory_ids.length === 0) return;
      approvald
        .withdrawProposals({ body: { memory_ids } })
        .catch((error: unknown) => log.debug('withdrawing proposals failed', { error }));
    },
  };
}
export type MemoryProposals = ReturnType<typeof makeProposals>;

/** The version that people approved. Throws unless approvald signed for it. */
function readApproved(id: string, approvalId: string, redeemed: Redeemed, key: string): number {
  const { statement, signature, arguments: approved } = redeemed;
  const isOwn =
    statement?.approval_id === approvalId &&
    statement.action === MEMORY_WRITE &&
    statement.decision === 'approved' &&
    statement.arguments_hash === hashJson(approved) &&
    approved?.memory_id === id;
  if (!isOwn || !verifyJson(statement, signature ?? '', key))
    throw fault('denied', `${approvalId} carries no valid signature for ${id}`, {
      hint: 'Stop. An operator should inspect the audit log.',
    });
  return Number(approved.version);
}
