// Changes memories that exist: edits, ends, forgets and expires them, and decides on proposals.
import type { Sql } from '../../../platform/sql/database.ts';
import type { IdempotencyKey } from '../../../platform/sql/idempotency.ts';
import { fault } from '../../../wire/errors.ts';
import type { MemoryId, MemoryLink } from '../../../wire/memoryd/records.ts';
import type { ApprovalId, Label } from '../../../wire/primitives.ts';
import type { About, Change, Operation } from '../journal/entry.ts';
import { assertNoSecrets, markPersonal } from '../rules/content.ts';
import { uniteLabels } from '../rules/marks.ts';
import { readAbout, readLabels } from '../rules/view.ts';
import type { Commit } from '../store/commit.ts';
import { findMemory, findParts, listLinks } from '../store/read.ts';
import type { LinkRow, MemoryRow } from '../store/schema.ts';
import type { Finder } from './finder.ts';
import { toEntryRun } from './remember.ts';
import type { Actor, MemoryAction, Rights } from './rights.ts';
import type { Texts } from './texts.ts';

export type ChangeDeps = {
  commit: Commit;
  rights: Rights;
  finder: Finder;
  texts: Texts;
  /** Removes the texts of forgotten memories from the journal and the disk. */
  erase(): Promise<void>;
  /** Something expires that may be the next to do so. */
  onExpirySet(): void;
  onForgotten(ids: readonly string[]): void;
};

export type Edit = About & {
  text?: string | undefined;
  labels?: readonly Label[] | undefined;
  /** The person answers for the text: its marks are dropped. */
  vouches?: boolean | undefined;
  /** The version that was seen. */
  version?: number | undefined;
};

/** By the person who decided it, through this approval; by nobody if it expired. */
export type DecidedProposal = { approvalId: ApprovalId; by: string | undefined };

type Once = IdempotencyKey | undefined;
type ChangeWork = (sql: Sql, memories: MemoryRow[], nowMs: number) => Promise<Change[]>;

