// Defines toold's tables. A migration's index is its version; released migrations never change.
import type { IdColumns } from '../../../platform/find-ids.ts';
import { OUTBOX_TABLES } from '../../../platform/outbox.ts';

export const ID_COLUMNS: IdColumns = { call: ['calls', 'call_id'] };

/**
 * `place` is the order of the journal, which pages follow. Each index costs every call a page write
 * or two, so there are few, and columns common to all calls of a run are in `runs`.
 */
export const MIGRATIONS = [
  `${OUTBOX_TABLES}
CREATE TABLE runs (
  run_id TEXT PRIMARY KEY,
  task_id TEXT NOT NULL,
  agent TEXT NOT NULL,
  fence BIGINT NOT NULL,
  live INTEGER NOT NULL,
  admission TEXT NOT NULL,
  admitted_ms BIGINT NOT NULL
);
CREATE INDEX runs_by_task ON runs (task_id);
CREATE INDEX runs_live ON runs (run_id) WHERE live = 1;
CREATE TABLE calls (
  place INTEGER PRIMARY KEY,
  call_id TEXT NOT NULL UNIQUE,
  version INTEGER NOT NULL,
  run_id TEXT NOT NULL,
  fence BIGINT NOT NULL,
  tool TEXT NOT NULL,
  purpose TEXT NOT NULL,
  arguments TEXT NOT NULL,
  arguments_hash TEXT NOT NULL,
  status TEXT NOT NULL,
  attempts INTEGER NOT NULL,
  created_ms BIGINT NOT NULL,
  started_ms BIGINT NOT NULL,
  ended_ms BIGINT,
  result TEXT,
  error TEXT,
  outcome_hash TEXT,
  wait_id TEXT,
  wait_kind TEXT
);
CREATE INDEX calls_by_run ON calls (run_id);
CREATE INDEX calls_by_tool ON calls (tool);
CREATE INDEX calls_running ON calls (tool) WHERE status = 'running';`,
  `ALTER TABLE calls ADD COLUMN approval_id TEXT;
CREATE TABLE workspace_marks (
  place TEXT NOT NULL,
  label TEXT NOT NULL,
  PRIMARY KEY (place, label)
);`,
  `CREATE TABLE run_hosts (
  run_id TEXT NOT NULL,
  host TEXT NOT NULL,
  port INTEGER NOT NULL,
  call_id TEXT NOT NULL,
  approval_id TEXT NOT NULL,
  granted_ms BIGINT NOT NULL,
  PRIMARY KEY (run_id, host, port)
);`,
  `CREATE TABLE tool_violations (
  tool TEXT NOT NULL,
  call_id TEXT NOT NULL,
  kind TEXT NOT NULL,
  at_ms BIGINT NOT NULL,
  PRIMARY KEY (tool, call_id, kind)
);
CREATE TABLE tool_suspensions (
  tool TEXT PRIMARY KEY,
  since_ms BIGINT NOT NULL,
  by_principal TEXT NOT NULL,
  reason TEXT NOT NULL
);`,
  // Older violations, counted without a tree, count together as one tree's.
  `ALTER TABLE tool_violations ADD COLUMN root_task_id TEXT NOT NULL DEFAULT '';
CREATE TABLE tool_tree_suspensions (
  tool TEXT NOT NULL,
  root_task_id TEXT NOT NULL,
  since_ms BIGINT NOT NULL,
  reason TEXT NOT NULL,
  PRIMARY KEY (tool, root_task_id)
);`,
  // Runs whose calls were pruned; a call id ends like its run's id (src/wire/call-id.ts).
  `ALTER TABLE runs ADD COLUMN pruned_ms BIGINT;
CREATE INDEX runs_pruned ON runs (pruned_ms) WHERE pruned_ms IS NOT NULL;
CREATE INDEX runs_pruned_by_tail ON runs (substr(run_id, 11)) WHERE pruned_ms IS NOT NULL;`,
  // The backup after which the call may have happened, and the one after which a person confirmed
  // that it had not; and trees of which a person confirmed that nothing had.
  `ALTER TABLE calls ADD COLUMN unsure_after TEXT;
ALTER TABLE calls ADD COLUMN confirmed_after TEXT;
CREATE TABLE lifted_restores (
  root_task_id TEXT NOT NULL,
  backup TEXT NOT NULL,
  PRIMARY KEY (root_task_id, backup)
);`,
  // A place may be more than a workspace (place-marks.ts). `marks_within` has the directories above
  // a marked one; its first rows are derived from the places so far, one directory up at a time.
  `ALTER TABLE workspace_marks RENAME TO place_marks;
CREATE TABLE marks_within (
  place TEXT NOT NULL,
  label TEXT NOT NULL,
  PRIMARY KEY (place, label)
);
WITH RECURSIVE above (place, label) AS (
  SELECT place, label FROM place_marks WHERE place LIKE '/%'
  UNION
  SELECT COALESCE(NULLIF(RTRIM(RTRIM(place, REPLACE(place, '/', '')), '/'), ''), '/'), label
    FROM above WHERE place <> '/'
) INSERT INTO marks_within SELECT place, label FROM above;`,
];
