// The forgotten memories whose copies are still being removed, with their texts until then, and
// those of which everything was removed, with ids and numbers alone.
import { toTimestamp } from '../../../platform/clock.ts';
import type { CopyPlace } from '../../../platform/copies/erase-records.ts';
import type { Database, Sql } from '../../../platform/sql/database.ts';
import { FORGOTTEN, type ForgottenMemory } from '../../../wire/copies.ts';
import type { ErasureView } from '../../../wire/memoryd/records.ts';
import { addToArtifactSize, isObjectUsed } from './prune-artifact.ts';
import type { ArtifactRow, RunRow } from './rows.ts';
import { RUN_COLUMNS } from './rows.ts';
import { requeueRun } from './runs.ts';
import type { AgentdWriteTx, EndedRun } from './tx.ts';

/** `texts` is NULL once every daemon has confirmed; `done_ms` is set when no file has them. */
export const ERASURE_TABLES = `
CREATE TABLE erasures (
  memory_id TEXT PRIMARY KEY,
  texts TEXT,
  copies TEXT NOT NULL,
  ordered_ms BIGINT NOT NULL,
  done_ms BIGINT
);
CREATE INDEX erasures_open ON erasures (ordered_ms) WHERE done_ms IS NULL;`;

export type OpenErasure = { memoryId: string; texts: ForgottenMemory['texts'] | null };
/** The records that had a copy, by daemon. */
export type CopyCounts = Record<string, number>;
export type ScannedArtifact = Pick<ArtifactRow, 'id' | 'object_hash'>;

export type ErasureMethods = {
  orderErasures(forgotten: readonly ForgottenMemory[]): Promise<void>;
  openErasures(limit: number): Promise<OpenErasure[]>;
  findErasure(memoryId: string): Promise<ErasureView | undefined>;
  addCopies(memoryIds: readonly string[], counts: CopyCounts): Promise<void>;
  dropForgottenTexts(memoryIds: readonly string[]): Promise<void>;
  endErasures(memoryIds: readonly string[]): Promise<void>;
  /** Ends the processes of those that are live, and resolves to these. */
  requeueForgotten(runIds: readonly string[]): Promise<EndedRun[]>;
  scanArtifacts(after: string, limit: number): Promise<ScannedArtifact[]>;
  /** Has an artifact refer to another object, unless it was pruned meanwhile. */
  replaceObject(id: string, object: { hash: string; sizeBytes: number }): Promise<void>;
};

type ErasureRow = {
  memory_id: string;
  texts: string | null;
  copies: string;
  ordered_ms: number;
  done_ms: number | null;
};

const NOT_A_START = { mayStart: false };

