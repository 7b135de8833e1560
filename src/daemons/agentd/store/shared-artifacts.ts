// The artifacts that agents have shared with their team, beyond the thread that each belongs to.
import type { Database } from '../../../platform/sql/database.ts';
import { fault } from '../../../wire/errors.ts';
import { onceForRun } from './call-methods.ts';
import type { ArtifactRow } from './rows.ts';
import type { AgentdStore } from './store.ts';
import type { AgentdWriteTx } from './tx.ts';
import { findRoot } from './waits.ts';

export const SHARED_ARTIFACTS = `
CREATE TABLE shared_artifacts (
  artifact_id TEXT PRIMARY KEY,
  shared_by TEXT NOT NULL,
  shared_ms BIGINT NOT NULL
);
`;

export function makeSharedArtifactMethods(
  db: Database,
  write: AgentdWriteTx,
): Pick<AgentdStore, 'shareArtifact' | 'sharedArtifacts' | 'isShared'> {
  return {
    shareArtifact: (call, id) =>
      onceForRun(write, call, async (tx, run) => {
        const by = `agent:${run.agent}`;
        const row = await tx.sql.one<ArtifactRow>('SELECT * FROM artifacts WHERE id = ?', id);
        if (row === undefined) throw fault('not_found', `artifact ${id} not found`);
        if (row.created_by !== by)
          throw fault('denied', `${id} is not from ${by}`, {
            hint: 'Its author can share it, or store what you made of it as an artifact of yours.',
          });
        await tx.sql.run(
          `INSERT INTO shared_artifacts (artifact_id, shared_by, shared_ms) VALUES (?, ?, ?)
           ON CONFLICT DO NOTHING`,
          id,
          by,
          tx.nowMs,
        );
        await tx.event({
          id: `${call.callId}.shared`,
          event: 'artifact.shared',
          principal: by,
          agent: run.agent,
          task_id: run.task_id,
          ...(await findRoot(tx, run.task_id)),
          run_id: run.id,
          call_id: call.callId,
          artifact: id,
        });
        return null;
      }),
    sharedArtifacts: (limit) =>
      db.read((sql) =>
        sql.all<ArtifactRow>(
          `SELECT a.* FROM shared_artifacts s JOIN artifacts a ON a.id = s.artifact_id
           ORDER BY s.artifact_id DESC LIMIT ?`,
          limit,
        ),
      ),
    isShared: (id) =>
      db.read(
        async (sql) =>
          (await sql.one('SELECT artifact_id FROM shared_artifacts WHERE artifact_id = ?', id)) !==
          undefined,
      ),
  };
}
