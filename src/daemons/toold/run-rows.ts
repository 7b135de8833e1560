// The runs that were admitted, with their highest fence, and the marks of the places they work in.
import type { Database } from '../../platform/sql/database.ts';
import { fault } from '../../wire/errors.ts';
import type { AdmitRunBody } from '../../wire/toold.ts';
import type { Label, RunId } from '../../wire/words.ts';

export function makeRunRows(db: Database) {
  return {
    /** Remembers the run and its fence for ever; a lower fence than before is refused. */
    async admitRun(runId: string, admission: AdmitRunBody, nowMs: number): Promise<void> {
      const changed = await db.write((sql) =>
        sql.run(
          'INSERT INTO runs (run_id, task_id, agent, fence, live, admission, admitted_ms) ' +
            'VALUES (?, ?, ?, ?, 1, ?, ?) ON CONFLICT (run_id) DO UPDATE SET ' +
            'fence = excluded.fence, live = 1, admission = excluded.admission, ' +
            'admitted_ms = excluded.admitted_ms WHERE excluded.fence >= runs.fence',
          runId,
          admission.task_id,
          admission.agent,
          admission.fence,
          JSON.stringify(admission),
          nowMs,
        ),
      );
      if (changed === 0)
        throw fault('stale_fence', `${runId} was admitted before with a higher fence`);
    },

    dismissRun: (runId: string, fence: number): Promise<boolean> =>
      db.write(async (sql) => {
        const changed = await sql.run(
          'UPDATE runs SET live = 0 WHERE run_id = ? AND fence <= ? AND live = 1',
          runId,
          fence,
        );
        return changed > 0;
      }),

    /** Of all these places together. */
    workspaceMarks: async (places: readonly string[]): Promise<Label[]> => {
      const marks = places.map(() => '?').join(', ');
      const rows = await db.read((sql) =>
        sql.all<{ label: Label }>(
          `SELECT DISTINCT label FROM workspace_marks WHERE place IN (${marks}) ORDER BY label`,
          ...places,
        ),
      );
      return rows.map(({ label }) => label);
    },

    markWorkspace: (places: readonly string[], labels: readonly Label[]): Promise<void> =>
      db.write(async (sql) => {
        for (const place of places)
          for (const label of labels)
            await sql.run(
              'INSERT INTO workspace_marks (place, label) VALUES (?, ?) ON CONFLICT DO NOTHING',
              place,
              label,
            );
      }),

    async liveRuns(): Promise<{ runId: RunId; admission: AdmitRunBody }[]> {
      const rows = await db.read((sql) =>
        sql.all<{ run_id: RunId; admission: string }>(
          'SELECT run_id, admission FROM runs WHERE live = 1',
        ),
      );
      return rows.map(({ run_id, admission }) => ({
        runId: run_id,
        admission: JSON.parse(admission) as AdmitRunBody,
      }));
    },
  };
}
