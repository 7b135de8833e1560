// The tables of memoryd. All of them but the outbox and `copies_due` can be made again from the
// journal, and the vectors with a model.
import type { IdColumns } from '../../../platform/find-ids.ts';
import { OUTBOX_TABLES } from '../../../platform/outbox.ts';
import { IDEMPOTENCY_TABLE } from '../../../platform/sql/idempotency.ts';
import { INDEX_TABLES } from '../index/index.ts';

export const ID_COLUMNS: IdColumns = { memory: ['memories', 'id'] };

const RECORDS = `
-- since_ms: when it became current; NULL while it is proposed. ended_ms: when it ceased to be.
CREATE TABLE versions (
  number BIGINT PRIMARY KEY,
  memory_id TEXT NOT NULL,
  version INTEGER NOT NULL,
  text TEXT,
  object TEXT,
  size_bytes BIGINT NOT NULL,
  about TEXT NOT NULL,
  labels TEXT NOT NULL,
  recorded_ms BIGINT NOT NULL,
  since_ms BIGINT,
  ended_ms BIGINT,
  valid_from_ms BIGINT,
  valid_to_ms BIGINT,
  author TEXT NOT NULL,
  run TEXT,
  UNIQUE (memory_id, version)
);
CREATE TABLE memories (
  id TEXT PRIMARY KEY,
  number BIGINT NOT NULL,
  class TEXT NOT NULL,
  scope TEXT NOT NULL,
  status TEXT NOT NULL,
  version INTEGER NOT NULL,
  created_ms BIGINT NOT NULL,
  expires_ms BIGINT
);
CREATE TABLE links (
  from_id TEXT NOT NULL,
  from_version INTEGER NOT NULL,
  kind TEXT NOT NULL,
  to_id TEXT NOT NULL,
  to_version INTEGER NOT NULL,
  PRIMARY KEY (from_id, from_version, kind, to_id, to_version)
);
CREATE INDEX links_by_target ON links (to_id);
CREATE TABLE scopes (scope TEXT PRIMARY KEY, memories BIGINT NOT NULL);
CREATE TABLE snapshots (
  id TEXT PRIMARY KEY,
  name TEXT NOT NULL,
  scope TEXT NOT NULL,
  at_ms BIGINT NOT NULL,
  author TEXT NOT NULL
);
-- next: the number of the next change to apply, which is in the file of this day or a later one.
-- told: changes from this number on have no events yet.
CREATE TABLE progress (
  one INTEGER PRIMARY KEY CHECK (one = 1),
  next BIGINT NOT NULL,
  told BIGINT NOT NULL,
  day TEXT NOT NULL
);
INSERT INTO progress (one, next, told, day) VALUES (1, 1, 1, '');`;

const LISTS = `
CREATE INDEX memories_by_scope ON memories (scope, id);
CREATE INDEX memories_by_expiry ON memories (expires_ms)
  WHERE status = 'active' AND expires_ms IS NOT NULL;
CREATE INDEX versions_by_object ON versions (object) WHERE object IS NOT NULL;
-- Changes whose texts are still to be removed from the journal, and objects from the disk.
CREATE TABLE erasures (number BIGINT PRIMARY KEY, object TEXT, recorded_ms BIGINT NOT NULL);`;

/**
 * memories.episode_of: the root task, of an episode as the platform kept it. scopes.episodes,
 * scopes.episode_bytes: those of them; scopes.bytes: all texts; scopes.object_bytes: long ones.
 */
const RETENTION = `
ALTER TABLE memories ADD COLUMN episode_of TEXT;
UPDATE memories SET episode_of = (
  SELECT json_extract(v.run, '$.root_task_id') FROM versions v
  WHERE v.memory_id = memories.id AND v.version = memories.version AND v.author = 'service:agentd');
CREATE INDEX episodes_by_age ON memories (id) WHERE episode_of IS NOT NULL;
CREATE INDEX episodes_by_scope ON memories (scope, id) WHERE episode_of IS NOT NULL;
CREATE INDEX episodes_by_tree ON memories (episode_of, id) WHERE episode_of IS NOT NULL;
ALTER TABLE scopes ADD COLUMN bytes BIGINT NOT NULL DEFAULT 0;
ALTER TABLE scopes ADD COLUMN object_bytes BIGINT NOT NULL DEFAULT 0;
ALTER TABLE scopes ADD COLUMN episodes BIGINT NOT NULL DEFAULT 0;
ALTER TABLE scopes ADD COLUMN episode_bytes BIGINT NOT NULL DEFAULT 0;
UPDATE scopes SET bytes = (
  SELECT COALESCE(SUM(v.size_bytes), 0) FROM memories m JOIN versions v ON v.memory_id = m.id
  WHERE m.scope = scopes.scope AND (v.text IS NOT NULL OR v.object IS NOT NULL));
UPDATE scopes SET object_bytes = (
  SELECT COALESCE(SUM(v.size_bytes), 0) FROM memories m JOIN versions v ON v.memory_id = m.id
  WHERE m.scope = scopes.scope AND v.object IS NOT NULL);
UPDATE scopes SET episodes = (
  SELECT COUNT(*) FROM memories m WHERE m.scope = scopes.scope AND m.episode_of IS NOT NULL);
UPDATE scopes SET episode_bytes = (
  SELECT COALESCE(SUM(v.size_bytes), 0) FROM memories m JOIN versions v ON v.memory_id = m.id
  WHERE m.scope = scopes.scope AND m.episode_of IS NOT NULL
    AND (v.text IS NOT NULL OR v.object IS NOT NULL));
-- Memories that were pruned while the journal has changes of them. number: of the change that did.
CREATE TABLE pruned (memory_id TEXT PRIMARY KEY, number BIGINT NOT NULL);
-- Days whose file has changes of pruned memories, and from when on it may be compacted.
CREATE TABLE compactions (day TEXT PRIMARY KEY, due_ms BIGINT NOT NULL);
-- Objects of pruned memories, which nothing else may refer to any more.
CREATE TABLE dropped_objects (hash TEXT PRIMARY KEY);`;

