// Snapshots for backups: the routes by which an operator copies a daemon's database as of one
// instant while it works. Opening one holds all writes until every daemon has opened its own, then
// SQLite's read transaction keeps it as it was. Unused snapshots and holds end by themselves.
import { closeSync, mkdirSync, openSync, readdirSync, rmSync } from 'node:fs';
import { open as openFile } from 'node:fs/promises';
import { join } from 'node:path';
import { backup, DatabaseSync } from 'node:sqlite';
import * as z from 'zod';
import type { Caller } from '../wire/caller.ts';
import { fault } from '../wire/errors.ts';
import { route, routes } from '../wire/route.ts';
import { type Handlers, RawReply } from './dispatch.ts';
import { readFreeBytes } from './free-bytes.ts';
import { HOLD_MS_MAX, type Hold, makeHolds } from './holds.ts';
import type { NewId } from './ids.ts';
import type { Log } from './log.ts';
import { sqliteFault } from './sql/sqlite-fault.ts';

/** The database that a snapshot is taken of. */
export type SnapshotSource = { readonly file: string; hold(): Promise<Hold> };

const SnapshotId = z
  .string()
  .regex(/^snapshot_[0-9a-z]{26}$/, 'must look like snapshot_ and 26 characters');
const params = z.strictObject({ id: SnapshotId });

export const snapshotRoutes = routes({
  /**
   * Stops all writes of this daemon, and keeps its database as it is now. Writes continue after
   * `hold_ms`, or earlier with releaseSnapshot. Null for a daemon without a database.
   */
  openSnapshot: route({
    method: 'POST',
    path: '/v1/snapshots',
    callers: ['operator'],
    body: z.strictObject({ hold_ms: z.int().min(1).max(HOLD_MS_MAX) }),
    output: z.object({ snapshot: z.object({ id: z.string(), size_bytes: z.int() }).nullable() }),
  }),
  /**
   * Lets writes continue. `held` is false if they did so before: then this snapshot and those of
   * other daemons may be of different instants. Also keeps an unread snapshot from expiring.
   */
  releaseSnapshot: route({
    method: 'POST',
    path: '/v1/snapshots/{id}/release',
    callers: ['operator'],
    params,
    output: z.object({ held: z.boolean() }),
  }),
  /** Streams the database as one SQLite file, once. */
  readSnapshot: route({
    method: 'GET',
    role: 'operator',
    path: '/v1/snapshots/{id}',
    callers: ['operator'],
    params,
    output: z.unknown(),
    streams: true,
  }),
  dropSnapshot: route({
    method: 'DELETE',
    path: '/v1/snapshots/{id}',
    callers: ['operator'],
    params,
    output: z.object({ dropped: z.boolean() }),
  }),
});

type Snapshot = {
  db: DatabaseSync;
  sizeBytes: number;
  holdId: string;
  expiry: NodeJS.Timeout;
};

export type Snapshots = {
  handlers: Handlers<typeof snapshotRoutes>;
  stop(): Promise<void>;
};

/** An abandoned snapshot keeps SQLite from shortening its write-ahead log, so it expires. */
const UNREAD_MS_MAX = 120_000;
const OPEN_MAX = 4;
/** Copied per step; between steps another thread may use the disk. */
const STEP_PAGES = 2_000;
const CHUNK_BYTES = 1 << 20;
/** Free space that a copy must leave for the runtime. */
const RESERVE_BYTES = 16 << 20;

