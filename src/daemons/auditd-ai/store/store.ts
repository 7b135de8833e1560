// Indexes the log by task, agent, tool, run, kind and id. The index is derived from the log, covers
// all of it, and is rebuilt when it is missing, damaged or belongs to another log. The newest
// events are kept in memory and written to the tables part full tail at a time.
import { rmSync } from 'node:fs';
import { setImmediate } from 'node:timers/promises';
import type { Log } from '../../../platform/log.ts';
import type { SnapshotSource } from '../../../platform/snapshots.ts';
import type { Sql } from '../../../platform/sql/database.ts';
import { openSqlite, type SqliteDatabase } from '../../../platform/sql/sqlite.ts';
import { type Fault, fault } from '../../../wire/errors.ts';
import type { AuditEvent, NewEvent } from '../../../wire/events.ts';
import type { AuditLog } from '../log/log.ts';
import { formatOrigin } from '../rules.ts';
import {
  collectSeqs,
  findIdSeqs,
  findSeqs,
  MIGRATIONS,
  readHead,
  readSources,
  writeTail,
} from './tables.ts';
import { hashId, TAIL_EVENTS_MAX, Tail, type TailFilter } from './tail.ts';

export type { TailFilter };
export type SeqQuery = {
  where: TailFilter[];
  after?: number | undefined;
  before?: number | undefined;
  order: 'asc' | 'desc';
  limit: number;
};

export type AuditIndex = {
  readonly database: SnapshotSource;
  /** Returns the seqs of matching events among all durable ones, the archived ones too. */
  find(query: SeqQuery): Promise<number[]>;
  /** Returns the seq of the event with this id, unless it is archived. */
  findId(id: string): Promise<number | undefined>;
  /** Returns the archived events that may have this id: only the hashes of their ids are here. */
  findArchivedId(id: string): Promise<number[]>;
  /** Yields candidate seqs for these ids, newest first: no miss, few false positives. */
  findIds(ids: readonly string[]): AsyncGenerator<number[]>;
  /** Returns the highest source number of each origin, never lower than in the log. */
  readHighWaterMarks(): Promise<Map<string, number>>;
  /** Indexes durable events; `firstSeq` is the seq of the first. */
  add(firstSeq: number, events: readonly NewEvent[]): void;
  /** Writes what is in memory to the tables: archived events cannot be indexed again. */
  flush(): Promise<void>;
  close(): Promise<void>;
};

/** Full tails kept while writing fails; beyond it they are dropped and read from the log later. */
const FULL_TAILS_MAX = 64;

type OpenIndexResult = { db: SqliteDatabase; next: number };

