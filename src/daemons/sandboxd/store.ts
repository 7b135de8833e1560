// sandboxd's store: agents' uids, workspaces' groups, and boxes. Each method is one transaction; a
// change of a box and its event are written together.

import { randomUUID } from 'node:crypto';
import type { IdColumns } from '../../platform/find-ids.ts';
import { OUTBOX_TABLES, type Outbox } from '../../platform/outbox.ts';
import type { Database, Sql } from '../../platform/sql/database.ts';
import { fault } from '../../wire/errors.ts';
import type { BoxId, RunId, TaskId } from '../../wire/primitives.ts';
import type { SandboxLevel } from '../../wire/sandboxd.ts';
import { type LayerCopyMethods, makeLayerCopyMethods } from './layer-copy-rows.ts';
import { type LayerForkMethods, makeLayerForkMethods } from './layer-fork-rows.ts';
import {
  LAYER_ORIGINAL_TABLES,
  type LayerOriginalMethods,
  makeLayerOriginalMethods,
} from './layer-original-rows.ts';
import { type LayerMethods, makeLayerMethods } from './layer-rows.ts';
import {
  LAYER_COMMITS_TABLES,
  LAYER_COPIES_TABLES,
  LAYER_KEPT_TABLES,
  LAYER_OWN_TABLES,
  LAYER_TABLES,
} from './layer-tables.ts';
import { LIVE_TABLES, type LiveMethods, makeLiveMethods } from './live-rows.ts';
import { type BoxOwnerFields, makeProgramMethods, type ProgramMethods } from './program-records.ts';
import {
  makeTreeFileMethods,
  markUnmeasured,
  TREE_FILE_TABLES,
  type TreeFileMethods,
} from './tree-file-rows.ts';
import {
  addWrites,
  delayRelease,
  findOrAddWorkspace,
  findUse,
  freeWorkspace,
  listWrites,
  nextDelayed,
  type Range,
  type RangeUse,
  rangeSpentFault,
  readGidUse,
  type WorkspaceRow,
  type WorkspaceUse,
} from './workspace-rows.ts';

export const ID_COLUMNS: IdColumns = { box: ['boxes', 'id'] };

export const MIGRATIONS = [
  `${OUTBOX_TABLES}
CREATE TABLE identities (
  agent TEXT PRIMARY KEY,
  uid BIGINT NOT NULL UNIQUE,
  created_ms BIGINT NOT NULL
);
CREATE TABLE workspaces (
  root_task_id TEXT PRIMARY KEY,
  gid BIGINT NOT NULL UNIQUE,
  path TEXT,
  created_ms BIGINT NOT NULL
);
CREATE TABLE boxes (
  place INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  kind TEXT NOT NULL,
  level TEXT NOT NULL,
  run_id TEXT NOT NULL,
  fence BIGINT NOT NULL,
  agent TEXT NOT NULL,
  task_id TEXT NOT NULL,
  root_task_id TEXT NOT NULL,
  uid BIGINT NOT NULL,
  opened_ms BIGINT NOT NULL,
  closed_ms BIGINT,
  ended_by TEXT
);
CREATE INDEX boxes_open ON boxes (place) WHERE closed_ms IS NULL;`,
  `CREATE TABLE disk_before (
  root_task_id TEXT NOT NULL,
  path TEXT NOT NULL,
  bytes BIGINT NOT NULL,
  PRIMARY KEY (root_task_id, path)
);`,
  'CREATE INDEX boxes_closed ON boxes (closed_ms) WHERE closed_ms IS NOT NULL;',
  `ALTER TABLE workspaces ADD COLUMN is_complete INTEGER NOT NULL DEFAULT 0;
ALTER TABLE workspaces ADD COLUMN release_tried_ms BIGINT;
CREATE INDEX workspaces_delayed ON workspaces (release_tried_ms)
  WHERE release_tried_ms IS NOT NULL;
CREATE TABLE workspace_writes (
  root_task_id TEXT NOT NULL,
  path TEXT NOT NULL,
  PRIMARY KEY (root_task_id, path)
);
CREATE TABLE free_gids (
  gid BIGINT PRIMARY KEY,
  freed_ms BIGINT NOT NULL
);
CREATE INDEX free_gids_by_age ON free_gids (freed_ms, gid);`,
  TREE_FILE_TABLES,
  LAYER_TABLES,
  LAYER_KEPT_TABLES,
  LAYER_COMMITS_TABLES,
  LIVE_TABLES,
  LAYER_ORIGINAL_TABLES,
  LAYER_OWN_TABLES,
  LAYER_COPIES_TABLES,
];

/** A box's record is kept this long after it was closed. */
export const KEEP_BOXES_MS = 30 * 86_400_000;
const RELEASE_RETRY_MS = 86_400_000;

export type NewBox = {
  id: BoxId;
  kind: 'runner' | 'tools' | 'once' | 'program';
  level: SandboxLevel;
  run_id: RunId;
  fence: number;
  agent: string;
  task_id: TaskId;
  root_task_id: TaskId;
  uid: number;
};
export type RefusedBox = Omit<NewBox, 'uid'> & { uid: number | null };
export type BoxRow = NewBox & {
  place: number;
  opened_ms: number;
  closed_ms: number | null;
  ended_by: string | null;
};

