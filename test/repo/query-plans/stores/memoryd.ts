// Runs every statement of memoryd, through its operations.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type {
  JournalEntry,
  VersionContent,
} from '../../../../src/daemons/memoryd/journal/entry.ts';
import { openJournal } from '../../../../src/daemons/memoryd/journal/journal.ts';
import { makePublishProcedures } from '../../../../src/daemons/memoryd/procedures/publisher.ts';
import { makeRepository } from '../../../../src/daemons/memoryd/procedures/repository.ts';
import { makeChanges } from '../../../../src/daemons/memoryd/service/changes.ts';
import { makeCombine } from '../../../../src/daemons/memoryd/service/combine.ts';
import { makeEpisodeRetention } from '../../../../src/daemons/memoryd/service/episode-retention.ts';
import { makeEraseCopies } from '../../../../src/daemons/memoryd/service/erase-copies.ts';
import { makeFinder } from '../../../../src/daemons/memoryd/service/finder.ts';
import { findErasure, handOver } from '../../../../src/daemons/memoryd/service/hand-over.ts';
import { applyLaterForgets } from '../../../../src/daemons/memoryd/service/later-forgets.ts';
import { makeRecall } from '../../../../src/daemons/memoryd/service/recall.ts';
import { makeRemember } from '../../../../src/daemons/memoryd/service/remember.ts';
import type { Actor, Rights } from '../../../../src/daemons/memoryd/service/rights.ts';
import { makeMemorySnapshots } from '../../../../src/daemons/memoryd/service/snapshots.ts';
import { makeTexts } from '../../../../src/daemons/memoryd/service/texts.ts';
import { rebuild } from '../../../../src/daemons/memoryd/store/catch-up.ts';
import { type Draft, makeCommit } from '../../../../src/daemons/memoryd/store/commit.ts';
import { compactOldestDay } from '../../../../src/daemons/memoryd/store/compact.ts';
import { eraseForgotten } from '../../../../src/daemons/memoryd/store/erase.ts';
import { findOldTexts } from '../../../../src/daemons/memoryd/store/older-journal.ts';
import { listProposedIds } from '../../../../src/daemons/memoryd/store/read.ts';
import { MIGRATIONS } from '../../../../src/daemons/memoryd/store/schema.ts';
import { addVectors, removeVectors } from '../../../../src/daemons/memoryd/vectors/blocks.ts';
import {
  addDue,
  listDue,
  postpone,
  switchOff,
} from '../../../../src/daemons/memoryd/vectors/due.ts';
import type { Embedder } from '../../../../src/daemons/memoryd/vectors/embedder.ts';
import { makeEmbedQuestion } from '../../../../src/daemons/memoryd/vectors/question.ts';
import { makeVectors } from '../../../../src/daemons/memoryd/vectors/vectors.ts';
import { openBlobStore } from '../../../../src/platform/blob-store.ts';
import { manualClock } from '../../../../src/platform/clock.ts';
import { makeIdMaker, type NewId } from '../../../../src/platform/ids.ts';
import { silentLog } from '../../../../src/platform/log.ts';
import { openOutbox } from '../../../../src/platform/outbox.ts';
import type { Sql } from '../../../../src/platform/sql/database.ts';
import { openSqlite } from '../../../../src/platform/sql/sqlite.ts';
import type { PolicyDecision } from '../../../../src/policy/request.ts';
import { toForgottenMemory } from '../../../../src/wire/copies.ts';
import type {
  MemoryId,
  MemorySnapshotId,
  NewMemory,
} from '../../../../src/wire/memoryd/records.ts';
import type { ApprovalId, RunId, TaskId } from '../../../../src/wire/primitives.ts';
import { forEachOf, HISTORY, type StoreUse } from '../record.ts';

const LONG = { text: 'A very long story. '.repeat(300) };
const ALICE: Actor = { principal: 'person:alice', person: 'alice' };
const allowed = { answer: 'allow', rules: [], reason: '', version: 1 } satisfies PolicyDecision;