export async function openIndex(options: {
  file: string;
  log: AuditLog;
  logger: Log;
}): Promise<AuditIndex> {
  const { file, log, logger } = options;
  let { db, next } = await openOrReset(file, log, logger);
  /** `full` and `tail` cover the events from `next` up to, but not including, `end`. */
  let full: Tail[] = [];
  let tail = new Tail(next);
  const end = (): number => tail.first + tail.count;
  let lastWork: Promise<unknown> = Promise.resolve();

  /** Serializes writing tails, catching up and rebuilding. */
  const withLock = (work: () => Promise<void>): Promise<void> => {
    const done = lastWork.then(work);
    lastWork = done.catch(() => undefined);
    return done;
  };
  const addToTail = (event: NewEvent): void => {
    tail.add(event);
    if (!tail.isFull) return;
    full.push(tail);
    tail = new Tail(end());
  };
  const endTail = (): void => {
    if (tail.count > 0) full.push(tail);
    tail = new Tail(end());
  };
  const restartAt = (size: number): void => {
    next = size;
    full = [];
    tail = new Tail(size);
  };
  const writeFull = async (): Promise<void> => {
    while (full.length > 0) {
      const oldest = full[0]!;
      const size = oldest.first + oldest.count;
      const root = log.rootAt(size).toString('hex');
      await db.write((sql) => writeTail(sql, oldest, { size, root }));
      next = size;
      full.shift();
    }
  };
  /** Keeps full tails in memory, up to a limit, while they cannot be written. */
  const writeOrKeep = async (): Promise<void> => {
    try {
      await writeFull();
    } catch (error) {
      const isOverLimit = full.length > FULL_TAILS_MAX;
      if (isOverLimit) restartAt(next);
      if (isOverLimit || isBroken(error)) throw error;
      logger.warn('writing the index failed; retrying later', { error });
    }
  };
  const catchUp = async (): Promise<void> => {
    if (end() < log.firstSeq) {
      const lost = { from: end(), to: log.firstSeq - 1 };
      logger.warn('archived events are not in the index and cannot be found by it', lost);
      restartAt(log.firstSeq);
    }
    while (end() < log.size) {
      const lines = log.readRange(end(), TAIL_EVENTS_MAX);
      if (lines.length === 0) return;
      for (const line of lines) addToTail(JSON.parse(line) as AuditEvent);
      await writeOrKeep();
    }
  };
  /** Handles damage that opening did not find. Does nothing if `broken` was already replaced. */
  const rebuild = async (broken: SqliteDatabase, error: unknown): Promise<void> => {
    if (db !== broken) return;
    logger.warn('index damaged; rebuilding it from the log', { error });
    await broken.close();
    db = await reset(file);
    restartAt(0);
    await catchUp();
  };
  const withRepair = (work: () => Promise<void>): Promise<void> =>
    withLock(async () => {
      const current = db;
      try {
        await work();
      } catch (error) {
        if (!isBroken(error)) throw error;
        await rebuild(current, error);
      }
    });
  const catchUpWithRepair = (): Promise<void> => withRepair(catchUp);
  const logFailure = (work: Promise<void>): Promise<void> =>
    work.catch((error: unknown) =>
      logger.warn('updating the index failed; it catches up later', { error }),
    );
  const read = async <T>(work: (sql: Sql, tails: readonly Tail[]) => Promise<T>): Promise<T> => {
    const attempt = async (): Promise<T> => {
      if (end() < log.size) await catchUpWithRepair();
      // A snapshot: tails that are written meanwhile are still searched in memory.
      const tails = [...full, tail];
      return db.read((sql) => work(sql, tails));
    };
    const current = db;
    try {
      return await attempt();
    } catch (error) {
      if (!isBroken(error)) throw error;
      await withLock(() => rebuild(current, error));
      return attempt();
    }
  };
  async function* findIds(ids: readonly string[]): AsyncGenerator<number[]> {
    const hashes = new Set(ids.map(hashId));
    const newest = await read(async (_, tails) => ({
      first: tails[0]!.first,
      seqs: tails.flatMap((part) => part.findIds(hashes)),
    }));
    yield newest.seqs;
    for (let below = newest.first; below > 0; ) {
      const found = await read(async (sql, tails) => {
        const written = await findIdSeqs(sql, hashes, below);
        // After a concurrent rebuild, events that were in the tables may be in memory.
        const seqs = [...written.seqs, ...tails.flatMap((part) => part.findIds(hashes))];
        return { seqs, below: written.below };
      });
      yield found.seqs.filter((seq) => seq < newest.first).sort((a, b) => a - b);
      below = found.below;
      await setImmediate();
    }
  }

  /** Lists the seqs that may have this id, lowest first. */
  async function listCandidates(id: string): Promise<number[]> {
    const found: number[] = [];
    for await (const seqs of findIds([id])) found.push(...seqs);
    return found.sort((a, b) => a - b);
  }

  return {
    database: { file, hold: () => db.hold() },
    async find({ where, after = -1, before = Number.MAX_SAFE_INTEGER, order, limit }) {
      const range = { where, from: after + 1, to: before, order, limit };
      if (where.length === 0) return listRange({ ...range, to: Math.min(before, log.size) });
      return read(async (sql, tails) => {
        const seqs: number[] = [];
        const collectFrom = (selected: readonly Tail[]): void => {
          for (const part of selected)
            collectSeqs(seqs, { ...range, first: part.first, places: part.find(where) });
        };
        if (order === 'desc') collectFrom(tails.toReversed());
        if (seqs.length < limit) {
          const to = Math.min(before, tails[0]!.first);
          seqs.push(...(await findSeqs(sql, { ...range, to, limit: limit - seqs.length })));
        }
        if (order === 'asc') collectFrom(tails);
        return seqs;
      });
    },
    async findId(id) {
      const hasId = (seq: number) =>
        (JSON.parse(log.readRange(seq, 1)[0]!) as AuditEvent).id === id;
      return (await listCandidates(id)).filter((seq) => seq >= log.firstSeq).find(hasId);
    },
    async findArchivedId(id) {
      return (await listCandidates(id)).filter((seq) => seq < log.firstSeq);
    },
    findIds,
    async readHighWaterMarks() {
      await logFailure(catchUpWithRepair());
      const marks = await db.read(readSources);
      const raise = (origin: string, seq: number): void => {
        marks.set(origin, Math.max(marks.get(origin) ?? 0, seq));
      };
      for (const part of [...full, tail])
        for (const [origin, seq] of part.sources) raise(origin, seq);
      for (const { sources } of log.archived)
        for (const [origin, seq] of Object.entries(sources)) raise(origin, seq);
      for await (const lines of log.scan(Math.max(end(), log.firstSeq)))
        for (const line of lines) {
          const event = JSON.parse(line) as AuditEvent;
          raise(formatOrigin(event), event.source_seq);
        }
      return marks;
    },
    add(firstSeq, events) {
      if (firstSeq === end()) for (const event of events) addToTail(event);
      // Events that arrived out of order or that the log itself wrote are read from the log.
      if (end() < log.size) void logFailure(catchUpWithRepair());
      else if (full.length > 0) void logFailure(withRepair(writeOrKeep));
    },
    flush() {
      return withRepair(async () => {
        endTail();
        await writeFull();
      });
    },
    async close() {
      await lastWork;
      endTail();
      await logFailure(withRepair(writeOrKeep));
      await db.close();
    },
  };
}

