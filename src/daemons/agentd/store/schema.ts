// Defines agentd's tables, in SQL for both SQLite and PostgreSQL. Times are milliseconds since
// 1970, lists and objects are JSON text, booleans are 0 or 1. A migration's index is its version;
// released migrations never change.
import type { IdColumns } from '../../../platform/find-ids.ts';
import { OUTBOX_TABLES } from '../../../platform/outbox.ts';
import type { Migrations } from '../../../platform/sql/database.ts';
import { IDEMPOTENCY_TABLE } from '../../../platform/sql/idempotency.ts';
import { ERASURE_TABLES } from './erasures.ts';
import { RETENTION_TABLES } from './retention-tables.ts';
import { SHARED_ARTIFACTS } from './shared-artifacts.ts';
import { THREADS } from './threads.ts';

export const ID_COLUMNS: IdColumns = {
  task: ['tasks', 'id'],
  run: ['runs', 'id'],
  wait: ['waits', 'id'],
  msg: ['messages', 'id'],
  artifact: ['artifacts', 'id'],
  ctx: ['tasks', 'context_id'],
};

/**
 * Narrows the scope of recorded responses from the caller to caller and route, and for a run's
 * calls to the run. A run's call ids end with the last twenty characters of its id. JSON escapes
 * quotes in text, so matching a quoted member name is unambiguous.
 */
const NARROWER_SCOPES = `
CREATE INDEX runs_by_tail ON runs (substr(id, 11));
UPDATE once SET scope =
  'run-call ' || (SELECT MIN(id) FROM runs WHERE substr(runs.id, 11) = substr(once.once_key, 12, 20))
WHERE scope = 'run-call'
  AND EXISTS (SELECT 1 FROM runs WHERE substr(runs.id, 11) = substr(once.once_key, 12, 20));
DROP INDEX runs_by_tail;
UPDATE once SET scope = replace(scope, ' task', ' sendMessage task') WHERE scope LIKE '%:% task';
UPDATE once SET scope = scope || ' createTask'
WHERE scope LIKE '%:%' AND scope NOT LIKE '% %'
  AND answer LIKE '{"id":"task_%' AND answer LIKE '%,"retry_of":null,%';
UPDATE once SET scope = scope || ' retryTask'
WHERE scope LIKE '%:%' AND scope NOT LIKE '% %' AND answer LIKE '{"id":"task_%';
UPDATE once SET scope = scope || ' sendMessage'
WHERE scope LIKE '%:%' AND scope NOT LIKE '% %' AND answer LIKE '{"id":"msg_%';
UPDATE once SET scope = scope || ' putArtifact'
WHERE scope LIKE '%:%' AND scope NOT LIKE '% %' AND answer LIKE '{"id":"artifact_%';`;

/**
 * Keeps queries as fast as at the start, however many tasks have ended. SQLite uses a partial index
 * only if the query repeats its condition, so each status of a run has its own.
 */
const INDEXES_FOR_HISTORY = `
DROP INDEX runs_by_status;
DROP INDEX waits_by_next;
CREATE INDEX runs_queued ON runs (agent, priority DESC, id) WHERE status = 'queued';
CREATE INDEX runs_delayed ON runs (not_before_ms) WHERE status = 'queued';
CREATE INDEX runs_live ON runs (agent, lease_until_ms) WHERE status = 'live';
CREATE INDEX runs_parked ON runs (id, fence) WHERE status = 'parked';
CREATE INDEX runs_ended ON runs (ended_ms) WHERE status = 'ended';
CREATE INDEX tasks_by_agent_and_status ON tasks (assigned_to, status, id);
CREATE INDEX waits_by_kind ON waits (kind, id);
CREATE INDEX waits_by_status_and_kind ON waits (status, kind, id);
CREATE INDEX waits_due ON waits (next_ms) WHERE next_ms IS NOT NULL;
CREATE INDEX waits_for_messages ON waits (from_principal)
  WHERE status = 'open' AND kind = 'message';
CREATE INDEX messages_by_task ON messages (task_id, id);
CREATE INDEX messages_by_recipient ON messages (to_principal, id);`;

/** Parts of briefings, each once; see briefings.ts. Whole briefings in runs stay as they are. */
const BRIEFING_PARTS = `
CREATE TABLE briefing_parts (
  id INTEGER PRIMARY KEY,
  hash TEXT NOT NULL,
  body TEXT NOT NULL
);
CREATE UNIQUE INDEX briefing_parts_by_hash ON briefing_parts (hash);
CREATE TABLE run_briefing_parts (
  run_id TEXT NOT NULL,
  member TEXT NOT NULL,
  part_id INTEGER NOT NULL,
  PRIMARY KEY (run_id, member)
);
CREATE INDEX run_briefing_parts_by_part ON run_briefing_parts (part_id);`;

/** When a run was queued last. */
const QUEUED_SINCE = `
ALTER TABLE runs ADD COLUMN queued_ms BIGINT;
UPDATE runs SET queued_ms = created_ms WHERE status = 'queued';
CREATE INDEX runs_queued_since ON runs (queued_ms) WHERE status = 'queued';`;

