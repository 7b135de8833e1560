// modeld's tables. A call has one row per attempt; bodies of messages and responses are parts,
// stored once each by content hash; a budget's reservations are the sum over rows that still run.
// Released migrations never change: later changes are added after them.
import type { IdColumns } from '../../../platform/find-ids.ts';
import { OUTBOX_TABLES } from '../../../platform/outbox.ts';
import type { Migrations } from '../../../platform/sql/database.ts';
import { API_KEYS } from './api-keys.ts';
import { PARTS_BY_KEY } from './parts.ts';
import { USAGE_HOURS, USAGE_PRINCIPALS, USAGE_TOTALS } from './usage.ts';

export const ID_COLUMNS: IdColumns = { call: ['model_calls', 'call_id'] };

const FIRST = `
CREATE TABLE model_calls (
  seq INTEGER PRIMARY KEY,
  call_id TEXT NOT NULL,
  attempt INTEGER NOT NULL,
  status TEXT NOT NULL,
  run_id TEXT,
  fence INTEGER,
  principal TEXT NOT NULL,
  agent TEXT NOT NULL,
  task_id TEXT,
  root_task_id TEXT,
  via TEXT NOT NULL,
  model TEXT NOT NULL,
  provider TEXT NOT NULL,
  upstream_model TEXT NOT NULL,
  rehearsal INTEGER NOT NULL,
  purpose TEXT NOT NULL,
  request_hash TEXT NOT NULL,
  context BLOB NOT NULL,
  params TEXT NOT NULL,
  reserved_tokens INTEGER NOT NULL,
  reserved_cost INTEGER NOT NULL,
  charged_tokens INTEGER NOT NULL DEFAULT 0,
  created_ms INTEGER NOT NULL,
  ended_ms INTEGER,
  stop_reason TEXT,
  response TEXT,
  error TEXT,
  tries INTEGER NOT NULL DEFAULT 0,
  input_tokens INTEGER,
  output_tokens INTEGER NOT NULL DEFAULT 0,
  cache_read_tokens INTEGER NOT NULL DEFAULT 0,
  cache_write_tokens INTEGER NOT NULL DEFAULT 0,
  reasoning_tokens INTEGER NOT NULL DEFAULT 0,
  cost INTEGER NOT NULL DEFAULT 0
);
CREATE UNIQUE INDEX model_calls_by_id ON model_calls (call_id, attempt);
CREATE INDEX model_calls_by_time ON model_calls (created_ms);
CREATE INDEX model_calls_by_run ON model_calls (run_id, seq) WHERE run_id IS NOT NULL;
CREATE INDEX model_calls_by_task ON model_calls (task_id, seq) WHERE task_id IS NOT NULL;
CREATE INDEX model_calls_running ON model_calls (seq) WHERE status = 'running';
CREATE TABLE parts (
  hash TEXT PRIMARY KEY,
  body TEXT,
  labels INTEGER NOT NULL,
  source TEXT NOT NULL,
  created_ms INTEGER NOT NULL
);
CREATE TABLE budget_limits (
  subject TEXT NOT NULL,
  name TEXT NOT NULL,
  tokens_limit INTEGER,
  cost_limit INTEGER,
  set_by TEXT NOT NULL,
  PRIMARY KEY (subject, name)
) WITHOUT ROWID;
CREATE TABLE budget_spent (
  subject TEXT NOT NULL,
  name TEXT NOT NULL,
  period TEXT NOT NULL,
  tokens INTEGER NOT NULL,
  cost INTEGER NOT NULL,
  PRIMARY KEY (subject, name, period)
) WITHOUT ROWID;
CREATE TABLE providers (
  name TEXT PRIMARY KEY,
  dialect TEXT NOT NULL,
  base_url TEXT NOT NULL,
  models TEXT NOT NULL,
  created_ms INTEGER NOT NULL
);
CREATE TABLE runs (
  run_id TEXT PRIMARY KEY,
  fence INTEGER NOT NULL,
  admitted INTEGER NOT NULL,
  body TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX runs_admitted ON runs (run_id) WHERE admitted = 1;
CREATE TABLE embeddings (
  model TEXT NOT NULL,
  hash TEXT NOT NULL,
  vector BLOB NOT NULL,
  PRIMARY KEY (model, hash)
) WITHOUT ROWID;
${OUTBOX_TABLES}`;

/** The first 48 bits of a hash as a number, in SQL. */
const KEY_OF_HASH = Array.from(
  { length: 12 },
  (_, i) => `((instr('0123456789abcdef', substr(hash, ${i + 1}, 1)) - 1) << ${44 - 4 * i})`,
).join(' | ');

const PARTS_WITH_KEYS = `
ALTER TABLE parts RENAME TO parts_by_hash;
CREATE TABLE parts (
  id INTEGER PRIMARY KEY,
  hash TEXT NOT NULL,
  labels INTEGER NOT NULL,
  source TEXT NOT NULL,
  created_ms INTEGER NOT NULL,
  body TEXT
);
INSERT INTO parts (hash, labels, source, created_ms, body)
  SELECT hash, labels, source, created_ms, body FROM parts_by_hash ORDER BY rowid;
DROP TABLE parts_by_hash;
CREATE TABLE part_keys (
  key INTEGER NOT NULL,
  id INTEGER NOT NULL,
  PRIMARY KEY (key, id)
) WITHOUT ROWID;
INSERT INTO part_keys (key, id) SELECT ${KEY_OF_HASH} AS key, id FROM parts ORDER BY key, id;
CREATE TABLE part_keys_end (id INTEGER NOT NULL);
INSERT INTO part_keys_end (id) SELECT COALESCE(MAX(id), 0) FROM parts;`;