const isBroken = (error: unknown): boolean => (error as Partial<Fault>).code === 'storage_broken';

/** Lists seqs without a condition, which needs no index. */
function listRange(query: { from: number; to: number; order: 'asc' | 'desc'; limit: number }) {
  const { from, to, order, limit } = query;
  const count = Math.max(0, Math.min(limit, to - from));
  return Array.from({ length: count }, (_, i) => (order === 'asc' ? from + i : to - 1 - i));
}

async function openOrReset(file: string, log: AuditLog, logger: Log): Promise<OpenIndexResult> {
  let db: SqliteDatabase | undefined;
  try {
    db = await openTables(file);
    return { db, next: await db.read((sql) => checkHead(sql, log)) };
  } catch (error) {
    logger.warn('index unusable; rebuilding it from the log', { error });
    await db?.close();
    return { db: await reset(file), next: 0 };
  }
}

/** Returns how many events are indexed. Throws if the tables do not belong to this log. */
async function checkHead(sql: Sql, log: AuditLog): Promise<number> {
  const head = await readHead(sql);
  if (head === undefined) return 0;
  const isSameLog = head.size <= log.size && log.rootAt(head.size).toString('hex') === head.root;
  if (isSameLog) return head.size;
  throw fault('storage_broken', `the index covers ${head.size} events of another log`);
}

function reset(file: string): Promise<SqliteDatabase> {
  for (const name of [file, `${file}-wal`, `${file}-shm`]) rmSync(name, { force: true });
  return openTables(file);
}

/** Does not sync on commit: what a power failure loses can be read from the log again. */
async function openTables(file: string): Promise<SqliteDatabase> {
  const db = openSqlite({ file, migrations: MIGRATIONS });
  await db.read((sql) => sql.all('PRAGMA synchronous = NORMAL'));
  return db;
}
