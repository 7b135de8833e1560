// The index of the log: which events a task, an agent, a tool, a run or an id has. It is derived:
// made from the log, always as far as the log, and made again from it whenever it is missing,
// broken or of another log. The newest events are kept in memory and written down in lots.
import { rmSync } from 'node:fs';
import { setImmediate } from 'node:timers/promises';
import type { Log } from '../../../platform/log.ts';
import type { Database, Sql } from '../../../platform/sql/database.ts';
import { openSqlite } from '../../../platform/sql/sqlite.ts';
import { type Fault, fault } from '../../../wire/errors.ts';
import type { AuditEvent, NewEvent } from '../../../wire/events.ts';
import type { AuditLog } from '../log/log.ts';
import { originOf } from '../rules.ts';
import {
  collect,
  findIdSeqs,
  findSeqs,
  MIGRATIONS,
  readHead,
  readSources,
  writeTail,
} from './tables.ts';
import { hashOf, TAIL_EVENTS_MAX, Tail, type TailFilter } from './tail.ts';

export type { TailFilter };
export type SeqQuery = {
  where: TailFilter[];
  after?: number | undefined;
  before?: number | undefined;
  order: 'asc' | 'desc';
  limit: number;
};

export type AuditIndex = {
  /** Numbers of the events, of all that are durable. */
  find(query: SeqQuery): Promise<number[]>;
  findId(id: string): Promise<number | undefined>;
  /**
   * Where the log may have these ids, the newest places first: every place that has one, seldom
   * another.
   */
  findIds(ids: readonly string[]): AsyncGenerator<number[]>;
  /** The highest number taken from each origin: never less than the log has. */
  taken(): Promise<Map<string, number>>;
  /** These events are durable; `firstSeq` is the number of the first. */
  add(firstSeq: number, events: readonly NewEvent[]): void;
  close(): Promise<void>;
};

/** So many full tails are kept when they cannot be written; with more it is read again later. */
const FULL_TAILS_MAX = 64;

type OpenIndexResult = { db: Database; next: number };