export function makeErasureMethods(
  db: Pick<Database, 'read'>,
  write: AgentdWriteTx,
): ErasureMethods {
  const find = (sql: Sql, id: string): Promise<ErasureRow | undefined> =>
    sql.one<ErasureRow>('SELECT * FROM erasures WHERE memory_id = ?', id);
  const forEach = (ids: readonly string[], work: (sql: Sql, row: ErasureRow) => Promise<unknown>) =>
    write(async ({ sql }) => {
      for (const id of ids) {
        const row = await find(sql, id);
        if (row !== undefined) await work(sql, row);
      }
    }, NOT_A_START);

  return {
    orderErasures: (forgotten) =>
      write(async ({ sql, nowMs }) => {
        for (const { memory_id, texts } of forgotten)
          await sql.run(
            `INSERT INTO erasures (memory_id, texts, copies, ordered_ms) VALUES (?, ?, '{}', ?)
             ON CONFLICT (memory_id) DO UPDATE SET texts = excluded.texts, done_ms = NULL`,
            memory_id,
            JSON.stringify(texts),
            nowMs,
          );
      }, NOT_A_START),
    openErasures: (limit) =>
      db.read(async (sql) => {
        const rows = await sql.all<ErasureRow>(
          'SELECT * FROM erasures WHERE done_ms IS NULL ORDER BY ordered_ms LIMIT ?',
          limit,
        );
        return rows.map(({ memory_id, texts }) => ({
          memoryId: memory_id,
          texts: texts === null ? null : (JSON.parse(texts) as ForgottenMemory['texts']),
        }));
      }),
    findErasure: (memoryId) =>
      db.read(async (sql) => {
        const row = await find(sql, memoryId);
        return (
          row && {
            status: row.done_ms === null ? 'running' : 'done',
            copies: JSON.parse(row.copies) as CopyCounts,
            done_at: row.done_ms === null ? null : toTimestamp(Number(row.done_ms)),
          }
        );
      }),
    addCopies: (memoryIds, counts) =>
      forEach(memoryIds, (sql, row) => {
        const copies = JSON.parse(row.copies) as CopyCounts;
        for (const [daemon, n] of Object.entries(counts))
          copies[daemon] = (copies[daemon] ?? 0) + n;
        const text = JSON.stringify(copies);
        return sql.run('UPDATE erasures SET copies = ? WHERE memory_id = ?', text, row.memory_id);
      }),
    dropForgottenTexts: (memoryIds) =>
      forEach(memoryIds, (sql, { memory_id }) =>
        sql.run('UPDATE erasures SET texts = NULL WHERE memory_id = ?', memory_id),
      ),
    endErasures: (memoryIds) =>
      write(async (tx) => {
        for (const id of memoryIds) {
          const row = await find(tx.sql, id);
          // Ordered again meanwhile: then it has its texts.
          if (row === undefined || row.texts !== null || row.done_ms !== null) continue;
          await tx.sql.run('UPDATE erasures SET done_ms = ? WHERE memory_id = ?', tx.nowMs, id);
          await tx.event({
            id: `${id}.erased.${tx.nowMs}`,
            event: 'memory.erased',
            principal: 'service:agentd',
            data: { memory_id: id, ...(JSON.parse(row.copies) as CopyCounts) },
          });
        }
      }, NOT_A_START),
    requeueForgotten: (runIds) =>
      write(async (tx) => {
        const requeued: EndedRun[] = [];
        for (const id of runIds) {
          const run = await tx.sql.one<RunRow>(
            `SELECT ${RUN_COLUMNS} FROM runs WHERE id = ? AND status = 'live' AND program = 0`,
            id,
          );
          if (run === undefined) continue;
          tx.endedRuns.push({ runId: run.id, fence: run.fence });
          const detail = 'a memory that it knew was forgotten';
          await requeueRun(tx, run, { detail, counts: false, crashesMax: 0 });
          requeued.push({ runId: run.id, fence: run.fence });
        }
        return requeued;
      }),
    scanArtifacts: (after, limit) =>
      db.read((sql) =>
        sql.all<ScannedArtifact>(
          'SELECT id, object_hash FROM artifacts WHERE id > ? ORDER BY id LIMIT ?',
          after,
          limit,
        ),
      ),
    replaceObject: (id, { hash, sizeBytes }) =>
      write(async (tx) => {
        const row = await tx.sql.one<ArtifactRow>('SELECT * FROM artifacts WHERE id = ?', id);
        if (row === undefined) return;
        await tx.sql.run(
          'UPDATE artifacts SET object_hash = ?, size_bytes = ? WHERE id = ?',
          hash,
          sizeBytes,
          id,
        );
        await addToArtifactSize(tx, row.created_by, 0, sizeBytes - Number(row.size_bytes));
        if (!(await isObjectUsed(tx, row.object_hash)))
          await tx.sql.run(
            'INSERT INTO unused_objects (hash) VALUES (?) ON CONFLICT DO NOTHING',
            row.object_hash,
          );
        await tx.sql.run('DELETE FROM unused_objects WHERE hash = ?', hash);
      }, NOT_A_START),
  };
}

const idsOf = (rows: readonly { id: string }[]): string[] => rows.map(({ id }) => id);
const findRunsOfTask = async (sql: Sql, taskId: unknown): Promise<string[]> =>
  idsOf(await sql.all('SELECT id FROM runs WHERE task_id = ?', taskId as string));

/** Where agentd has texts of people, models and tools. Blobs are apart (erase-artifacts.ts). */
export const COPY_PLACES: readonly CopyPlace[] = [
  {
    table: 'tasks',
    key: ['id'],
    columns: ['goal', 'reason', 'inputs', 'delegation', 'result', 'error'],
    findRuns: (sql, { id }) => findRunsOfTask(sql, id),
  },
  {
    table: 'waits',
    key: ['id'],
    columns: ['question', 'choices', 'outcome', 'answer'],
    reads: ['run_id'],
    findRuns: async (_sql, { run_id }) => [run_id as string],
  },
  {
    table: 'messages',
    key: ['id'],
    columns: ['parts'],
    reads: ['delivered_run'],
    findRuns: async (_sql, { delivered_run: run }) => (run === null ? [] : [run as string]),
  },
  {
    table: 'runs',
    key: ['id'],
    columns: ['briefing'],
    findRuns: async (_sql, { id }) => [id as string],
  },
  {
    table: 'briefing_parts',
    key: ['id'],
    columns: ['body'],
    voided: ['hash'],
    /** By reference: a short text is not looked for. */
    async redact(sql, { id, body }, { memoryIds }) {
      const gone = JSON.stringify(FORGOTTEN);
      if (body === gone) return undefined;
      for (const memoryId of memoryIds) {
        const used = await sql.one(
          'SELECT run_id FROM run_briefing_parts WHERE part_id = ? AND member = ? LIMIT 1',
          id!,
          `memory:${memoryId}`,
        );
        if (used !== undefined) return { body: gone };
      }
      return undefined;
    },
    async findRuns(sql, { id }) {
      const rows = await sql.all<{ run_id: string }>(
        'SELECT run_id FROM run_briefing_parts WHERE part_id = ?',
        id!,
      );
      return rows.map(({ run_id }) => run_id);
    },
  },
  { table: 'once', key: ['scope', 'once_key'], columns: ['answer'] },
  { table: 'layer_actions', key: ['id'], columns: ['request', 'outcome'] },
  { table: 'task_matches', key: ['task_id'], columns: ['body'] },
  { table: 'kept_trees', key: ['root_task_id'], columns: ['reason'] },
  { table: 'artifacts', key: ['id'], columns: ['name'] },
];