/** `changed`: the tree's files are newer than the restored databases. */
const RESTORED_TREES = `
CREATE TABLE restores (backup TEXT PRIMARY KEY, taken_ms BIGINT NOT NULL, applied_ms BIGINT NOT NULL);
CREATE TABLE restored_trees (
  root_task_id TEXT PRIMARY KEY,
  backup TEXT NOT NULL,
  changed INTEGER NOT NULL
);`;

/** Actions of people on the changes of task trees; see layer-actions.ts. */
const LAYER_ACTIONS = `
CREATE TABLE layer_actions (
  id TEXT PRIMARY KEY,
  root_task_id TEXT NOT NULL,
  action TEXT NOT NULL,
  principal TEXT NOT NULL,
  status TEXT NOT NULL,
  request TEXT NOT NULL,
  outcome TEXT,
  approval_id TEXT,
  rules TEXT NOT NULL,
  created_ms BIGINT NOT NULL,
  ended_ms BIGINT
);
CREATE INDEX layer_actions_by_root ON layer_actions (root_task_id);
CREATE INDEX layer_actions_open ON layer_actions (id) WHERE ended_ms IS NULL;`;

/** Runs whose process is a person's program. */
const PROGRAMS = `ALTER TABLE tasks ADD COLUMN program TEXT;
ALTER TABLE runs ADD COLUMN program INTEGER NOT NULL DEFAULT 0;
`;

/** Layers that subtasks have for themselves. */
const OWN_LAYERS = `ALTER TABLE tasks ADD COLUMN layers TEXT;
ALTER TABLE layer_actions ADD COLUMN layer_task_id TEXT;`;

/**
 * Tasks whose episodes are not kept yet; see episodes.ts. `owner`: the person who created the task
 * with a key of their own.
 */
const MEMORY = `CREATE TABLE episodes_due (task_id TEXT PRIMARY KEY);
ALTER TABLE tasks ADD COLUMN owner TEXT;
`;

/** Programs are listed apart from other tasks, of which there are many more. */
const PROGRAM_LIST = 'CREATE INDEX tasks_of_programs ON tasks (id) WHERE program IS NOT NULL';

const NOTICES = `CREATE TABLE notices_due (
  id TEXT PRIMARY KEY,
  person TEXT,
  at_ms BIGINT NOT NULL
)`;

/**
 * Tasks have a failure policy, tries and a cost; task_matches says how an agent was chosen.
 * Old tasks have no policy, which is `stop`.
 */
const BOARD = `
ALTER TABLE tasks ADD COLUMN on_failure TEXT;
ALTER TABLE tasks ADD COLUMN attempts_max INTEGER;
ALTER TABLE tasks ADD COLUMN attempt INTEGER NOT NULL DEFAULT 1;
ALTER TABLE tasks ADD COLUMN cost_microusd BIGINT;
CREATE TABLE task_matches (task_id TEXT PRIMARY KEY, body TEXT NOT NULL);
CREATE INDEX tasks_on_board ON tasks (status, priority DESC, id)
  WHERE depth = 0 AND ended_ms IS NULL;`;

/** Digests wait with the notices; see notices.ts. */
const DIGESTS = 'ALTER TABLE notices_due ADD COLUMN digest TEXT';

