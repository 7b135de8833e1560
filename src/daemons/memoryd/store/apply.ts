// Applies an entry of the journal to the tables. The tables follow from the entries alone, so that
// a rebuild makes them again: nothing here asks the clock, policy or another daemon.
import type { Sql } from '../../../platform/sql/database.ts';
import { deleteExpired, type IdempotencyKey } from '../../../platform/sql/idempotency.ts';
import { addToIndex, type IndexedRecord, removeFromIndex } from '../index/index.ts';
import {
  type Change,
  type JournalEntry,
  nextNumber,
  type VersionContent,
} from '../journal/entry.ts';
import { dropVersions } from '../vectors/due.ts';
import { listProcedureChange } from './procedure-changes.ts';
import { pruneMemory } from './prune.ts';
import type { MemoryRow, VersionRow } from './schema.ts';
import { countInScope, countVersions, EPISODE_AUTHOR, endEpisode } from './scope-counts.ts';

/** Forgets copies of what somebody forgot (service/erase-copies.ts). */
export const COPIES_AUTHOR = 'service:memoryd';

export type ApplyDeps = {
  /** Reads a text that is too long for the journal. Undefined: its object is missing. */
  readObject(hash: string): string | undefined;
  /** A procedural memory has changed. */
  onProcedure(): void;
  /** Versions are in the index now. */
  onIndexed(sql: Sql, numbers: readonly number[]): Promise<void>;
};

type Step = {
  sql: Sql;
  entry: JournalEntry;
  number: number;
  atMs: number;
  deps: ApplyDeps;
  /** The versions that the entry makes current, indexed together. */
  found: IndexedRecord[];
};

export async function applyEntry(sql: Sql, entry: JournalEntry, deps: ApplyDeps): Promise<void> {
  const atMs = Date.parse(entry.at);
  const found: IndexedRecord[] = [];
  for (const [i, change] of entry.changes.entries()) {
    const step = { sql, entry, number: entry.n + i, atMs, deps, found };
    await applyChange(step, change);
    if (await listProcedureChange(sql, step, change)) sql.afterCommit!(deps.onProcedure);
  }
  if (found.length > 0) {
    await addToIndex(sql, found);
    const numbers = found.map(({ number }) => number);
    await deps.onIndexed(sql, numbers);
  }
  const next = nextNumber(entry);
  await sql.run(
    'UPDATE progress SET next = ?, told = MAX(told, ?), day = ?',
    next,
    next,
    entry.at.slice(0, 10),
  );
  if (entry.once !== undefined) await saveAnswer(sql, entry, entry.once);
}

async function saveAnswer(sql: Sql, entry: JournalEntry, once: IdempotencyKey): Promise<void> {
  const atMs = Date.parse(entry.at);
  await sql.run(
    'INSERT INTO once (scope, once_key, request_hash, answer, at_ms) VALUES (?, ?, ?, ?, ?)',
    once.scope,
    once.key,
    once.requestHash,
    JSON.stringify(changedIds(entry)),
    atMs,
  );
  await deleteExpired(sql, atMs);
}

/** The memories that an entry changed, each once: the durable answer to the request. */
export const changedIds = ({ changes }: JournalEntry): string[] => [
  ...new Set(changes.map(({ id }) => id as string)),
];

async function applyChange(step: Step, change: Change): Promise<void> {
  const { sql } = step;
  switch (change.do) {
    case 'add':
      return add(step, change);
    case 'revise':
      return revise(step, change);
    case 'accept':
      return accept(step, change.id);
    case 'end':
      return end(step, change.id, change.status);
    case 'forget':
      return forget(step, change.id);
    case 'snapshot':
      return addSnapshot(step, change);
    case 'prune':
      return pruneMemory(sql, step, change.id);
    case 'gone':
      return;
    case 'expire-at': {
      const atMs = change.at === null ? null : Date.parse(change.at);
      await sql.run('UPDATE memories SET expires_ms = ? WHERE id = ?', atMs, change.id);
    }
  }
}