export function makeChanges(deps: ChangeDeps) {
  const { commit, rights, finder, texts } = deps;

  /** Asking means here, but for proposals, that somebody else has to do it. */
  const assertAllowed = async (
    actor: Actor,
    ids: readonly string[],
    action: MemoryAction,
    isEnough: (answer: string) => boolean = (answer) => answer === 'allow',
  ): Promise<void> => {
    for (const id of new Set(ids)) {
      const { scope } = await finder.findReadable(actor, id);
      const decision = await rights.decide(actor, action, scope);
      if (!isEnough(decision.answer)) throw await rights.deny(actor, action, scope, decision);
    }
  };

  const change = (
    { actor, op, ids, once }: { actor: Actor; op: Operation; ids: readonly string[]; once: Once },
    work: ChangeWork,
  ): Promise<string[]> =>
    commit(async (sql, nowMs) => {
      const memories: MemoryRow[] = [];
      for (const id of new Set(ids)) memories.push((await findMemory(sql, id))!);
      const changes = await work(sql, memories, nowMs);
      return { op, by: actor.principal, run: toEntryRun(actor), changes };
    }, once);

  /** A decision that was done before changes nothing. */
  const decide = (
    op: Operation,
    { approvalId, by = 'service:approvald' }: DecidedProposal,
    id: MemoryId,
    work: (sql: Sql, memory: MemoryRow) => Promise<Change[]>,
  ): Promise<string[]> =>
    commit(async (sql) => {
      const memory = (await findMemory(sql, id))!;
      const changes = memory.status === 'proposed' ? await work(sql, memory) : [];
      return { op, by, approval_id: approvalId, changes };
    });

  return {
    /** Those that were forgotten before stay as they are. */
    async forget(actor: Actor, ids: readonly string[], once?: Once): Promise<void> {
      const isApproved = (answer: string) =>
        answer === 'allow' || (answer === 'ask' && actor.isApproved === true);
      await assertAllowed(actor, ids, 'data.delete', isApproved);
      await change({ actor, op: 'forget', ids, once }, async (_sql, memories) =>
        memories.flatMap(({ id, status }) =>
          status === 'forgotten' ? [] : [{ do: 'forget', id: id as MemoryId }],
        ),
      );
      deps.onForgotten(ids);
      await deps.erase();
    },

    /** Without a time, now. */
    async expire(actor: Actor, ids: readonly string[], at?: string, once?: Once): Promise<void> {
      await assertAllowed(actor, ids, 'data.delete');
      await change({ actor, op: 'expire', ids, once }, async (_sql, memories, nowMs) =>
        memories.map((memory) => {
          assertActive(memory);
          const id = memory.id as MemoryId;
          return at === undefined || Date.parse(at) <= nowMs
            ? { do: 'end', id, status: 'expired' }
            : { do: 'expire-at', id, at };
        }),
      );
      deps.onExpirySet();
    },

    async edit(actor: Actor, id: string, edit: Edit, once?: Once): Promise<void> {
      assertNoSecrets([edit]);
      const { status } = await finder.findReadable(actor, id);
      // A proposal stays one, so that a rule that asks is kept.
      const isEnough = status === 'proposed' ? isNotDenied : undefined;
      await assertAllowed(actor, [id], 'memory.write', isEnough);
      const { text, labels = [], vouches = false, version, ...about } = edit;
      await texts.whileStored(text === undefined ? [] : [text], (stored) =>
        change({ actor, op: 'edit', ids: [id], once }, async (sql, [memory]) => {
          const isProposal = memory!.status === 'proposed';
          if (!isProposal) assertActive(memory!);
          const { row, links } = (await findParts(sql, id))!;
          if (version !== undefined && Number(row.version) !== version)
            throw fault('conflict', `${id} has version ${row.version} by now`, {
              hint: `Read it again: agentctl memory show ${id}`,
            });
          const kept = { size: Number(row.size_bytes), ...textOf(row) };
          const before = vouches ? [] : readLabels(row);
          const kind = vouches ? 'vouches' : 'edits';
          return [
            {
              do: 'revise',
              id: id as MemoryId,
              content: {
                ...(stored[0] ?? kept),
                about: { ...readAbout(row), ...about },
                labels: uniteLabels(['person'], before, labels, vouches ? [] : markPersonal(edit)),
                links: [
                  // It would still replace the same.
                  ...(isProposal ? links.filter(isOrigin).map(toLink) : []),
                  { kind, id: id as MemoryId, version: Number(row.version) },
                ],
              },
            },
          ];
        }),
      );
    },

    /**
     * The memories that it replaces or merges end with it. Resolves to false if another version
     * has been proposed since.
     */
    async accept(
      id: MemoryId,
      { version, ...decision }: DecidedProposal & { version: number },
    ): Promise<boolean> {
      let isCurrent = true;
      await decide('approve', decision, id, async (sql, memory) => {
        isCurrent = Number(memory.version) === version;
        if (!isCurrent) return [];
        const ends: Change[] = [];
        for (const { kind, to_id } of await listLinks(sql, id, version)) {
          const status = kind === 'supersedes' ? 'superseded' : 'merged';
          const isEnded = kind === 'supersedes' || kind === 'merges';
          if (isEnded && (await findMemory(sql, to_id))?.status === 'active')
            ends.push({ do: 'end', id: to_id as MemoryId, status });
        }
        return [{ do: 'accept', id }, ...ends];
      });
      return isCurrent;
    },

    async endProposal(
      id: MemoryId,
      { status, ...decision }: DecidedProposal & { status: 'rejected' | 'expired' },
    ): Promise<void> {
      const op = status === 'rejected' ? 'reject' : 'expire';
      await decide(op, decision, id, async () => [{ do: 'end', id, status }]);
    },

    /** Ends what is due. Resolves to when the next one is. */
    async expireDue(nowMs: number, db: { read: ReadDue }): Promise<number | undefined> {
      const due = await db.read((sql) =>
        sql.all<{ id: string }>(
          "SELECT id FROM memories WHERE status = 'active' AND expires_ms IS NOT NULL AND expires_ms <= ? LIMIT 500",
          nowMs,
        ),
      );
      if (due.length > 0)
        await commit(async (sql) => ({
          op: 'expire',
          by: 'service:memoryd',
          changes: await toExpired(sql, due, nowMs),
        }));
      const next = await db.read((sql) =>
        sql.one<{ at: number | null }>(
          "SELECT MIN(expires_ms) AS at FROM memories WHERE status = 'active' AND expires_ms IS NOT NULL",
        ),
      );
      return next?.at == null ? undefined : Number(next.at);
    },
  };
}

export type MemoryChanges = ReturnType<typeof makeChanges>;
type ReadDue = <T>(work: (sql: Sql) => Promise<T>) => Promise<T>;

/** Others may have changed them since they were found. */
async function toExpired(sql: Sql, due: readonly { id: string }[], nowMs: number) {
  const changes: Change[] = [];
  for (const { id } of due) {
    const memory = await findMemory(sql, id);
    if (memory?.status === 'active' && Number(memory.expires_ms ?? nowMs + 1) <= nowMs)
      changes.push({ do: 'end', id: id as MemoryId, status: 'expired' });
  }
  return changes;
}

const textOf = ({ text, object }: { text: string | null; object: string | null }) =>
  object === null ? { text: text ?? '' } : { object };

function assertActive({ id, status }: MemoryRow): void {
  if (status !== 'active') throw fault('conflict', `${id} is ${status}`);
}

const isNotDenied = (answer: string): boolean => answer !== 'deny';
const isOrigin = ({ kind }: LinkRow): boolean =>
  kind === 'supersedes' || kind === 'merges' || kind === 'summarizes';
const toLink = ({ kind, to_id, to_version }: LinkRow): MemoryLink => ({
  kind: kind as MemoryLink['kind'],
  id: to_id as MemoryId,
  version: Number(to_version),
});
