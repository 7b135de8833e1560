// Creates a state directory of the first release with many ended tasks: copies of the ended task in
// the state that tests use, with its rows, texts and events, in the tables of that release.
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { sha256Hex } from '../../src/platform/json.ts';
import { OLD, writeFirstRelease } from '../../test/support/first-release.ts';
import { openEvents } from './events.ts';
import { openRows, type RowCopier, type TableRow } from './rows.ts';
import { type Copy, type CopyTemplate, makeCopies, makeTextTemplate } from './template.ts';

const TABLES = {
  agentd: ['tasks', 'runs', 'inbox_steps', 'artifacts', 'once'],
  toold: ['runs', 'calls'],
  modeld: ['runs', 'model_calls', 'parts', 'budget_spent'],
};
/** The tasks are spread over this time before now. */
const SPAN_MS = 20 * 86_400_000;
const GOAL = 'Hello';
const UUID = /^[0-9a-f]{8}-[0-9a-f-]{27}$/;

/** Resolves with the ids of the copies. */
export async function fillFirstRelease(stateDir: string, copies: number): Promise<string[]> {
  await writeFirstRelease(stateDir, Number.POSITIVE_INFINITY);
  const isOwn = readOwnIds(stateDir);
  const isWanted = (ids: readonly string[]) => ids.length > 0 && ids.every(isOwn);
  const parts = readParts(stateDir);
  const rows = new Map<string, RowCopier>(
    Object.entries(TABLES).map(([daemon, tables]) => [
      daemon,
      openRows(join(stateDir, `${daemon}.sqlite`), daemon, { tables, isWanted, edit }),
    ]),
  );
  // The index of the first release can no longer be used, so its contents do not matter.
  const events = await openEvents(stateDir, { isWanted, hasIndex: false });
  const nextCopy = makeCopies([...[...rows.values()].flatMap(({ ids }) => ids), ...events.ids]);
  const nowMs = Date.now();
  const taskIds: string[] = [];
  for (let n = 0; n < copies; n++) {
    const bare = nextCopy(nowMs, Math.round(-SPAN_MS * (1 - n / copies)));
    const copy: Copy = { ...bare, ids: new Map([...bare.ids, ...hashParts(parts, bare)]) };
    for (const store of rows.values()) store.add(copy);
    await events.add(copy);
    taskIds.push(copy.ids.get(OLD.hello)!);
  }
  const last = await events.finish();
  for (const [daemon, store] of rows) store.finish(copies, last.get(daemon)!);
  return taskIds;
}

/** Gives the task texts and keys of its own, which real tasks have and which are copied then. */
function edit(row: TableRow): TableRow {
  const texts = Object.entries(row).map(([name, value]) => {
    if (typeof value !== 'string') return [name, value];
    const text = value.replaceAll(GOAL, `${GOAL} ${OLD.hello}`);
    return [name, UUID.test(text) ? `key_${OLD.hello.slice(-26)}` : text];
  });
  return Object.fromEntries(texts) as TableRow;
}

/** Returns a function that says whether an id belongs to the task. */
function readOwnIds(stateDir: string): (id: string) => boolean {
  const db = new DatabaseSync(join(stateDir, 'agentd.sqlite'), { readOnly: true });
  const row = db
    .prepare('SELECT r.id, context_id FROM runs r JOIN tasks t ON t.id = task_id WHERE t.id = ?')
    .get(OLD.hello) as { id: string; context_id: string };
  db.close();
  const own = new Set([OLD.hello, OLD.artifact, row.context_id, `key_${OLD.hello.slice(-26)}`]);
  // Ids of calls end as their run's does.
  return (id) => own.has(id) || id.endsWith(row.id.slice(-20));
}

type Part = { hash: string; body: CopyTemplate<string> };

/** Texts that no other task has. */
function readParts(stateDir: string): Part[] {
  const db = new DatabaseSync(join(stateDir, 'modeld.sqlite'), { readOnly: true });
  const rows = db.prepare('SELECT hash, body FROM parts').all() as TableRow[];
  db.close();
  return rows
    .map((row) => ({ hash: String(row.hash), text: String(edit(row).body) }))
    .filter(({ text }) => text.includes(OLD.hello) || text.includes(OLD.artifact))
    .map(({ hash, text }) => ({ hash, body: makeTextTemplate(text) }));
}

const hashParts = (parts: readonly Part[], copy: Copy): [string, string][] =>
  parts.map(({ hash, body }) => [hash, sha256Hex(body(copy))]);
