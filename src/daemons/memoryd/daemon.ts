// Wires memoryd together: the journal, the tables made from it, and the operations on both.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { openBlobStore } from '../../platform/blob-store.ts';
import { makeSeal } from '../../platform/copies/seal.ts';
import { type DaemonContext, type DaemonHandle, defineDaemon } from '../../platform/daemon.ts';
import { makeMutex } from '../../platform/mutex.ts';
import { openOutbox } from '../../platform/outbox.ts';
import { openPersonKeys } from '../../platform/person-keys.ts';
import { openSqlite } from '../../platform/sql/sqlite.ts';
import { makePrivateDir } from '../../platform/state-dir.ts';
import { makeWakeLoop } from '../../platform/wake-loop.ts';
import { auditRefusals } from '../../policy/refusals.ts';
import { openPolicySource } from '../../policy/source.ts';
import { agentdRoutes } from '../../wire/agentd.ts';
import { approvaldRoutes } from '../../wire/approvald.ts';
import { auditRoutes } from '../../wire/auditd-ai.ts';
import type { NewEvent } from '../../wire/events.ts';
import { memorydRoutes } from '../../wire/memoryd.ts';
import { modeldRoutes } from '../../wire/modeld.ts';
import { makeHandlers } from './api.ts';
import { type MemorydConfig, memorydConfig } from './config.ts';
import type { JournalEntry } from './journal/entry.ts';
import { openJournal } from './journal/journal.ts';
import { openProcedures } from './procedures/procedures.ts';
import { makeRecallForBriefing } from './service/briefing.ts';
import { makeChanges } from './service/changes.ts';
import { makeCombine } from './service/combine.ts';
import { makeEpisodeRetention } from './service/episode-retention.ts';
import { makeKeepEpisode } from './service/episodes.ts';
import { makeEraseCopies } from './service/erase-copies.ts';
import { makeFinder } from './service/finder.ts';
import { findErasure, handOver } from './service/hand-over.ts';
import { makeReadInputs } from './service/inputs.ts';
import { applyLaterForgets, type ListForgotten } from './service/later-forgets.ts';
import { makeFindOwner } from './service/owner.ts';
import { makeProposalReviews } from './service/proposal-review.ts';
import { makeProposals } from './service/proposals.ts';
import { makeRebuild, refuseWhileClosed } from './service/rebuild.ts';
import { makeRecall, makeRecordRecall } from './service/recall.ts';
import { makeRemember } from './service/remember.ts';
import { makeRights } from './service/rights.ts';
import { makeMemorySnapshots } from './service/snapshots.ts';
import { makeTexts } from './service/texts.ts';
import { catchUp } from './store/catch-up.ts';
import { makeCommit, type TablesGate } from './store/commit.ts';
import { compactOldestDay } from './store/compact.ts';
import { eraseForgotten } from './store/erase.ts';
import { findOldTexts } from './store/older-journal.ts';
import { ID_COLUMNS, MIGRATIONS } from './store/schema.ts';
import { makeModelEmbedder } from './vectors/embedder.ts';
import { makeEmbedQuestion } from './vectors/question.ts';
import { makeVectors } from './vectors/vectors.ts';

const AUDIT_WAIT_MS = 2_000;
const PROPOSAL_BACKOFF_MS = { min: 200, max: 30_000 };
const HAND_OVER_BACKOFF_MS = { min: 100, max: 10_000 };
const EXPIRY_BACKOFF_MS = { min: 1_000, max: 60_000 };