/** In SQLite an INTEGER PRIMARY KEY is the rowid itself and needs no separate index. */
const OUTBOX_IN_ONE_TREE = `
CREATE TABLE outbox_new (seq INTEGER PRIMARY KEY, event TEXT NOT NULL);
INSERT INTO outbox_new (seq, event) SELECT seq, event FROM outbox ORDER BY seq;
DROP TABLE outbox;
ALTER TABLE outbox_new RENAME TO outbox;`;

/** The labels added to a run after its admission, as bits. State from between releases has it. */
const RUN_LABELS = `
CREATE TABLE IF NOT EXISTS run_labels (
  run_id TEXT PRIMARY KEY,
  labels INTEGER NOT NULL
) WITHOUT ROWID;`;

/** The operator's price in USD per million tokens, as JSON. */
const PROVIDER_PRICE = 'ALTER TABLE providers ADD COLUMN price TEXT;';

/** Replaces two indexes by low-water marks: the first call of each hour, and of those running. */
const MARKS = `
DROP INDEX model_calls_by_time;
CREATE TABLE call_hours (hour INTEGER PRIMARY KEY, seq INTEGER NOT NULL);
INSERT INTO call_hours (hour, seq)
  SELECT created_ms / 3600000, MIN(seq) FROM model_calls GROUP BY created_ms / 3600000;
CREATE TABLE calls_open (seq INTEGER NOT NULL);
INSERT INTO calls_open (seq) VALUES (COALESCE(
  (SELECT MIN(seq) FROM model_calls WHERE status = 'running'),
  (SELECT MAX(seq) + 1 FROM model_calls), 1));
DROP INDEX model_calls_running;`;

/** Restores the indexes: maintaining the marks took more code than it saved time. */
const RESTORED_INDEXES = `
DROP TABLE call_hours;
DROP TABLE calls_open;
CREATE INDEX model_calls_by_time ON model_calls (created_ms);
CREATE INDEX model_calls_running ON model_calls (seq) WHERE status = 'running';`;

/** A plain index replaces the keys, which were added in batches to save time. */
const PARTS_INDEX = `
CREATE INDEX parts_by_hash ON parts (hash);
DROP TABLE part_keys;
DROP TABLE part_keys_end;`;

/** Finds the rows of one day. Other budgets have no period. */
const BUDGETS_OF_A_DAY = `
CREATE INDEX budget_spent_by_day ON budget_spent (period) WHERE period <> '';`;

/**
 * Retention. `part_uses` counts the uses of parts by calls up to `parts_counted`; a row of `runs`
 * outlives the calls of its run as a tombstone, a row of `pruned_calls` a call without a run.
 */
const RETENTION = `
CREATE TABLE part_uses (
  part_id INTEGER PRIMARY KEY,
  n INTEGER NOT NULL,
  agent TEXT NOT NULL,
  bytes INTEGER NOT NULL
);
CREATE TABLE parts_counted (seq INTEGER NOT NULL);
INSERT INTO parts_counted (seq) VALUES (0);
CREATE TABLE context_sizes (
  agent TEXT PRIMARY KEY,
  parts INTEGER NOT NULL,
  bytes INTEGER NOT NULL
) WITHOUT ROWID;
ALTER TABLE runs ADD COLUMN contexts_pruned_ms INTEGER;
ALTER TABLE runs ADD COLUMN pruned_ms INTEGER;
ALTER TABLE runs ADD COLUMN pruned_task_id TEXT;
CREATE INDEX runs_with_contexts ON runs (run_id)
  WHERE contexts_pruned_ms IS NULL AND admitted = 0;
CREATE INDEX runs_pruned ON runs (pruned_ms) WHERE pruned_ms IS NOT NULL;
CREATE INDEX runs_pruned_by_tail ON runs (substr(run_id, 11)) WHERE pruned_ms IS NOT NULL;
CREATE INDEX runs_pruned_by_task ON runs (pruned_task_id) WHERE pruned_ms IS NOT NULL;
CREATE TABLE pruned_calls (call_id TEXT PRIMARY KEY, pruned_ms INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX pruned_calls_by_time ON pruned_calls (pruned_ms);
CREATE INDEX model_calls_by_people ON model_calls (created_ms) WHERE run_id IS NULL;`;

/** Names that operators let stand for a model. */
const ALIASES = `
CREATE TABLE model_aliases (pattern TEXT PRIMARY KEY, model TEXT NOT NULL) WITHOUT ROWID;`;

/** The period of a key's or a person's budget. */
const BUDGET_PERIODS = 'ALTER TABLE budget_limits ADD COLUMN period TEXT;';

export const MIGRATIONS: Migrations = [
  FIRST,
  `${PARTS_WITH_KEYS}${OUTBOX_IN_ONE_TREE}`,
  RUN_LABELS,
  PROVIDER_PRICE,
  MARKS,
  RESTORED_INDEXES,
  PARTS_INDEX,
  `${USAGE_HOURS}${BUDGETS_OF_A_DAY}`,
  `DROP INDEX parts_by_hash;\n${PARTS_BY_KEY}`,
  RETENTION,
  USAGE_TOTALS,
  API_KEYS,
  ALIASES,
  BUDGET_PERIODS,
  USAGE_PRINCIPALS,
];
