// Forgets the memories that are copies of a forgotten one: made from it, or written by agents or by
// rule with its text in them. What a person wrote on their own stays: it is theirs to forget.
import { makeRedactor, type Redactor } from '../../../platform/copies/redact.ts';
import type { makeSeal } from '../../../platform/copies/seal.ts';
import type { Sql } from '../../../platform/sql/database.ts';
import type { SqliteDatabase } from '../../../platform/sql/sqlite.ts';
import type { EraseCopies, ErasedCopies } from '../../../wire/copies.ts';
import type { MemoryId } from '../../../wire/memoryd/records.ts';
import { readAbout } from '../rules/view.ts';
import { type ApplyDeps, COPIES_AUTHOR } from '../store/apply.ts';
import type { Commit } from '../store/commit.ts';
import { findMemory } from '../store/read.ts';
import type { VersionRow } from '../store/schema.ts';

const PAGE_ROWS = 100;
const STEP_MS = 200;

type ScannedVersion = Pick<
  VersionRow,
  'number' | 'memory_id' | 'text' | 'object' | 'about' | 'author'
>;

export type EraseCopiesDeps = {
  db: Pick<SqliteDatabase, 'read'>;
  commit: Commit;
  readObject: ApplyDeps['readObject'];
  /** Removes the texts of what was forgotten from the journal and the disk. */
  erase(): Promise<void>;
  onForgotten(ids: readonly string[]): void;
  seal: ReturnType<typeof makeSeal>;
  failpoint(name: string): void;
};

export function makeEraseCopies(deps: EraseCopiesDeps) {
  const { db, commit, readObject, erase, onForgotten, seal, failpoint } = deps;

  const hasCopy = ({ text, object, about }: ScannedVersion, redactor: Redactor): boolean => {
    const body = text ?? (object === null ? undefined : readObject(object)) ?? '';
    const { caption = '' } = readAbout({ about });
    return [body, caption].some((one) => redactor.redactText(one) !== one);
  };

  const forgetAll = (ids: readonly string[]): Promise<string[]> =>
    commit(async (sql) => {
      const changes: { do: 'forget'; id: MemoryId }[] = [];
      for (const id of ids)
        if ((await findMemory(sql, id))?.status !== 'forgotten')
          changes.push({ do: 'forget', id: id as MemoryId });
      return { op: 'forget', by: COPIES_AUTHOR, changes };
    });

  return async ({ forgotten, cursor }: EraseCopies): Promise<ErasedCopies> => {
    failpoint('memoryd.before-erase-copies');
    const redactor = makeRedactor(forgotten);
    const derived = await db.read((sql) => listDerived(sql, redactor.memoryIds));
    const untilMs = performance.now() + STEP_MS;
    let after = cursor === undefined ? 0 : Number(cursor);
    let found = 0;
    for (let isLast = false; !isLast && performance.now() < untilMs; ) {
      const rows = await db.read((sql) => readPage(sql, after));
      const copies = rows.filter(
        (row) => (!isPersons(row) || derived.has(row.memory_id)) && hasCopy(row, redactor),
      );
      const ids = [...new Set(copies.map(({ memory_id }) => memory_id))];
      if (ids.length > 0) {
        found += (await forgetAll(ids)).length;
        onForgotten(ids);
      }
      isLast = rows.length < PAGE_ROWS;
      after = isLast ? -1 : Number(rows.at(-1)!.number);
    }
    // Also for what a crash left.
    await erase();
    failpoint('memoryd.after-erase-copies');
    if (after >= 0) return { cursor: String(after), found, run_ids: [] };
    await seal(redactor);
    return { cursor: null, found, run_ids: [] };
  };
}

const isPersons = ({ author }: ScannedVersion): boolean => /^(person|key):/.test(author);

const readPage = (sql: Sql, after: number): Promise<ScannedVersion[]> =>
  sql.all<ScannedVersion>(
    `SELECT number, memory_id, text, object, about, author FROM versions
     WHERE number > ? ORDER BY number LIMIT ${PAGE_ROWS}`,
    after,
  );

/** The memories that are made from these, over all steps. */
async function listDerived(sql: Sql, ids: ReadonlySet<string>): Promise<ReadonlySet<string>> {
  const derived = new Set<string>();
  for (let layer = [...ids]; layer.length > 0; ) {
    const next = new Set<string>();
    for (const id of layer)
      for (const { from_id } of await sql.all<{ from_id: string }>(
        'SELECT from_id FROM links WHERE to_id = ?',
        id,
      ))
        if (!derived.has(from_id) && !ids.has(from_id)) next.add(from_id);
    for (const id of next) derived.add(id);
    layer = [...next];
  }
  return derived;
}