async function openStore(file: string, dir: string) {
  const clock = manualClock(Date.parse('2026-01-01T00:00:00Z'));
  const journal = openJournal({ dir, log: silentLog });
  const db = openSqlite({
    file,
    migrations: MIGRATIONS,
    journal: { ...journal, append: (items) => journal.append(items as JournalEntry[]) },
  });
  const append = async () => {};
  const outbox = await openOutbox({ db, source: 'memoryd', clock, append, log: silentLog });
  const objects = await openBlobStore({ dir: join(dir, 'objects') });
  const texts = makeTexts({ objects, textBytesMax: 1_000_000 });
  const own = {
    db,
    journal,
    outbox,
    clock,
    log: silentLog,
    gate: { isOpen: true },
    newId: makeIdMaker(clock),
    failpoint: () => {},
    readObject: texts.loadNow,
    onProcedure: () => {},
    onIndexed: async (sql: Sql, numbers: readonly number[]) => {
      await addDue(sql, numbers);
    },
  };
  const rights: Rights = {
    decide: async () => allowed,
    canRead: async () => true,
    deny: async () => new Error('denied') as never,
  };
  const finder = makeFinder({ db, rights, texts });
  const parts = {
    ...own,
    commit: makeCommit({ ...own, onProposed: () => {} }),
    onForgotten: () => {},
    rights,
    finder,
    texts,
    onExpirySet: () => {},
    erase: () => eraseForgotten({ ...own, objects }),
  };
  const remember = makeRemember({ ...parts, lifetimesS: {} });
  const compact = (nowMs: number) => compactOldestDay({ ...own, journalDir: dir, objects }, nowMs);
  return {
    ...parts,
    episodes: makeEpisodeRetention({ ...parts, compact }),
    remember,
    recall: makeRecall({ ...parts, embedQuestion: makeEmbedQuestion(embedder) }),
    changes: makeChanges(parts),
    combine: makeCombine(parts),
    snapshots: makeMemorySnapshots(parts),
  };
}

const embedder: Embedder = {
  name: 'plan-embed',
  embed: async ({ texts }) => ({
    model: 'plan-embed-1',
    isRehearsal: false,
    vectors: texts.map(() => Float32Array.of(1, 0)),
  }),
};

/** Vectors of all that is due, and again under another name of the model. */
async function useVectors(store: Awaited<ReturnType<typeof openStore>>): Promise<void> {
  const { db, clock } = store;
  const [first] = await db.read((sql) => listDue(sql, clock.nowMs(), 1));
  await db.write((sql) => postpone(sql, [first!.number], { untilMs: null, refused: 'budget' }));
  for (const name of ['plan-embed', 'other-embed', undefined]) {
    const named = name === undefined ? undefined : { ...embedder, name };
    const vectors = makeVectors({ ...store, embedder: named });
    vectors.begin();
    if (name !== undefined)
      while ((await db.read((sql) => listDue(sql, clock.nowMs(), 1))).length > 0)
        await new Promise((resolve) => setTimeout(resolve, 10));
    await vectors.stop();
  }
  await db.write(async (sql) => {
    const number = Number.MAX_SAFE_INTEGER;
    const alone = { number, vector: Float32Array.of(0, 1) };
    await addVectors(sql, { scope: 'agent:alone', model: 'plan-embed-1' }, [alone]);
    await removeVectors(sql, [number]);
    await switchOff(sql);
  });
}

const BY_ALICE = { op: 'remember', by: ALICE.principal } as const;
const content: VersionContent = { text: 'A stork.', size: 8, about: {}, labels: ['person'] };

/** Every change that an entry can have. */
function changeAll(id: MemoryId, newId: NewId): Draft {
  const proposed = newId<MemoryId>('memory');
  const at = { class: 'semantic', scope: 'team', status: 'proposed' } as const;
  return {
    ...BY_ALICE,
    changes: [
      { do: 'add', id: proposed, ...at, content },
      { do: 'accept', id: proposed },
      { do: 'revise', id, content },
      { do: 'expire-at', id, at: '2026-02-01T00:00:00Z' },
      { do: 'end', id, status: 'merged' },
      { do: 'snapshot', id: newId<MemorySnapshotId>('memsnap'), name: 'x', scope: 'project:app' },
      { do: 'forget', id },
    ],
  };
}

/** Episodes as agentd has them kept, and their pruning. */
async function useRetention(store: Awaited<ReturnType<typeof openStore>>): Promise<void> {
  const { commit, newId, episodes } = store;
  const tree = newId<TaskId>('task');
  const run = { run_id: newId<RunId>('run'), task_id: tree, root_task_id: tree };
  await forEachOf(4 * HISTORY, async (n) => {
    const scope = `project:app/${n % 100}`;
    const at = { class: 'episodic', scope, status: 'active' } as const;
    const id = newId<MemoryId>('memory');
    const long = { ...content, text: undefined, object: 'a'.repeat(64) };
    const add = { do: 'add', id, ...at, content: n % 10 === 0 ? long : content } as const;
    const entry = { op: 'remember', by: 'service:agentd', changes: [add] } as const;
    const once = { scope: 'episode', key: `e${n}`, requestHash: 'h' };
    await commit(async () => ({ ...entry, changes: [...entry.changes], run }), once);
  });
  const page = { recordedBeforeMs: Date.parse('2027-01-01T00:00:00Z'), after: '', limit: 50 };
  await episodes.list({ ...page, rootTaskId: tree });
  await episodes.list({ ...page, scope: 'project:app/1' });
  await episodes.listFullScopes(3);
  await episodes.sizes();
  const old = await episodes.list(page);
  const [edited] = old;
  await store.changes.edit(ALICE, edited!.id, { text: 'Otherwise.' });
  const ids = old.map(({ id }) => id);
  await episodes.prune(ids, { by: 'service:agentd', cause: 'they are old' });
  for (const days of [1, 40]) {
    store.clock.advance(days * 86_400_000);
    await store.remember(ALICE, [{ class: 'semantic', scope: 'team', text: 'Days after.' }]);
    while (await episodes.compact());
  }
}