export type SandboxdStore = TreeFileMethods &
  LayerMethods &
  LayerOriginalMethods &
  LayerForkMethods &
  LayerCopyMethods &
  ProgramMethods &
  LiveMethods & {
    /** Resolves to the name's permanent uid, which is assigned at first use and never reused. */
    assignUid(agent: string, range: Range): Promise<number>;
    /** The first call for a task tree fixes its path; throws `conflict` for another one later. */
    workspace(rootTaskId: string, path: string | undefined, range: Range): Promise<WorkspaceRow>;
    /** Records directories outside the tree's own that its boxes can write. */
    recordWrites(rootTaskId: string, paths: readonly string[]): Promise<void>;
    workspaceUse(rootTaskId: string): Promise<WorkspaceUse | undefined>;
    /** Forgets the tree and frees its group; false when one of its boxes is open. */
    freeWorkspace(row: WorkspaceRow): Promise<boolean>;
    /** Remembers that a release was refused; `nextDelayed` returns it a day later. */
    delayRelease(rootTaskId: string): Promise<void>;
    nextDelayed(): Promise<string | undefined>;
    rangeUse(ranges: { uids: Range; gids: Range }): Promise<{ uids: RangeUse; gids: RangeUse }>;
    /** The size of a directory when the task tree first used it. */
    diskBefore(rootTaskId: string, path: string): Promise<number | undefined>;
    /** Only the first value is stored; resolves to it. */
    recordDiskBefore(rootTaskId: string, path: string, bytes: number): Promise<number>;
    recordOpened(box: NewBox): Promise<void>;
    recordClosed(id: BoxId, how: { endedBy: string; data?: EventData }): Promise<void>;
    /** The uid is null when the box was refused before it had one. */
    recordRefused(box: RefusedBox, why: { code: string; message: string }): Promise<void>;
    /** Records boxes from before a restart as closed; resolves to their number. */
    closeLost(): Promise<number>;
    /** Newest first. */
    list(options: { before: number; limit: number; open?: boolean | undefined }): Promise<BoxRow[]>;
  };
export type EventData = Record<string, string | number | boolean | null>;

