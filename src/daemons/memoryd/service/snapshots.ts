// Names a moment of a scope, and takes a scope or a memory back to an earlier one. A rollback is a
// change like others: nothing of what it undoes is lost, and what was forgotten stays so.
import type { NewId } from '../../../platform/ids.ts';
import type { Database, Sql } from '../../../platform/sql/database.ts';
import type { IdempotencyKey } from '../../../platform/sql/idempotency.ts';
import { fault } from '../../../wire/errors.ts';
import type { MemoryId, MemorySnapshot, MemorySnapshotId } from '../../../wire/memoryd/records.ts';
import type { Change } from '../journal/entry.ts';
import { readAbout, readLabels, toSnapshot } from '../rules/view.ts';
import type { Commit } from '../store/commit.ts';
import { findMemory, findVersion, listAllIds, listVersions } from '../store/read.ts';
import type { MemoryRow, SnapshotRow, VersionRow } from '../store/schema.ts';
import type { Finder } from './finder.ts';
import type { Actor, Rights } from './rights.ts';

export type SnapshotDeps = {
  db: Database;
  commit: Commit;
  rights: Rights;
  finder: Finder;
  newId: NewId;
};

/** Changed in one operation. */
const ROLLBACK_MAX = 10_000;

export function makeMemorySnapshots({ db, commit, rights, finder, newId }: SnapshotDeps) {
  const assertAllowed = async (
    actor: Actor,
    action: 'memory.read' | 'data.delete',
    scope: string,
  ): Promise<void> => {
    const decision = await rights.decide(actor, action, scope);
    if (decision.answer !== 'allow') throw await rights.deny(actor, action, scope, decision);
  };

  const find = async (actor: Actor, id: string): Promise<SnapshotRow> => {
    const row = await db.read((sql) =>
      sql.one<SnapshotRow>('SELECT * FROM snapshots WHERE id = ?', id),
    );
    if (row !== undefined && (await rights.canRead(actor, row.scope))) return row;
    throw fault('not_found', `snapshot ${id} not found`, {
      hint: 'See agentctl memory snapshot --list.',
    });
  };

  return {
    async take(
      actor: Actor,
      { scope, name = '' }: { scope: string; name?: string | undefined },
      once?: IdempotencyKey,
    ): Promise<MemorySnapshot> {
      await assertAllowed(actor, 'memory.read', scope);
      const id = newId<MemorySnapshotId>('memsnap');
      const [taken] = await commit(
        async () => ({
          op: 'snapshot',
          by: actor.principal,
          changes: [{ do: 'snapshot', id, name, scope }],
        }),
        once,
      );
      return toSnapshot(await find(actor, taken!));
    },

    /** Newest first. */
    async list(
      actor: Actor,
      { before, limit }: { before: string | undefined; limit: number },
    ): Promise<MemorySnapshot[]> {
      const rows = await db.read((sql) =>
        sql.all<SnapshotRow>(
          'SELECT * FROM snapshots WHERE id < ? ORDER BY id DESC LIMIT ?',
          before ?? 'n',
          limit,
        ),
      );
      const readable: MemorySnapshot[] = [];
      for (const row of rows)
        if (await rights.canRead(actor, row.scope)) readable.push(toSnapshot(row));
      return readable;
    },

    /** Resolves to the ids of what was changed. */
    async rollBackTo(actor: Actor, id: string, once?: IdempotencyKey): Promise<string[]> {
      const { scope, at_ms } = await find(actor, id);
      const scopes = await finder.listReadableScopes(actor, [scope]);
      for (const each of new Set([scope, ...scopes]))
        await assertAllowed(actor, 'data.delete', each);
      return commit(async (sql) => {
        const ids = await listAllIds(sql, scopes, ROLLBACK_MAX + 1);
        if (ids.length > ROLLBACK_MAX)
          throw fault('too_large', `${scope} has more than ${ROLLBACK_MAX} memories`, {
            hint: 'Take back scopes below it one by one.',
          });
        const changes: Change[] = [];
        for (const each of ids) changes.push(...(await takeBack(sql, each, Number(at_ms))));
        return { op: 'rollback', by: actor.principal, changes };
      }, once);
    },

    /** Makes an earlier version of one memory its newest. */
    async restore(
      actor: Actor,
      { id, version }: { id: string; version: number },
      once?: IdempotencyKey,
    ): Promise<void> {
      const { scope } = await finder.findReadable(actor, id);
      await assertAllowed(actor, 'data.delete', scope);
      await commit(async (sql) => {
        const memory = (await findMemory(sql, id))!;
        const row = await findVersion(sql, id, version);
        if (memory.status === 'forgotten') throw fault('conflict', `${id} is forgotten`);
        if (row === undefined || row.since_ms === null)
          throw fault('not_found', `${id} has no version ${version} that was in force`);
        return { op: 'rollback', by: actor.principal, changes: [toRevision(row)] };
      }, once);
    },
  };
}

export type MemorySnapshots = ReturnType<typeof makeMemorySnapshots>;

async function takeBack(sql: Sql, id: string, atMs: number): Promise<Change[]> {
  const memory = (await findMemory(sql, id)) as MemoryRow;
  if (memory.status === 'forgotten' || memory.status === 'proposed') return [];
  const then = (await listVersions(sql, id)).find(
    ({ since_ms, ended_ms }) =>
      since_ms !== null &&
      Number(since_ms) <= atMs &&
      (ended_ms === null || Number(ended_ms) > atMs),
  );
  const isNow = memory.status === 'active';
  if (then === undefined)
    return isNow ? [{ do: 'end', id: id as MemoryId, status: 'rolled_back' }] : [];
  if (isNow && Number(then.version) === Number(memory.version)) return [];
  return [toRevision(then)];
}

function toRevision(row: VersionRow): Change {
  const id = row.memory_id as MemoryId;
  return {
    do: 'revise',
    id,
    content: {
      ...(row.object === null ? { text: row.text ?? '' } : { object: row.object }),
      size: Number(row.size_bytes),
      about: readAbout(row),
      labels: readLabels(row),
      links: [{ kind: 'restores', id, version: Number(row.version) }],
    },
  };
}
