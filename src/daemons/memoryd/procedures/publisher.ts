// Writes the procedural memories as files under version control. All of it follows from the tables:
// after a start it is computed again, and only what is missing is written.
import { makeMutex } from '../../../platform/mutex.ts';
import type { Sql } from '../../../platform/sql/database.ts';
import type { SqliteDatabase } from '../../../platform/sql/sqlite.ts';
import { readLabels } from '../rules/view.ts';
import type { Texts } from '../service/texts.ts';
import { findMemory, findVersion } from '../store/read.ts';
import type { ProcedureChangeRow } from '../store/schema.ts';
import { encodeBlob, encodeCommit, encodeTrees, type GitObject } from './git-objects.ts';
import { pathOf, README, renderFile, renderMessage, toAuthor } from './render.ts';
import type { ProcedureRepository, Revision } from './repository.ts';

export type ProcedureDeps = {
  db: SqliteDatabase;
  texts: Pick<Texts, 'load'>;
  repository: ProcedureRepository;
  failpoint(name: string): void;
};

type Files = Map<string, { hash: string; size: number }>;
/** After the change with this number. */
type Published = { number: number; head: string; files: Files };

const README_PATH = 'README.md';
const AT_ONCE = 200;

/** Resolves when the files are what the tables say. One runs at a time. */
export function makePublishProcedures(deps: ProcedureDeps): () => Promise<void> {
  const { db, repository, failpoint } = deps;
  const lock = makeMutex();
  let published: Published | undefined;

  /** Computes all of it; a repository that has a part of it is completed. */
  const publishAll = async (rewrite: number): Promise<void> => {
    const made = await compute(deps, undefined);
    const head = await repository.head();
    const isPart = head !== undefined && made?.commits.includes(head) === true;
    failpoint('memoryd.before-procedures');
    if (rewrite > 0 || !isPart) await repository.replace(made?.revision);
    else if (head !== made.published.head) await repository.append(made.revision);
    failpoint('memoryd.after-procedures');
    // Another may have been forgotten since.
    if (rewrite > 0)
      await db.write((sql) =>
        sql.run('UPDATE procedures SET rewrite = 0 WHERE rewrite = ?', rewrite),
      );
    published = made?.published;
  };

  const publish = async (): Promise<void> => {
    const { rewrite, last } = await db.read(readState);
    if (last === 0 && rewrite === 0) return;
    if (published === undefined || rewrite > 0 || last < published.number) {
      published = undefined;
      return publishAll(rewrite);
    }
    if (last === published.number) return;
    const made = (await compute(deps, published))!;
    await repository.append(made.revision);
    published = made.published;
  };

  return () =>
    lock(publish).catch((error: unknown) => {
      published = undefined;
      throw error;
    });
}

type Computed = { revision: Revision; published: Published; commits: string[] };

/** Undefined: no memory was ever a procedure. */
async function compute(
  { db, texts }: ProcedureDeps,
  from: Published | undefined,
): Promise<Computed | undefined> {
  const files: Files = new Map(from?.files);
  const objects: GitObject[] = [];
  const changed = new Map<string, string | null>();
  const commits: string[] = [];
  let [head, number] = [from?.head, from?.number ?? 0];

  const put = (path: string, text: string): void => {
    const blob = encodeBlob(text);
    objects.push(blob);
    files.set(path, { hash: blob.hash, size: Buffer.byteLength(text) });
    changed.set(path, text);
  };
  if (from === undefined) put(README_PATH, README);

  for (;;) {
    const page = await db.read((sql) => listChanges(sql, number));
    for (const change of page) {
      number = Number(change.number);
      const found = await db.read((sql) => findChanged(sql, change));
      // Forgotten meanwhile: everything is written again after this.
      if (found === undefined) continue;
      const { scope, first, row } = found;
      const path = pathOf(scope, change.memory_id, (await texts.load(first)) ?? '');
      const text = await texts.load(row);
      if (change.did === 'end' || text === null) {
        if (!files.delete(path)) continue;
        changed.set(path, null);
      } else put(path, renderFile(scope, row, text));
      const trees = encodeTrees(files);
      const commit = encodeCommit({
        tree: trees.at(-1)!.hash,
        parent: head,
        author: toAuthor(change.author),
        atMs: Number(change.at_ms),
        message: renderMessage(change, { scope, labels: readLabels(row) }),
      });
      objects.push(...trees, commit);
      head = commit.hash;
      commits.push(head);
    }
    if (page.length < AT_ONCE) break;
  }
  if (head === undefined) return undefined;
  return {
    revision: { objects, head, files, texts: changed },
    published: { number, head, files },
    commits,
  };
}

/** The newest change, and how many were forgotten. */
async function readState(sql: Sql): Promise<{ rewrite: number; last: number }> {
  const state = await sql.one<{ rewrite: number }>('SELECT rewrite FROM procedures');
  const newest = await sql.one<{ number: number }>(
    'SELECT number FROM procedure_changes ORDER BY number DESC LIMIT 1',
  );
  return { rewrite: Number(state!.rewrite), last: Number(newest?.number ?? 0) };
}

const listChanges = (sql: Sql, after: number): Promise<ProcedureChangeRow[]> =>
  sql.all<ProcedureChangeRow>(
    'SELECT * FROM procedure_changes WHERE number > ? ORDER BY number LIMIT ?',
    after,
    AT_ONCE,
  );

async function findChanged(sql: Sql, { memory_id: id, version }: ProcedureChangeRow) {
  const memory = await findMemory(sql, id);
  const first = await findVersion(sql, id, 1);
  const row = await findVersion(sql, id, Number(version));
  if (memory === undefined || first === undefined || row === undefined) return undefined;
  return { scope: memory.scope, first, row };
}