export function makeStore(
  db: Database,
  outbox: Outbox,
  nowMs: () => number,
  /** Called when files of a task tree may have changed. */
  onFilesChanged: () => void = () => undefined,
): SandboxdStore {
  const eventFields = (box: BoxOwnerFields) => ({
    principal: `agent:${box.agent}`,
    agent: box.agent,
    task_id: box.task_id,
    root_task_id: box.root_task_id,
    run_id: box.run_id,
  });
  const eventData = (box: RefusedBox): EventData => ({
    box_id: box.id,
    kind: box.kind,
    level: box.level,
    uid: box.uid,
    fence: box.fence,
  });

  return {
    ...makeTreeFileMethods(db, nowMs),
    ...makeLayerMethods(db, nowMs),
    ...makeLayerOriginalMethods(db),
    ...makeLayerForkMethods(db, nowMs),
    ...makeLayerCopyMethods(db),
    ...makeLiveMethods(db, outbox, nowMs),
    ...makeProgramMethods(db, outbox, eventFields),
    assignUid: (agent, range) =>
      db.write(async (sql) => {
        const own = 'SELECT uid FROM identities WHERE agent = ?';
        const found = await sql.one<{ uid: number }>(own, agent);
        if (found !== undefined) return Number(found.uid);
        const uid = ((await readHighestUid(sql, range)) ?? range.first - 1) + 1;
        if (uid > range.last) throw rangeSpentFault(range, 'uid for another agent');
        await sql.run(
          'INSERT INTO identities (agent, uid, created_ms) VALUES (?, ?, ?)',
          agent,
          uid,
          nowMs(),
        );
        return uid;
      }),
    workspace: (rootTaskId, path, range) =>
      db.write((sql) => findOrAddWorkspace(sql, { rootTaskId, path }, range, nowMs())),
    async recordWrites(rootTaskId, paths) {
      const known = await db.read((sql) => listWrites(sql, rootTaskId));
      const fresh = paths.filter((path) => !known.includes(path));
      if (fresh.length > 0) await db.write((sql) => addWrites(sql, rootTaskId, fresh));
    },
    workspaceUse: (rootTaskId) => db.read((sql) => findUse(sql, rootTaskId)),
    freeWorkspace: (row) => db.write((sql) => freeWorkspace(sql, row, nowMs())),
    delayRelease: (rootTaskId) => db.write((sql) => delayRelease(sql, rootTaskId, nowMs())),
    nextDelayed: () => db.read((sql) => nextDelayed(sql, nowMs() - RELEASE_RETRY_MS)),
    rangeUse: ({ uids, gids }) =>
      db.read(async (sql) => {
        const last = (await readHighestUid(sql, uids)) ?? uids.first - 1;
        return {
          uids: { ...uids, used: last - uids.first + 1 },
          gids: await readGidUse(sql, gids),
        };
      }),
    diskBefore: (rootTaskId, path) => db.read((sql) => readDiskBefore(sql, rootTaskId, path)),
    recordDiskBefore: (rootTaskId, path, bytes) =>
      db.write(async (sql) => {
        await sql.run(
          `INSERT INTO disk_before (root_task_id, path, bytes) VALUES (?, ?, ?)
           ON CONFLICT DO NOTHING`,
          rootTaskId,
          path,
          bytes,
        );
        return (await readDiskBefore(sql, rootTaskId, path))!;
      }),
    async recordOpened(box) {
      await db.write(async (sql) => {
        if ((await sql.one('SELECT id FROM boxes WHERE id = ?', box.id)) !== undefined)
          throw fault('conflict', `${box.id} already exists`);
        await sql.run(
          `INSERT INTO boxes (id, kind, level, run_id, fence, agent, task_id, root_task_id, uid,
             opened_ms) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
          box.id,
          box.kind,
          box.level,
          box.run_id,
          box.fence,
          box.agent,
          box.task_id,
          box.root_task_id,
          box.uid,
          nowMs(),
        );
        await deleteOldBoxes(sql, nowMs());
        await outbox.add(sql, {
          id: `${box.id}.opened`,
          event: 'sandbox.opened',
          ...eventFields(box),
          data: eventData(box),
        });
      });
      outbox.wake();
    },
    async recordClosed(id, { endedBy, data }) {
      await db.write(async (sql) => {
        const box = await sql.one<BoxRow>('SELECT * FROM boxes WHERE id = ?', id);
        if (box === undefined || box.closed_ms !== null) return;
        await sql.run(
          'UPDATE boxes SET closed_ms = ?, ended_by = ? WHERE id = ?',
          nowMs(),
          endedBy,
          id,
        );
        await outbox.add(sql, {
          id: `${id}.ended`,
          event: 'sandbox.closed',
          ...eventFields(box),
          status: endedBy,
          data: { ...eventData(box), ...data },
        });
        if (box.kind !== 'runner') await markUnmeasured(sql, box.root_task_id);
      });
      outbox.wake();
      onFilesChanged();
    },
    async recordRefused(box, { code, message }) {
      await db.write((sql) =>
        outbox.add(sql, {
          // The same box may be refused more than once.
          id: `${box.id}.refused.${randomUUID().slice(0, 8)}`,
          event: 'sandbox.refused',
          ...eventFields(box),
          allowed: false,
          status: code,
          data: { ...eventData(box), reason: message.slice(0, 1_000) },
        }),
      );
      outbox.wake();
    },
    async closeLost() {
      const closed = await db.write(async (sql) => {
        const lost = await sql.all<BoxRow>('SELECT * FROM boxes WHERE closed_ms IS NULL');
        for (const box of lost) {
          await sql.run(
            "UPDATE boxes SET closed_ms = ?, ended_by = 'restart' WHERE id = ?",
            nowMs(),
            box.id,
          );
          await outbox.add(sql, {
            id: `${box.id}.ended`,
            event: 'sandbox.closed',
            ...eventFields(box),
            status: 'restart',
            data: eventData(box),
          });
        }
        return lost.length;
      });
      outbox.wake();
      return closed;
    },
    list: ({ before, limit, open }) =>
      db.read((sql) =>
        sql.all<BoxRow>(
          `SELECT * FROM boxes WHERE place < ?
           ${open === undefined ? '' : `AND closed_ms IS ${open ? '' : 'NOT '}NULL`}
           ORDER BY place DESC LIMIT ?`,
          before,
          limit,
        ),
      ),
  };
}

/** Each new box deletes up to two old ones, so no start has to delete them all. */
async function deleteOldBoxes(sql: Pick<Sql, 'all' | 'run'>, nowMs: number): Promise<void> {
  const old = await sql.all<{ place: number }>(
    'SELECT place FROM boxes WHERE closed_ms < ? ORDER BY closed_ms LIMIT 2',
    nowMs - KEEP_BOXES_MS,
  );
  for (const { place } of old) await sql.run('DELETE FROM boxes WHERE place = ?', place);
}

async function readHighestUid(sql: Sql, range: Range): Promise<number | undefined> {
  const row = await sql.one<{ uid: number | null }>(
    'SELECT MAX(uid) AS uid FROM identities WHERE uid BETWEEN ? AND ?',
    range.first,
    range.last,
  );
  return row === undefined || row.uid === null ? undefined : Number(row.uid);
}

async function readDiskBefore(
  sql: Pick<Sql, 'one'>,
  rootTaskId: string,
  path: string,
): Promise<number | undefined> {
  const row = await sql.one<{ bytes: number }>(
    'SELECT bytes FROM disk_before WHERE root_task_id = ? AND path = ?',
    rootTaskId,
    path,
  );
  return row === undefined ? undefined : Number(row.bytes);
}
