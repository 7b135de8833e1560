// Keeps vectors of the versions in the index, made in the background: no write waits for them, and
// no answer depends on them. Without an embedder there are none.
import type { Clock } from '../../../platform/clock.ts';
import { isFault } from '../../../platform/daemon.ts';
import type { Log } from '../../../platform/log.ts';
import type { Database, Sql } from '../../../platform/sql/database.ts';
import { makeWakeLoop } from '../../../platform/wake-loop.ts';
import { Fault, type FaultCode } from '../../../wire/errors.ts';
import type { MemoryId } from '../../../wire/memoryd/records.ts';
import type { EntryRun } from '../journal/entry.ts';
import { readAbout, readLabels } from '../rules/view.ts';
import type { TablesGate } from '../store/commit.ts';
import {
  addDue,
  addMissing,
  type DueVersion,
  findModelToComplete,
  findNextDueMs,
  inPages,
  listDue,
  noteModel,
  postpone,
  retryRefused,
  setWhole,
  storeVectors,
  switchOff,
} from './due.ts';
import type { Embedder, VectorOrder } from './embedder.ts';

/** Sent together. */
const TEXTS_MAX = 32;
/** Models read some thousand tokens; the beginning says what a text is about. */
const CHARS_MAX = 6_000;
const DEADLINE_MS = 30_000;
const BACKOFF_MS = { min: 1_000, max: 60_000 };
const REBUILD_DELAY_MS = 1_000;
/** These concern all texts of an order. */
const OF_ALL: readonly FaultCode[] = ['budget', 'data_not_allowed'];
/** An operator, or a restart, may change these at any time. */
const TRANSIENT: readonly FaultCode[] = [
  'not_found',
  'provider_auth',
  'stopping',
  'canceled',
  'internal',
];

export type Vectors = {
  /** In the transaction that puts versions into the index. */
  onIndexed(sql: Sql, numbers: readonly number[]): Promise<void>;
  begin(): void;
  stop(): Promise<void>;
};

export type VectorsDeps = {
  db: Database;
  embedder: Embedder | undefined;
  texts: { loadNow(hash: string): string | undefined };
  gate: TablesGate;
  clock: Clock;
  log: Log;
  failpoint(name: string): void;
};

export function makeVectors(deps: VectorsDeps): Vectors {
  const { db, embedder, clock, log } = deps;
  if (embedder === undefined)
    return {
      onIndexed: async () => {},
      begin: () => void db.write(switchOff).catch((error: unknown) => log.warn(OFF, { error })),
      stop: async () => {},
    };
  const ended = new AbortController();
  let isOpen = false;
  let isComplete = false;
  const loop = makeWakeLoop({
    clock,
    async work() {
      if (!isComplete) await beginWith(db, embedder);
      isComplete = true;
      return makeDue({ ...deps, embedder, signal: ended.signal });
    },
    backoffMs: BACKOFF_MS,
    onError: (error) =>
      log.warn('vectors of memories cannot be made now; recall goes by words', { error }),
  });
  return {
    async onIndexed(sql, numbers) {
      await addDue(sql, numbers);
      // Before the start is done, the other daemons are not there.
      sql.afterCommit!(() => void (isOpen && loop.wake()));
    },
    begin() {
      isOpen = true;
      loop.wake();
    },
    async stop() {
      ended.abort();
      await loop.stop();
    },
  };
}

const OFF = 'noting that memories get no vectors any more failed';

/** Finds what was written without an embedder, or with another one. */
async function beginWith(db: Database, { name }: Embedder): Promise<void> {
  const model = await db.read((sql) => findModelToComplete(sql, name));
  if (model !== undefined) await complete(db, model);
  await db.write((sql) => setWhole(sql, name));
  await inPages(db, retryRefused);
}

const complete = (db: Database, model: string): Promise<void> =>
  inPages(db, (sql, after) => addMissing(sql, model, after));

type Work = VectorsDeps & { embedder: Embedder; signal: AbortSignal };

/** Resolves to when more is due. */
async function makeDue(work: Work): Promise<number | undefined> {
  const { db, gate, clock, signal } = work;
  while (!signal.aborted) {
    if (!gate.isOpen) return clock.nowMs() + REBUILD_DELAY_MS;
    const due = await db.read((sql) => listDue(sql, clock.nowMs(), TEXTS_MAX));
    if (due.length === 0) return db.read(findNextDueMs);
    const first = orderKey(due[0]!);
    await make(
      work,
      due.filter((version) => orderKey(version) === first),
    );
  }
  return undefined;
}

const readRunId = ({ run }: DueVersion) => (JSON.parse(run ?? '{}') as Partial<EntryRun>).run_id;

/** Who pays and who may see it, are the same for all texts of an order. */
const orderKey = (version: DueVersion): string =>
  JSON.stringify([version.author, readRunId(version) ?? '', version.labels]);

async function make(work: Work, versions: readonly DueVersion[]): Promise<void> {
  const { db, embedder, signal, failpoint } = work;
  failpoint('memoryd.before-embed');
  try {
    const order = toOrder(work, versions);
    const made = await embedder.embed(order, { deadlineMs: DEADLINE_MS, signal });
    failpoint('memoryd.after-embed');
    const isOther = await db.write(async (sql) => {
      await storeVectors(sql, versions, made);
      return noteModel(sql, made.model);
    });
    if (isOther) await complete(db, made.model);
  } catch (error) {
    if (!isRefusal(error)) throw error;
    if (versions.length > 1 && !OF_ALL.includes(error.code))
      for (const version of versions) await make(work, [version]);
    else await refuse(work, versions, error);
  }
}

const isRefusal = (error: unknown): error is Fault =>
  error instanceof Fault && !error.retry && !TRANSIENT.includes(error.code);

/** A budget of a day or month is tried again when it renews. */
async function refuse(
  { db, log, embedder }: Work,
  versions: readonly DueVersion[],
  error: Fault,
): Promise<void> {
  const renewsAt = isFault(error, 'budget') ? error.details?.renews_at : undefined;
  const untilMs = typeof renewsAt === 'string' ? Date.parse(renewsAt) : null;
  const numbers = versions.map(({ number }) => number);
  await db.write((sql) => postpone(sql, numbers, { untilMs, refused: error.code }));
  const memories = versions.map(({ memory_id }) => memory_id).join(' ');
  log.info('memories stay without vectors', { model: embedder.name, memories, error });
}

function toOrder({ texts }: Work, versions: readonly DueVersion[]): VectorOrder {
  const first = versions[0]!;
  return {
    texts: versions.map((version) => ({
      text: describe(version, texts),
      memory: { id: version.memory_id as MemoryId, version: Number(version.version) },
    })),
    labels: readLabels(first),
    principal: first.author,
    runId: readRunId(first),
  };
}

function describe(version: DueVersion, texts: VectorsDeps['texts']): string {
  const { speaker, caption } = readAbout(version);
  const text = version.text ?? (version.object === null ? '' : texts.loadNow(version.object)) ?? '';
  const said = speaker === undefined ? text : `${speaker}: ${text}`;
  return (caption === undefined ? said : `${said}\n${caption}`).slice(0, CHARS_MAX);
}
