// Stores admitted runs: the highest fence, the limits from the admission, and labels added since.
import type { RunRows } from '../../../platform/run-registry.ts';
import type { Sql } from '../../../platform/sql/database.ts';
import type { AdmitModelRunBody } from '../../../wire/modeld.ts';
import type { RunId } from '../../../wire/primitives.ts';
import { readLimit, writeLimit } from './settings.ts';

export const runRows: RunRows<AdmitModelRunBody> = {
  async read(sql, runId) {
    const row = await sql.one<{ fence: number; admitted: number }>(
      'SELECT fence, admitted FROM runs WHERE run_id = ?',
      runId,
    );
    return row && { fence: row.fence, isLive: row.admitted === 1 };
  },

  async save(sql, runId, admission) {
    await sql.run(
      `INSERT INTO runs (run_id, fence, admitted, body) VALUES (?, ?, 1, ?)
       ON CONFLICT (run_id) DO UPDATE SET fence = excluded.fence, admitted = 1, body = excluded.body`,
      runId,
      admission.fence,
      JSON.stringify(admission),
    );
    await saveTaskLimit(sql, admission);
  },

  async end(sql, runId, fence) {
    await sql.run(
      `INSERT INTO runs (run_id, fence, admitted, body) VALUES (?, ?, 0, '')
       ON CONFLICT (run_id) DO UPDATE SET fence = excluded.fence, admitted = 0, body = ''`,
      runId,
      fence,
    );
  },

  async live(sql) {
    const rows = await sql.all<{ run_id: RunId; body: string }>(
      'SELECT run_id, body FROM runs WHERE admitted = 1',
    );
    return rows.map(({ run_id, body }) => ({
      runId: run_id,
      admission: JSON.parse(body) as AdmitModelRunBody,
    }));
  },
};

/** An operator's limit takes precedence. */
async function saveTaskLimit(sql: Sql, body: AdmitModelRunBody): Promise<void> {
  const limit = await readLimit(sql, 'task', body.task_id);
  const hasLimits = body.max_tokens !== null || body.max_cost_microusd !== null;
  if (limit?.setBy === 'operator' || (limit === undefined && !hasLimits)) return;
  await writeLimit(sql, {
    subject: 'task',
    name: body.task_id,
    tokensLimit: body.max_tokens,
    costLimitMicrousd: body.max_cost_microusd,
    setBy: 'agentd',
  });
}

/** Labels only grow. They also apply to a run that is admitted later. */
export async function addRunLabels(sql: Sql, runId: string, labels: number): Promise<void> {
  await sql.run(
    `INSERT INTO run_labels (run_id, labels) VALUES (?, ?)
     ON CONFLICT (run_id) DO UPDATE SET labels = run_labels.labels | excluded.labels`,
    runId,
    labels,
  );
}

export async function readRunLabels(sql: Sql, runId: string): Promise<number> {
  const row = await sql.one<{ labels: number }>(
    'SELECT labels FROM run_labels WHERE run_id = ?',
    runId,
  );
  return row?.labels ?? 0;
}