async function use(file: string): Promise<void> {
  const dir = mkdtempSync(join(tmpdir(), 'query-plans-memory-'));
  const store = await openStore(file, dir);
  const { remember, recall, finder, commit, newId, db, journal, outbox } = store;
  const memory = (n: number, more: Partial<NewMemory> = {}): NewMemory => ({
    class: 'episodic',
    scope: `project:app/${n % 100}`,
    text: `Number ${n} is a heron, and so is Ann.`,
    speaker: 'Ann',
    thread: `thread ${n >> 2}`,
    seq: n,
    ...more,
  });
  await forEachOf(4 * HISTORY, async (n) => {
    const once = { scope: 's', key: `k${n}`, requestHash: 'h' };
    const [id] = await remember(ALICE, [memory(n)], { once });
    await remember(ALICE, [memory(n)], { once });
    const supersedes = [id as MemoryId];
    await remember(ALICE, [memory(n, { supersedes })]);
    await finder.view(ALICE, id!);
    await commit(async () => changeAll(id as MemoryId, newId));
  });
  await forEachOf(4 * HISTORY, (n) => remember(ALICE, [memory(100 * n)]));
  const alone = { scope: 'agent:alone', thread: 'alone' };
  const [kept] = await remember(ALICE, [memory(0, alone)]);
  await commit(async () => ({ ...BY_ALICE, changes: [{ do: 'forget', id: kept as MemoryId }] }));
  await commit(async () => ({ ...BY_ALICE, changes: [{ do: 'forget', id: kept as MemoryId }] }));
  for (const query of ['heron 7', 'What did Ann say?', 'When?', 'yesterday'])
    for (const scopes of [undefined, ['project:app/1'], ['project']])
      await recall(ALICE, { query, scopes, limit: 5 });
  const { changes, combine, snapshots } = store;
  await forEachOf(HISTORY, async (n) => {
    const [proposed] = await remember(ALICE, [memory(n)], { proposes: true });
    await db.read(listProposedIds);
    const decision = { approvalId: 'approval_x' as ApprovalId, by: ALICE.principal };
    await changes.accept(proposed as MemoryId, { ...decision, version: 1 });
    const ids = [proposed!];
    await combine(ALICE, 'summarize', { ids, text: 'Herons.' });
    await finder.history(ALICE, proposed!);
    await finder.list(ALICE, { scopes: ['project:app'], before: undefined, limit: 5 });
    const { id } = await snapshots.take(ALICE, { scope: `project:app/${n % 100}` });
    await snapshots.list(ALICE, { before: undefined, limit: 5 });
    await changes.expire(ALICE, ids, '2026-01-02T00:00:00Z');
    await snapshots.rollBackTo(ALICE, id);
  });
  const many = await remember(
    ALICE,
    Array.from({ length: HISTORY }, (_, n) => memory(n, LONG)),
  );
  await changes.forget(ALICE, many);
  await remember(ALICE, [memory(1, { text: `${LONG.text} and more` })]);
  await useRetention(store);
  await changes.expireDue(Date.parse('2026-01-03T00:00:00Z'), db);
  const agentd = { startErasure: async () => ({ accepted: 1 }), getErasure: undefined as never };
  await handOver({ ...store, agentd, log: silentLog });
  await findErasure({ ...store, agentd, log: silentLog }, 'memory_1').catch(() => undefined);
  const eraseCopies = makeEraseCopies({ ...store, seal: async () => {} });
  await eraseCopies({ forgotten: [toForgottenMemory(kept!, ['number 7 is a heron'])] });
  await findOldTexts(store);
  const [gone] = await remember(ALICE, [memory(2)]);
  const page = { events: [{ id: `${gone}.1` }], next: null };
  await applyLaterForgets({ ...store, listForgotten: async () => page });
  await useVectors(store);
  await recall(ALICE, { query: 'heron 7', limit: 5 });
  await rebuild(store);
  await forEachOf(4 * HISTORY, (n) => remember(ALICE, [memory(n, { class: 'procedural' })]));
  const repository = makeRepository(join(dir, 'procedures'));
  await makePublishProcedures({ ...store, repository })();
  outbox.stop();
  await db.close();
  journal.close();
  rmSync(dir, { recursive: true });
}

export const memoryd: StoreUse = {
  daemon: 'memoryd',
  smallTables: {
    outbox: 'delivered events are deleted',
    outbox_store: 'one row',
    progress: 'one row',
    procedures: 'one row',
    erasures: 'removed when the texts are',
    pruned: 'those of about two days',
    compactions: 'one row per day that has something to remove',
    dropped_objects: 'removed with the objects',
    copies_due: 'removed as soon as agentd has them',
    scopes: 'one row per scope',
    embedder: 'one row',
  },
  use,
};