export async function openIndex(options: {
  file: string;
  log: AuditLog;
  say: Log;
}): Promise<AuditIndex> {
  const { file, log, say } = options;
  let { db, next } = await openOrReset(file, log, say);
  /** Events from `next` on, up to and without `end`. */
  let full: Tail[] = [];
  let tail = new Tail(next);
  const end = (): number => tail.first + tail.count;
  let turn: Promise<unknown> = Promise.resolve();

  /** One at a time: writing down, catching up, making again. */
  const inTurn = (work: () => Promise<void>): Promise<void> => {
    const done = turn.then(work);
    turn = done.catch(() => undefined);
    return done;
  };
  const take = (event: NewEvent): void => {
    tail.add(event);
    if (!tail.isFull) return;
    full.push(tail);
    tail = new Tail(end());
  };
  const beginAt = (size: number): void => {
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
  /** Where they cannot be written, full tails stay in memory, up to a limit. */
  const writeOrKeep = async (): Promise<void> => {
    try {
      await writeFull();
    } catch (error) {
      const isTooMuch = full.length > FULL_TAILS_MAX;
      if (isTooMuch) beginAt(next);
      if (isTooMuch || isBroken(error)) throw error;
      say.warn('the index could not be written; trying again later', { error });
    }
  };
  const catchUp = async (): Promise<void> => {
    while (end() < log.size) {
      const lines = log.readRange(end(), TAIL_EVENTS_MAX);
      if (lines.length === 0) return;
      for (const line of lines) take(JSON.parse(line) as AuditEvent);
      await writeOrKeep();
    }
  };
  /** Damage that a look at every table did not show. `broken` is the one that was damaged. */
  const remake = async (broken: Database, error: unknown): Promise<void> => {
    if (db !== broken) return;
    say.warn('the index is damaged; making it again from the log', { error });
    await broken.close();
    db = await reset(file);
    beginAt(0);
    await catchUp();
  };
  const mended = (work: () => Promise<void>): Promise<void> =>
    inTurn(async () => {
      const asked = db;
      try {
        await work();
      } catch (error) {
        if (!isBroken(error)) throw error;
        await remake(asked, error);
      }
    });
  const complete = (): Promise<void> => mended(catchUp);
  const unasked = (work: Promise<void>): Promise<void> =>
    work.catch((error: unknown) => say.warn('the index is behind; it catches up later', { error }));
  const read = async <T>(work: (sql: Sql, tails: readonly Tail[]) => Promise<T>): Promise<T> => {
    const attempt = async (): Promise<T> => {
      if (end() < log.size) await complete();
      // Whatever is written down meanwhile, what these hold is taken from them.
      const tails = [...full, tail];
      return db.read((sql) => work(sql, tails));
    };
    const asked = db;
    try {
      return await attempt();
    } catch (error) {
      if (!isBroken(error)) throw error;
      await inTurn(() => remake(asked, error));
      return attempt();
    }
  };
  async function* findIds(ids: readonly string[]): AsyncGenerator<number[]> {
    const hashes = new Set(ids.map(hashOf));
    const newest = await read(async (_, tails) => ({
      first: tails[0]!.first,
      seqs: tails.flatMap((one) => one.findIds(hashes)),
    }));
    yield newest.seqs;
    for (let below = newest.first; below > 0; ) {
      const found = await read(async (sql, tails) => {
        const written = await findIdSeqs(sql, hashes, below);
        // An index that is made again meanwhile has in memory what was in its tables.
        const seqs = [...written.seqs, ...tails.flatMap((one) => one.findIds(hashes))];
        return { seqs, below: written.below };
      });
      yield found.seqs.filter((seq) => seq < newest.first).sort((a, b) => a - b);
      below = found.below;
      await setImmediate();
    }
  }

  return {
    async find({ where, after = -1, before = Number.MAX_SAFE_INTEGER, order, limit }) {
      const asked = { where, from: after + 1, to: before, order, limit };
      if (where.length === 0) return range({ ...asked, to: Math.min(before, log.size) });
      return read(async (sql, tails) => {
        const seqs: number[] = [];
        const collectFrom = (some: readonly Tail[]): void => {
          for (const one of some)
            collect(seqs, { ...asked, first: one.first, places: one.find(where) });
        };
        if (order === 'desc') collectFrom(tails.toReversed());
        if (seqs.length < limit) {
          const to = Math.min(before, tails[0]!.first);
          seqs.push(...(await findSeqs(sql, { ...asked, to, limit: limit - seqs.length })));
        }
        if (order === 'asc') collectFrom(tails);
        return seqs;
      });
    },
    async findId(id) {
      const found: number[] = [];
      for await (const seqs of findIds([id])) found.push(...seqs);
      const isIt = (seq: number) => (JSON.parse(log.readRange(seq, 1)[0]!) as AuditEvent).id === id;
      return found.sort((a, b) => a - b).find(isIt);
    },
    findIds,
    async taken() {
      await unasked(complete());
      const taken = await db.read(readSources);
      const raise = (origin: string, seq: number): void => {
        taken.set(origin, Math.max(taken.get(origin) ?? 0, seq));
      };
      for (const one of [...full, tail])
        for (const [origin, seq] of one.sources) raise(origin, seq);
      for await (const lines of log.scan(end()))
        for (const line of lines) {
          const event = JSON.parse(line) as AuditEvent;
          raise(originOf(event), event.source_seq);
        }
      return taken;
    },
    add(firstSeq, events) {
      if (firstSeq === end()) for (const event of events) take(event);
      // What came out of turn, or from the log itself, is read from the log.
      if (end() < log.size) void unasked(complete());
      else if (full.length > 0) void unasked(mended(writeOrKeep));
    },
    async close() {
      await turn;
      if (tail.count > 0) full.push(tail);
      tail = new Tail(end());
      await unasked(mended(writeOrKeep));
      await db.close();
    },
  };
}

const isBroken = (error: unknown): boolean => (error as Partial<Fault>).code === 'storage_broken';

/** Without a condition the numbers are all there are: no index is needed. */
function range(query: { from: number; to: number; order: 'asc' | 'desc'; limit: number }) {
  const { from, to, order, limit } = query;
  const count = Math.max(0, Math.min(limit, to - from));
  return Array.from({ length: count }, (_, i) => (order === 'asc' ? from + i : to - 1 - i));
}

async function openOrReset(file: string, log: AuditLog, say: Log): Promise<OpenIndexResult> {
  let db: Database | undefined;
  try {
    db = await openTables(file);
    return { db, next: await db.read((sql) => checkHead(sql, log)) };
  } catch (error) {
    say.warn('the index cannot be used; making it again from the log', { error });
    await db?.close();
    return { db: await reset(file), next: 0 };
  }
}

/** How much of the log is indexed. Throws when the tables cannot be used for this log. */
async function checkHead(sql: Sql, log: AuditLog): Promise<number> {
  const head = await readHead(sql);
  if (head === undefined) return 0;
  const isOfLog = head.size <= log.size && log.rootAt(head.size).toString('hex') === head.root;
  if (isOfLog) return head.size;
  throw fault(
    'storage_broken',
    `the index has ${head.size} events that are not the first of this log: they do not belong together`,
  );
}

function reset(file: string): Promise<Database> {
  for (const name of [file, `${file}-wal`, `${file}-shm`]) rmSync(name, { force: true });
  return openTables(file);
}

/** What a loss of power takes from it is in the log: no append waits until the index is synced. */
async function openTables(file: string): Promise<Database> {
  const db = openSqlite({ file, migrations: MIGRATIONS });
  await db.read((sql) => sql.all('PRAGMA synchronous = NORMAL'));
  return db;
}
