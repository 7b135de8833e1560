// Directories that agents change in place, as rows: what was armed in a directory before commands
// of a task tree run in it, until they have ended, and what was removed from it afterwards.
import type { Outbox } from '../../platform/outbox.ts';
import type { Database, Sql } from '../../platform/sql/database.ts';
import type { RunId, TaskId } from '../../wire/primitives.ts';

export const LIVE_TABLES = `
CREATE TABLE live_watches (
  root_task_id TEXT NOT NULL,
  uid BIGINT NOT NULL,
  place TEXT NOT NULL,
  armed TEXT NOT NULL,
  PRIMARY KEY (root_task_id, uid)
);
CREATE TABLE disarmed (
  id TEXT PRIMARY KEY,
  root_task_id TEXT NOT NULL,
  task_id TEXT NOT NULL,
  agent TEXT NOT NULL,
  path TEXT NOT NULL,
  kind TEXT NOT NULL,
  sha256 TEXT,
  mode BIGINT NOT NULL,
  link_target TEXT,
  kept TEXT,
  disarmed_ms BIGINT NOT NULL
);
CREATE INDEX disarmed_by_tree ON disarmed (root_task_id, disarmed_ms);`;

/** A directory that is changed in place, as whom, and by which run. */
export type LivePlace = {
  rootTaskId: TaskId;
  taskId: TaskId;
  runId: RunId;
  agent: string;
  path: string;
  isOwned: boolean;
  uid: number;
  gid: number;
};
/** `armed`: the signature of each armed file before the first command. */
export type LiveWatch = { place: LivePlace; armed: Record<string, string> };

export type DisarmedRow = {
  id: string;
  rootTaskId: string;
  taskId: TaskId;
  agent: string;
  /** In the directory. */
  path: string;
  kind: string;
  sha256: string | null;
  mode: number;
  linkTarget: string | null;
  /** Where its content is; null: it is a link, or not kept. */
  kept: string | null;
  disarmedMs: number;
};

type StoredWatch = { place: string; armed: string };
type StoredFile = {
  id: string;
  root_task_id: string;
  task_id: TaskId;
  agent: string;
  path: string;
  kind: string;
  sha256: string | null;
  mode: number;
  link_target: string | null;
  kept: string | null;
  disarmed_ms: number;
};

export type LiveMethods = ReturnType<typeof makeLiveMethods>;

const toWatch = ({ place, armed }: StoredWatch): LiveWatch => ({
  place: JSON.parse(place) as LivePlace,
  armed: JSON.parse(armed) as Record<string, string>,
});

export function makeLiveMethods(db: Database, outbox: Outbox, nowMs: () => number) {
  return {
    findLive: (rootTaskId: string, uid: number): Promise<LiveWatch | undefined> =>
      db.read(async (sql) => {
        const row = await sql.one<StoredWatch>(
          'SELECT place, armed FROM live_watches WHERE root_task_id = ? AND uid = ?',
          rootTaskId,
          uid,
        );
        return row && toWatch(row);
      }),

    /** Commands may have run in these when sandboxd, or the warden, ended. */
    listLive: (): Promise<LiveWatch[]> =>
      db.read(async (sql) =>
        (await sql.all<StoredWatch>('SELECT place, armed FROM live_watches')).map(toWatch),
      ),

    /** Recorded before a command starts. */
    beginLive: ({ place, armed }: LiveWatch): Promise<void> =>
      db.write(async (sql) => {
        await sql.run(
          `INSERT INTO live_watches (root_task_id, uid, place, armed) VALUES (?, ?, ?, ?)
           ON CONFLICT (root_task_id, uid) DO UPDATE SET place = excluded.place,
             armed = excluded.armed`,
          place.rootTaskId,
          place.uid,
          JSON.stringify(place),
          JSON.stringify(armed),
        );
      }),

    endLive: ({ rootTaskId, uid }: LivePlace): Promise<void> =>
      db.write(async (sql) => {
        await sql.run(
          'DELETE FROM live_watches WHERE root_task_id = ? AND uid = ?',
          rootTaskId,
          uid,
        );
      }),

    /** Recorded before the file is removed. */
    async addDisarmed(
      place: LivePlace,
      file: Omit<DisarmedRow, 'rootTaskId' | 'taskId' | 'agent' | 'disarmedMs'>,
    ): Promise<void> {
      const { rootTaskId, taskId, runId, agent } = place;
      await db.write(async (sql) => {
        await sql.run(
          `INSERT INTO disarmed (id, root_task_id, task_id, agent, path, kind, sha256, mode,
             link_target, kept, disarmed_ms) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
          file.id,
          rootTaskId,
          taskId,
          agent,
          file.path,
          file.kind,
          file.sha256,
          file.mode,
          file.linkTarget,
          file.kept,
          nowMs(),
        );
        await outbox.add(sql, {
          id: `${file.id}.disarmed`,
          event: 'workspace.disarmed',
          principal: `agent:${agent}`,
          agent,
          task_id: taskId,
          root_task_id: rootTaskId,
          run_id: runId,
          data: {
            path: file.path.slice(0, 1_000),
            kind: file.kind,
            sha256: file.sha256,
            is_kept: file.kept !== null,
          },
        });
      });
      outbox.wake();
    },

    /** Newest first. */
    listDisarmed: (rootTaskId: string, limit: number): Promise<DisarmedRow[]> =>
      db.read(async (sql) => {
        const rows = await sql.all<StoredFile>(
          'SELECT * FROM disarmed WHERE root_task_id = ? ORDER BY disarmed_ms DESC LIMIT ?',
          rootTaskId,
          limit,
        );
        return rows.map((row) => ({
          id: row.id,
          rootTaskId: row.root_task_id,
          taskId: row.task_id,
          agent: row.agent,
          path: row.path,
          kind: row.kind,
          sha256: row.sha256,
          mode: Number(row.mode),
          linkTarget: row.link_target,
          kept: row.kept,
          disarmedMs: Number(row.disarmed_ms),
        }));
      }),
  };
}

/** With the homes of a tree. */
export const dropDisarmed = (sql: Pick<Sql, 'run'>, rootTaskId: string): Promise<number> =>
  sql.run('DELETE FROM disarmed WHERE root_task_id = ?', rootTaskId);