async function addSnapshot(
  { sql, entry, atMs }: Step,
  { id, name, scope }: Extract<Change, { do: 'snapshot' }>,
): Promise<void> {
  await sql.run(
    'INSERT INTO snapshots (id, name, scope, at_ms, author) VALUES (?, ?, ?, ?, ?)',
    id,
    name,
    scope,
    atMs,
    entry.by,
  );
}

const findMemory = (sql: Sql, id: string): Promise<MemoryRow | undefined> =>
  sql.one<MemoryRow>('SELECT * FROM memories WHERE id = ?', id);

async function add(step: Step, change: Extract<Change, { do: 'add' }>): Promise<void> {
  const { sql, number, atMs, entry } = step;
  const { id, scope, status, expires_at, content } = change;
  const episodeOf = (entry.by === EPISODE_AUTHOR && entry.run?.root_task_id) || null;
  await sql.run(
    'INSERT INTO memories (id, number, class, scope, status, version, created_ms, expires_ms, episode_of) ' +
      'VALUES (?, ?, ?, ?, ?, 1, ?, ?, ?)',
    id,
    number,
    change.class,
    scope,
    content.forgotten === true ? 'forgotten' : status,
    atMs,
    expires_at === undefined ? null : Date.parse(expires_at),
    episodeOf,
  );
  const counts = countVersions([toSized(content)], { isEpisode: episodeOf !== null });
  await countInScope(sql, scope, { ...counts, memories: 1, episodes: episodeOf === null ? 0 : 1 });
  await insertVersion(step, {
    id,
    version: 1,
    scope,
    sinceMs: status === 'active' ? atMs : null,
    content,
  });
}

const toSized = ({ text, object, size }: VersionContent) => ({
  text: text ?? null,
  object: object ?? null,
  size_bytes: size,
});

async function revise(
  step: Step,
  { id, content }: Extract<Change, { do: 'revise' }>,
): Promise<void> {
  const { sql, atMs } = step;
  const memory = await findMemory(sql, id);
  if (memory === undefined) return;
  await endCurrent(step, id);
  const version = memory.version + 1;
  // A proposal that a person words anew is still one.
  const isProposal = memory.status === 'proposed';
  await sql.run(
    "UPDATE memories SET version = ?, status = CASE WHEN status = 'proposed' THEN status " +
      "ELSE 'active' END, expires_ms = CASE WHEN expires_ms <= ? THEN NULL ELSE expires_ms END WHERE id = ?",
    version,
    atMs,
    id,
  );
  // Changed by a person, it is kept like any other memory.
  await endEpisode(sql, memory);
  const counts = countVersions([toSized(content)], { isEpisode: false });
  await countInScope(sql, memory.scope, counts);
  const sinceMs = isProposal ? null : atMs;
  await insertVersion(step, { id, version, scope: memory.scope, sinceMs, content });
}

async function endCurrent({ sql, atMs }: Step, id: string): Promise<void> {
  await sql.run(
    'UPDATE versions SET ended_ms = ? WHERE memory_id = ? AND ended_ms IS NULL',
    atMs,
    id,
  );
}

async function end(step: Step, id: string, status: string): Promise<void> {
  await endCurrent(step, id);
  await step.sql.run('UPDATE memories SET status = ? WHERE id = ?', status, id);
}

async function accept(step: Step, id: string): Promise<void> {
  const { sql, atMs } = step;
  const row = await sql.one<VersionRow & { scope: string }>(
    'SELECT v.*, m.scope FROM versions v JOIN memories m ON m.id = v.memory_id ' +
      'WHERE v.memory_id = ? AND v.version = m.version AND m.status = ?',
    id,
    'proposed',
  );
  if (row === undefined) return;
  await sql.run('UPDATE versions SET since_ms = ? WHERE number = ?', atMs, row.number);
  await sql.run("UPDATE memories SET status = 'active' WHERE id = ?", id);
  prepareIndex(step, row);
}

