// Stores admitted runs with their highest fence.
import type { RunRows } from '../../../platform/run-registry.ts';
import type { RunId } from '../../../wire/primitives.ts';
import type { AdmitToolRunBody } from '../../../wire/toold.ts';

const SAVE =
  'INSERT INTO runs (run_id, task_id, agent, fence, live, admission, admitted_ms) ' +
  'VALUES (?, ?, ?, ?, 1, ?, ?) ON CONFLICT (run_id) DO UPDATE SET task_id = excluded.task_id, ' +
  'agent = excluded.agent, fence = excluded.fence, live = 1, admission = excluded.admission, ' +
  'admitted_ms = excluded.admitted_ms';
const END =
  'INSERT INTO runs (run_id, task_id, agent, fence, live, admission, admitted_ms) ' +
  "VALUES (?, '', '', ?, 0, '', ?) ON CONFLICT (run_id) DO UPDATE SET " +
  'fence = excluded.fence, live = 0';

export function makeRunRows(nowMs: () => number): RunRows<AdmitToolRunBody> {
  return {
    async read(sql, runId) {
      const row = await sql.one<{ fence: number; live: number }>(
        'SELECT fence, live FROM runs WHERE run_id = ?',
        runId,
      );
      return row && { fence: row.fence, isLive: row.live === 1 };
    },
    async save(sql, runId, admission) {
      const { task_id, agent, fence } = admission;
      await sql.run(SAVE, runId, task_id, agent, fence, JSON.stringify(admission), nowMs());
    },
    async end(sql, runId, fence) {
      await sql.run(END, runId, fence, nowMs());
    },
    async live(sql) {
      const rows = await sql.all<{ run_id: RunId; admission: string }>(
        'SELECT run_id, admission FROM runs WHERE live = 1',
      );
      return rows.map(({ run_id, admission }) => ({
        runId: run_id,
        admission: JSON.parse(admission) as AdmitToolRunBody,
      }));
    },
  };
}
