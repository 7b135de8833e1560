// The tables and indexes of retention. `kept_trees` has the trees that people hold, `pruned_parts`
// those of which parts were pruned before them; `tombstones` the ids of what was pruned,
// `message_pairs` the last number of each pair whose messages were pruned, `unused_objects` the
// blobs that no artifact refers to.
export const RETENTION_TABLES = `
CREATE TABLE kept_trees (
  root_task_id TEXT PRIMARY KEY,
  kept_by TEXT NOT NULL,
  reason TEXT NOT NULL,
  kept_ms BIGINT NOT NULL
);
CREATE TABLE pruned_parts (
  root_task_id TEXT PRIMARY KEY,
  workspaces_ms BIGINT,
  homes_ms BIGINT,
  model_contexts_ms BIGINT
);
CREATE TABLE prunes (
  id BIGINT PRIMARY KEY,
  kind TEXT NOT NULL,
  cause TEXT NOT NULL,
  root_task_id TEXT,
  pruned_ms BIGINT NOT NULL,
  is_open INTEGER NOT NULL
);
CREATE INDEX prunes_open ON prunes (id) WHERE is_open = 1;
CREATE INDEX prunes_by_time ON prunes (pruned_ms) WHERE is_open = 0;
CREATE TABLE tombstones (id TEXT PRIMARY KEY, prune_id BIGINT NOT NULL);
CREATE INDEX tombstones_by_prune ON tombstones (prune_id);
CREATE TABLE message_pairs (
  from_principal TEXT NOT NULL,
  to_principal TEXT NOT NULL,
  last_seq BIGINT NOT NULL,
  PRIMARY KEY (from_principal, to_principal)
);
CREATE INDEX tasks_roots_by_end ON tasks (ended_ms, id)
  WHERE depth = 0 AND ended_ms IS NOT NULL;
CREATE INDEX tasks_by_retry ON tasks (retry_of) WHERE retry_of IS NOT NULL;
CREATE INDEX tasks_live_with_inputs ON tasks (id) WHERE ended_ms IS NULL AND inputs <> '[]';
CREATE INDEX artifacts_by_object ON artifacts (object_hash);
CREATE TABLE artifact_sizes (created_by TEXT PRIMARY KEY, n BIGINT NOT NULL, bytes BIGINT NOT NULL);
INSERT INTO artifact_sizes (created_by, n, bytes)
  SELECT created_by, COUNT(*), SUM(size_bytes) FROM artifacts GROUP BY created_by;
CREATE TABLE unused_objects (hash TEXT PRIMARY KEY);`;