export const MIGRATIONS: Migrations = [
  `
CREATE TABLE agents (
  name TEXT PRIMARY KEY,
  status TEXT NOT NULL,
  linux_user TEXT NOT NULL,
  manifest_hash TEXT NOT NULL,
  manifest_file TEXT,
  spec TEXT NOT NULL,
  created_ms BIGINT NOT NULL,
  updated_ms BIGINT NOT NULL
);
CREATE TABLE tasks (
  id TEXT PRIMARY KEY,
  parent_task_id TEXT,
  root_task_id TEXT NOT NULL,
  context_id TEXT NOT NULL,
  depth INTEGER NOT NULL,
  goal TEXT NOT NULL,
  created_by TEXT NOT NULL,
  assigned_to TEXT,
  status TEXT NOT NULL,
  reason TEXT,
  priority INTEGER NOT NULL,
  inputs TEXT NOT NULL,
  limits TEXT NOT NULL,
  delegation TEXT,
  deadline_ms BIGINT,
  expires_ms BIGINT,
  retry_of TEXT,
  result TEXT,
  result_ref TEXT,
  error TEXT,
  labels TEXT NOT NULL,
  rehearsal INTEGER NOT NULL,
  created_ms BIGINT NOT NULL,
  updated_ms BIGINT NOT NULL,
  ended_ms BIGINT
);
CREATE INDEX tasks_by_status ON tasks (status, id);
CREATE INDEX tasks_by_agent ON tasks (assigned_to, id);
CREATE INDEX tasks_by_root ON tasks (root_task_id, id);
CREATE INDEX tasks_by_parent ON tasks (parent_task_id, id);
CREATE INDEX tasks_by_context ON tasks (context_id, id);
CREATE INDEX tasks_by_expiry ON tasks (expires_ms) WHERE ended_ms IS NULL AND expires_ms IS NOT NULL;
CREATE TABLE task_counts (
  agent TEXT NOT NULL,
  status TEXT NOT NULL,
  n BIGINT NOT NULL,
  PRIMARY KEY (agent, status)
);
CREATE TABLE task_deps (
  task_id TEXT NOT NULL,
  after_id TEXT NOT NULL,
  PRIMARY KEY (task_id, after_id)
);
CREATE INDEX task_deps_by_after ON task_deps (after_id);
CREATE TABLE runs (
  id TEXT PRIMARY KEY,
  task_id TEXT NOT NULL,
  agent TEXT NOT NULL,
  priority INTEGER NOT NULL,
  fence INTEGER NOT NULL,
  status TEXT NOT NULL,
  outcome TEXT,
  activations INTEGER NOT NULL,
  crashes INTEGER NOT NULL,
  not_before_ms BIGINT NOT NULL,
  lease_until_ms BIGINT,
  briefing TEXT,
  created_ms BIGINT NOT NULL,
  ended_ms BIGINT
);
CREATE INDEX runs_by_task ON runs (task_id, id);
CREATE INDEX runs_by_status ON runs (status, priority, id) WHERE status <> 'ended';
CREATE TABLE waits (
  id TEXT PRIMARY KEY,
  run_id TEXT NOT NULL,
  task_id TEXT NOT NULL,
  call_id TEXT NOT NULL,
  kind TEXT NOT NULL,
  ended_by TEXT NOT NULL,
  question TEXT,
  choices TEXT NOT NULL,
  child_task_id TEXT,
  from_principal TEXT,
  message_id TEXT,
  due_ms BIGINT,
  expires_ms BIGINT,
  next_ms BIGINT,
  status TEXT NOT NULL,
  needed INTEGER NOT NULL,
  outcome TEXT,
  answer TEXT,
  answered_by TEXT,
  opened_ms BIGINT NOT NULL,
  ended_ms BIGINT
);
CREATE INDEX waits_by_status ON waits (status, id);
CREATE INDEX waits_by_run ON waits (run_id, status);
CREATE INDEX waits_by_task ON waits (task_id, id);
CREATE INDEX waits_by_child ON waits (child_task_id) WHERE child_task_id IS NOT NULL;
CREATE INDEX waits_by_next ON waits (next_ms) WHERE status = 'open' AND next_ms IS NOT NULL;
CREATE TABLE messages (
  id TEXT PRIMARY KEY,
  type TEXT NOT NULL,
  context_id TEXT NOT NULL,
  task_id TEXT,
  from_principal TEXT NOT NULL,
  to_principal TEXT NOT NULL,
  in_reply_to TEXT,
  labels TEXT NOT NULL,
  parts TEXT NOT NULL,
  pair_seq BIGINT NOT NULL,
  sent_ms BIGINT NOT NULL,
  delivered_ms BIGINT,
  delivered_run TEXT,
  delivered_step INTEGER
);
CREATE UNIQUE INDEX messages_by_pair ON messages (from_principal, to_principal, pair_seq);
CREATE INDEX messages_by_context ON messages (context_id, id);
CREATE INDEX messages_waiting ON messages (to_principal, context_id, id) WHERE delivered_ms IS NULL;
CREATE INDEX messages_by_step ON messages (delivered_run, delivered_step) WHERE delivered_run IS NOT NULL;
CREATE TABLE inbox_steps (
  run_id TEXT NOT NULL,
  step INTEGER NOT NULL,
  PRIMARY KEY (run_id, step)
);
CREATE TABLE artifacts (
  id TEXT PRIMARY KEY,
  name TEXT NOT NULL,
  mime_type TEXT NOT NULL,
  size_bytes BIGINT NOT NULL,
  object_hash TEXT NOT NULL,
  created_by TEXT NOT NULL,
  task_id TEXT,
  context_id TEXT,
  labels TEXT NOT NULL,
  created_ms BIGINT NOT NULL
);
CREATE INDEX artifacts_by_task ON artifacts (task_id, id);
CREATE INDEX artifacts_by_context ON artifacts (context_id, id);
CREATE TABLE halt (id INTEGER PRIMARY KEY, reason TEXT NOT NULL, since_ms BIGINT NOT NULL);
${OUTBOX_TABLES}
${IDEMPOTENCY_TABLE}
`,
  'ALTER TABLE tasks ADD COLUMN workspace TEXT',
  NARROWER_SCOPES,
  INDEXES_FOR_HISTORY,
  BRIEFING_PARTS,
  QUEUED_SINCE,
  RETENTION_TABLES,
  RESTORED_TREES,
  'ALTER TABLE tasks ADD COLUMN workspace_mode TEXT',
  LAYER_ACTIONS,
  PROGRAMS,
  OWN_LAYERS,
  MEMORY,
  PROGRAM_LIST,
  'ALTER TABLE runs ADD COLUMN persona_hash TEXT',
  NOTICES,
  BOARD,
  ERASURE_TABLES,
  SHARED_ARTIFACTS,
  DIGESTS,
  THREADS,
];