const PROPOSED = `
CREATE INDEX memories_proposed ON memories (id) WHERE status = 'proposed';`;

/**
 * The changes of procedural memories. procedures.rewrite: how many were forgotten since their files
 * were written.
 */
const PROCEDURES = `
CREATE TABLE procedure_changes (
  number BIGINT PRIMARY KEY,
  memory_id TEXT NOT NULL,
  version INTEGER NOT NULL,
  did TEXT NOT NULL,
  at_ms BIGINT NOT NULL,
  author TEXT NOT NULL,
  run TEXT
);
CREATE INDEX procedure_changes_by_memory ON procedure_changes (memory_id);
INSERT INTO procedure_changes (number, memory_id, version, did, at_ms, author, run)
  SELECT v.number, v.memory_id, v.version, 'remember', v.since_ms, v.author, v.run
  FROM memories m JOIN versions v ON v.memory_id = m.id
  WHERE m.class = 'procedural' AND m.status = 'active' AND v.since_ms IS NOT NULL;
CREATE TABLE procedures (
  one INTEGER PRIMARY KEY CHECK (one = 1),
  rewrite INTEGER NOT NULL
);
INSERT INTO procedures (one, rewrite) VALUES (1, 0);`;

/**
 * The texts of forgotten memories until agentd has them, to remove their copies elsewhere. Like the
 * outbox it does not follow from the journal, which has these texts no more.
 */
const COPIES_DUE = 'CREATE TABLE copies_due (memory_id TEXT PRIMARY KEY, texts TEXT NOT NULL);';

/** memories.forgotten: the change that forgot it; 0: one before this column was. */
const FORGOTTEN = `
ALTER TABLE memories ADD COLUMN forgotten BIGINT;
UPDATE memories SET forgotten = 0 WHERE status = 'forgotten';
CREATE INDEX memories_forgotten ON memories (forgotten) WHERE forgotten IS NOT NULL;`;

/**
 * Vectors of the versions in the index, each of one model. vectors_due: versions that are to get
 * one; due_ms is NULL for one that was refused. embedder: for what model, as configured, all
 * versions have one or are due, if `whole`.
 */
const VECTORS = `
CREATE TABLE vectors (
  number INTEGER PRIMARY KEY,
  scope TEXT NOT NULL,
  model TEXT NOT NULL,
  vector BLOB NOT NULL
);
CREATE INDEX vectors_by_scope ON vectors (scope, model, number);
CREATE TABLE vectors_due (number INTEGER PRIMARY KEY, due_ms BIGINT, refused TEXT);
CREATE INDEX vectors_due_by_time ON vectors_due (due_ms, number);
CREATE TABLE embedder (
  one INTEGER PRIMARY KEY CHECK (one = 1),
  name TEXT NOT NULL,
  model TEXT,
  whole INTEGER NOT NULL
);`;

/** vectors: in which block the vector of a version is. Those made before are made again. */
const VECTOR_BLOCKS = `
DROP TABLE vectors;
CREATE TABLE vectors (number INTEGER PRIMARY KEY, model TEXT NOT NULL, block INTEGER NOT NULL);
CREATE TABLE vector_blocks (
  block INTEGER PRIMARY KEY,
  scope TEXT NOT NULL,
  model TEXT NOT NULL,
  numbers BLOB NOT NULL,
  vectors BLOB NOT NULL
);
CREATE INDEX vector_blocks_by_scope ON vector_blocks (scope, model, block);
UPDATE embedder SET whole = 0;`;

export const MIGRATIONS = [
  `${OUTBOX_TABLES}\n${IDEMPOTENCY_TABLE}\n${RECORDS}\n${INDEX_TABLES}`,
  LISTS,
  RETENTION,
  PROPOSED,
  PROCEDURES,
  COPIES_DUE,
  FORGOTTEN,
  VECTORS,
  VECTOR_BLOCKS,
];

/**
 * The tables that a rebuild empties; those of the index are its own. What is left to do in files
 * (`compactions`, `dropped_objects`) stays.
 */
export const DERIVED_TABLES = [
  'versions',
  'memories',
  'links',
  'scopes',
  'snapshots',
  'once',
  'erasures',
  'pruned',
  'procedure_changes',
] as const;

export type VersionRow = {
  number: number;
  memory_id: string;
  version: number;
  text: string | null;
  object: string | null;
  size_bytes: number;
  about: string;
  labels: string;
  recorded_ms: number;
  since_ms: number | null;
  ended_ms: number | null;
  valid_from_ms: number | null;
  valid_to_ms: number | null;
  author: string;
  run: string | null;
};

export type MemoryRow = {
  id: string;
  number: number;
  class: string;
  scope: string;
  status: string;
  version: number;
  created_ms: number;
  expires_ms: number | null;
  episode_of: string | null;
  forgotten: number | null;
};
export type LinkRow = {
  from_id: string;
  from_version: number;
  kind: string;
  to_id: string;
  to_version: number;
};

export type SnapshotRow = {
  id: string;
  name: string;
  scope: string;
  at_ms: number;
  author: string;
};
export type ProcedureChangeRow = {
  number: number;
  memory_id: string;
  version: number;
  /** The operation; `end`: it ceased to be in force. */
  did: string;
  at_ms: number;
  author: string;
  run: string | null;
};
export type CopiesDueRow = { memory_id: string; texts: string };
export type ErasureRow = { number: number; object: string | null; recorded_ms: number };