export function makeSnapshots(options: {
  name: string;
  stateDir: string;
  source: SnapshotSource | undefined;
  newId: NewId;
  log: Log;
}): Snapshots {
  const { name, source, newId, log } = options;
  const dir = join(options.stateDir, 'snapshots');
  const holds = makeHolds();
  const unread = new Map<string, Snapshot>();
  const copies = new Set<Promise<unknown>>();
  if (source !== undefined) removeLeftCopies(dir, name);

  /** Removes a snapshot from those that can be read; the caller closes it. */
  const claim = (id: string): Snapshot | undefined => {
    const found = unread.get(id);
    if (found === undefined) return undefined;
    unread.delete(id);
    clearTimeout(found.expiry);
    holds.end(found.holdId);
    return found;
  };
  const drop = (id: string): boolean => {
    const found = claim(id);
    found?.db.close();
    return found !== undefined;
  };
  const expire = (id: string): void => {
    if (drop(id)) log.warn('a snapshot for a backup was not read in time', { snapshot: id });
  };
  const copy = async (id: string, { db, sizeBytes }: Snapshot): Promise<string> => {
    const file = join(dir, `${name}-${id}.sqlite`);
    try {
      assertSpace(options.stateDir, sizeBytes);
      mkdirSync(dir, { recursive: true, mode: 0o700 });
      closeSync(openSync(file, 'wx', 0o600));
      await backup(db, file, { rate: STEP_PAGES });
      return file;
    } catch (error) {
      rmSync(file, { force: true });
      throw sqliteFault(error, file);
    } finally {
      db.close();
    }
  };

  return {
    handlers: {
      async openSnapshot({ caller, body }) {
        assertOperatorKey(caller);
        if (source === undefined) return { snapshot: null };
        // The oldest is most likely of a caller that died.
        for (const [oldest] of unread) if (unread.size >= OPEN_MAX) expire(oldest);
        const hold = await source.hold();
        try {
          const id = newId<string>('snapshot');
          const pinned = pin(source.file);
          const holdId = holds.keep(hold, body.hold_ms);
          const expiry = setTimeout(expire, UNREAD_MS_MAX, id).unref();
          unread.set(id, { ...pinned, holdId, expiry });
          return { snapshot: { id, size_bytes: pinned.sizeBytes } };
        } catch (error) {
          hold.release();
          throw sqliteFault(error, source.file);
        }
      },
      async releaseSnapshot({ caller, params }) {
        assertOperatorKey(caller);
        const found = unread.get(params.id);
        found?.expiry.refresh();
        return { held: found !== undefined && holds.end(found.holdId) };
      },
      async readSnapshot({ caller, params, signal }) {
        assertOperatorKey(caller);
        const found = claim(params.id);
        if (found === undefined)
          throw fault('not_found', `${name} has no snapshot ${params.id}`, {
            hint: 'It was read, or it expired: start the backup again.',
          });
        const copying = copy(params.id, found);
        copies.add(copying);
        const file = await copying.finally(() => copies.delete(copying));
        return streamAndRemove(file, signal);
      },
      async dropSnapshot({ caller, params }) {
        assertOperatorKey(caller);
        return { dropped: drop(params.id) };
      },
    },
    async stop() {
      for (const id of [...unread.keys()]) drop(id);
      holds.endAll();
      await Promise.allSettled(copies);
    },
  };
}

/** A snapshot has what every person did; a key of one's own is not enough for that. */
export function assertOperatorKey(caller: Caller): void {
  if (caller.kind === 'operator' && caller.key === undefined) return;
  throw fault(
    'forbidden_caller',
    `${caller.principal} may not copy the state: this is not the operator key`,
    {
      hint: 'Use the operator key: agentctl without --as.',
    },
  );
}

/** A read transaction sees the database as it is now until it ends. */
function pin(file: string): { db: DatabaseSync; sizeBytes: number } {
  const db = new DatabaseSync(file, { readOnly: true });
  try {
    db.exec('BEGIN');
    // Counting pages is the first read: it begins the transaction.
    const pages = db.prepare('PRAGMA page_count').get() as { page_count: number };
    const page = db.prepare('PRAGMA page_size').get() as { page_size: number };
    return { db, sizeBytes: pages.page_count * page.page_size };
  } catch (error) {
    db.close();
    throw error;
  }
}

function assertSpace(stateDir: string, sizeBytes: number): void {
  const free = readFreeBytes(stateDir);
  if (free >= sizeBytes + RESERVE_BYTES) return;
  throw fault(
    'storage_full',
    `a copy of ${sizeBytes} bytes does not fit on the disk of ${stateDir}`,
    {
      hint: `Free ${sizeBytes + RESERVE_BYTES - free} bytes there, or back up while the runtime is down.`,
    },
  );
}

/** Its name is removed first, so that no crash leaves the copy behind. */
async function streamAndRemove(file: string, signal: AbortSignal): Promise<RawReply> {
  const handle = await openFile(file, 'r');
  rmSync(file, { force: true });
  if (signal.aborted) {
    await handle.close();
    throw signal.reason;
  }
  const { size } = await handle.stat();
  return new RawReply({
    status: 200,
    headers: { 'content-type': 'application/vnd.sqlite3', 'content-length': String(size) },
    body: handle.createReadStream({ highWaterMark: CHUNK_BYTES }),
  });
}

/** Removes what a killed process left. */
function removeLeftCopies(dir: string, name: string): void {
  let names: string[] = [];
  try {
    names = readdirSync(dir);
  } catch {
    return; // There is none.
  }
  for (const file of names)
    if (file.startsWith(`${name}-snapshot_`)) rmSync(join(dir, file), { force: true });
}
