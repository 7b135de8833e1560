// The tables of memoryd. All of them but the outbox can be made again from the journal.
import { OUTBOX_TABLES } from '../../../platform/outbox.ts';
import { IDEMPOTENCY_TABLE } from '../../../platform/sql/idempotency.ts';
import { INDEX_TABLES } from '../index/index.ts';

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

export const MIGRATIONS = [
  `${OUTBOX_TABLES}\n${IDEMPOTENCY_TABLE}\n${RECORDS}\n${INDEX_TABLES}`,
  LISTS,
];

/** The tables that a rebuild empties; those of the index are its own. */
export const DERIVED_TABLES = [
  'versions',
  'memories',
  'links',
  'scopes',
  'snapshots',
  'once',
  'erasures',
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
export type ErasureRow = { number: number; object: string | null; recorded_ms: number };