/** The texts are removed from the journal and the disk afterwards. */
async function forget(step: Step, id: string): Promise<void> {
  const { sql, entry, deps } = step;
  const memory = await findMemory(sql, id);
  if (memory === undefined) return;
  const rows = await sql.all<VersionRow>('SELECT * FROM versions WHERE memory_id = ?', id);
  const isEpisode = memory.episode_of !== null;
  await countInScope(sql, memory.scope, countVersions(rows, { isEpisode, sign: -1 }));
  if (entry.by !== COPIES_AUTHOR) await addDueCopies(sql, id, rows, deps);
  const numbers = rows.map(({ number }) => Number(number));
  await removeFromIndex(sql, numbers);
  await dropVersions(sql, numbers);
  for (const { number, text, object, recorded_ms } of rows)
    if (text !== null || object !== null)
      await sql.run(
        'INSERT INTO erasures (number, object, recorded_ms) VALUES (?, ?, ?)',
        number,
        object,
        recorded_ms,
      );
  await sql.run(
    "UPDATE versions SET text = NULL, object = NULL, about = '{}' WHERE memory_id = ?",
    id,
  );
  await sql.run('UPDATE memories SET forgotten = ? WHERE id = ?', step.number, id);
  await end(step, id, 'forgotten');
}

/** In a rebuild, texts that were removed before are not there any more. */
async function addDueCopies(
  sql: Sql,
  id: string,
  rows: readonly VersionRow[],
  { readObject }: ApplyDeps,
): Promise<void> {
  const texts = rows.flatMap(({ text, object, about }) => {
    const { caption } = JSON.parse(about) as VersionContent['about'];
    return [text ?? (object === null ? undefined : readObject(object)), caption].filter(
      (one) => one !== undefined,
    );
  });
  if (texts.length === 0) return;
  await sql.run(
    'INSERT OR IGNORE INTO copies_due (memory_id, texts) VALUES (?, ?)',
    id,
    JSON.stringify(texts),
  );
}

type NewVersion = {
  id: string;
  version: number;
  scope: string;
  sinceMs: number | null;
  content: VersionContent;
};

async function insertVersion(
  step: Step,
  { id, version, scope, sinceMs, content }: NewVersion,
): Promise<void> {
  const { sql, entry, number, atMs } = step;
  const { text = null, object = null, size, about, labels, links = [] } = content;
  const toMs = (at: string | undefined): number | null =>
    at === undefined ? null : Date.parse(at);
  const row: VersionRow = {
    number,
    memory_id: id,
    version,
    text,
    object,
    size_bytes: size,
    about: JSON.stringify(about),
    labels: JSON.stringify(labels),
    recorded_ms: atMs,
    since_ms: sinceMs,
    ended_ms: null,
    valid_from_ms: toMs(about.valid_from),
    valid_to_ms: toMs(about.valid_to),
    author: entry.by,
    run: entry.run === undefined ? null : JSON.stringify(entry.run),
  };
  const names = Object.keys(row);
  await sql.run(
    `INSERT INTO versions (${names.join(', ')}) VALUES (${names.map(() => '?').join(', ')})`,
    ...Object.values(row),
  );
  for (const { kind, id: to, version: toVersion } of links)
    await sql.run(
      'INSERT OR IGNORE INTO links (from_id, from_version, kind, to_id, to_version) VALUES (?, ?, ?, ?, ?)',
      id,
      version,
      kind,
      to,
      toVersion,
    );
  if (sinceMs !== null) prepareIndex(step, { ...row, scope });
}

/** Past versions stay in the index, for recalls as of an earlier time. */
function prepareIndex({ deps, found }: Step, row: VersionRow & { scope: string }): void {
  const text = row.text ?? (row.object === null ? undefined : deps.readObject(row.object));
  if (text === undefined) return;
  const { caption, speaker, thread, seq, importance, occurred_at } = JSON.parse(
    row.about,
  ) as VersionContent['about'];
  found.push({
    number: row.number,
    scope: row.scope,
    text,
    recordedAtMs: row.recorded_ms,
    ...(caption === undefined ? {} : { caption }),
    ...(speaker === undefined ? {} : { speaker }),
    ...(thread === undefined ? {} : { thread }),
    ...(seq === undefined ? {} : { seq }),
    ...(importance === undefined ? {} : { importance }),
    ...(occurred_at === undefined ? {} : { occurredAtMs: Date.parse(occurred_at) }),
  });
}