async function start(
  context: DaemonContext<MemorydConfig>,
): Promise<DaemonHandle<typeof memorydRoutes>> {
  const { clock, config, log, stateDir, newId, failpoint } = context;
  const dir = makePrivateDir(join(stateDir, 'memory'));
  const objects = await openBlobStore({ dir: join(dir, 'objects') });
  const journalDir = makePrivateDir(join(dir, 'journals'));
  const journal = openJournal({ dir: journalDir, log });
  const file = join(stateDir, 'memoryd.sqlite');
  const isNew = !existsSync(file);
  const db = openSqlite({
    file,
    migrations: MIGRATIONS,
    log,
    journal: {
      append(items) {
        failpoint('memoryd.before-append');
        journal.append(items as readonly JournalEntry[]);
        failpoint('memoryd.after-append');
      },
      takeBack: journal.takeBack,
    },
  });
  const audit = context.peer('auditd-ai', auditRoutes);
  const append = (events: NewEvent[]) => audit.append({ body: { events } });
  const outbox = await openOutbox({ db, source: 'memoryd', clock, append, log });
  const texts = makeTexts({ objects, textBytesMax: config.text_bytes_max });
  const gate: TablesGate = { isOpen: true };
  const procedures = openProcedures({
    dir: join(dir, 'procedures'),
    db,
    texts,
    gate,
    clock,
    log,
    failpoint,
  });
  const embedder =
    config.embedding_model === undefined
      ? undefined
      : makeModelEmbedder(config.embedding_model, context.peer('modeld', modeldRoutes));
  const vectors = makeVectors({ db, embedder, texts, gate, clock, log, failpoint });
  const own = {
    db,
    onIndexed: vectors.onIndexed,
    onProcedure: procedures.onProcedure,
    journal,
    outbox,
    log,
    clock,
    newId,
    failpoint,
    gate,
    readObject: texts.loadNow,
  };
  const onOpen = () => proposalLoop.wake();
  const commit = makeCommit({ ...own, onProposed: onOpen });
  const listForgotten: ListForgotten = (before) =>
    audit.forgotten({ query: before === undefined ? {} : { before } });
  // Before any route is served: an operation that the journal has is done, and what was forgotten
  // is not back.
  try {
    const { isBehind } = await catchUp(own, isNew);
    if (isBehind) await findOldTexts(own);
    await applyLaterForgets({ ...own, commit, listForgotten });
  } catch (error) {
    outbox.stop();
    await db.close();
    journal.close();
    throw error;
  }
  const policy = openPolicySource({
    file: join(stateDir, 'policy', 'bundle.json'),
    log,
    clock,
    onRefused: auditRefusals({ daemon: 'memoryd', db, outbox, newId, log }),
  });
  const agentd = context.peer('agentd', agentdRoutes);
  const people = openPersonKeys(join(stateDir, 'people'));
  const rights = makeRights({ ...own, policy, findOwner: makeFindOwner({ agentd, people }) });
  const expiry = makeWakeLoop({
    clock,
    work: () => changes.expireDue(clock.nowMs(), db),
    backoffMs: EXPIRY_BACKOFF_MS,
    onError: (error) => log.warn('expiring memories failed; retrying', { error }),
  });
  const approvald = context.peer('approvald', approvaldRoutes);
  const proposalLoop = makeWakeLoop({
    clock,
    work: () => proposals.requestAll(),
    backoffMs: PROPOSAL_BACKOFF_MS,
    onError: (error) => log.warn('requesting approvals of proposals failed; retrying', { error }),
  });
  const finder = makeFinder({ db, rights, texts });
  const onExpirySet = () => expiry.wake();
  const parts = { ...own, commit, rights, finder, texts, onExpirySet };
  const remember = makeRemember({ ...parts, lifetimesS: config.expires_s_for });
  const recall = makeRecall({ ...parts, embedQuestion: makeEmbedQuestion(embedder) });
  /** Files of the journal are rewritten by one at a time, and not while they are read. */
  const filesLock = makeMutex();
  const eraseOwn = () =>
    filesLock(async () => {
      await eraseForgotten({ ...own, objects });
      await procedures.publish();
    });
  const compact = (nowMs: number) =>
    filesLock(() => compactOldestDay({ ...own, journalDir, objects }, nowMs));
  const episodes = makeEpisodeRetention({ ...own, commit, compact });
  const handOverLock = makeMutex();
  const handOverDue = () => handOverLock(() => handOver({ ...own, agentd }));
  const handingOver = makeWakeLoop({
    clock,
    async work() {
      await handOverDue();
      return undefined;
    },
    backoffMs: HAND_OVER_BACKOFF_MS,
    onError: (error) =>
      log.warn('agentd does not remove copies of forgotten memories yet; retrying', { error }),
  });
  const erase = async (): Promise<void> => {
    await eraseOwn();
    await handOverDue().catch(() => handingOver.wake());
  };
  const onForgotten = (ids: readonly string[]) => proposals.withdraw(ids);
  const changes = makeChanges({ ...parts, erase, onForgotten });
  const proposals = makeProposals({ ...parts, approvald, changes, onOpen });
  const reviews = makeProposalReviews({ finder, rights, changes, people });
  const seal = makeSeal({ db, log });
  const eraseCopies = makeEraseCopies({ ...parts, erase: eraseOwn, onForgotten, seal });
  const combine = makeCombine(parts);
  const snapshots = makeMemorySnapshots(parts);
  const recallForBriefing = makeRecallForBriefing({ recall, finder });
  const keepEpisode = makeKeepEpisode({ ...parts, lifetimesS: config.expires_s_for });
  const readInputs = makeReadInputs({ finder, rights, recordRecall: makeRecordRecall(own) });
  const forAgentd = { readInputs, recallForBriefing, keepEpisode, episodes, eraseCopies };
  const forPeople = { remember, recall, finder, changes, combine, snapshots };
  const service = { ...forPeople, ...forAgentd, proposals, reviews };

  return {
    handlers: refuseWhileClosed(
      gate,
      makeHandlers({
        ...service,
        rebuild: makeRebuild({ ...own, filesLock, publishProcedures: procedures.publish }),
        findErasure: (id) => findErasure({ db, agentd, log }, id),
      }),
    ),
    database: db,
    ids: { db, columns: ID_COLUMNS },
    async begin() {
      // A full disk must not keep the runtime down; the next forget or start tries again.
      await eraseOwn().catch((error: unknown) =>
        log.warn('removing the texts of forgotten memories failed', { error }),
      );
      handingOver.wake();
      expiry.wake();
      proposalLoop.wake();
      procedures.begin();
      vectors.begin();
    },
    async stop() {
      policy.close();
      const loops = [expiry, proposalLoop, procedures, handingOver, vectors];
      await Promise.all(loops.map((loop) => loop.stop()));
      await outbox.drain(AUDIT_WAIT_MS);
      outbox.stop();
      await db.close();
      journal.close();
    },
  };
}

export const memoryd = defineDaemon({
  name: 'memoryd',
  routes: memorydRoutes,
  config: memorydConfig,
  start,
});
