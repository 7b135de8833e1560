// The tables of the recall index. The store creates them together with its own.

/**
 * `memory_index_postings`: which records of a scope have a term, in parts of ascending ordinals.
 * `memory_index_entries`: facts about records, in blocks. `memory_index_threads`: the last record
 * of each thread, to which earlier ones are linked. `memory_index_records`: the terms of a record
 * in order, to remove it.
 */
export const INDEX_TABLES = `
CREATE TABLE memory_index_scopes (
  id INTEGER PRIMARY KEY,
  scope TEXT NOT NULL UNIQUE,
  next INTEGER NOT NULL,
  records INTEGER NOT NULL,
  terms INTEGER NOT NULL
);
CREATE TABLE memory_index_postings (
  scope_id INTEGER NOT NULL,
  term TEXT NOT NULL,
  part INTEGER NOT NULL,
  last INTEGER NOT NULL,
  records INTEGER NOT NULL,
  postings BLOB NOT NULL,
  PRIMARY KEY (scope_id, term, part)
) WITHOUT ROWID;
CREATE TABLE memory_index_entries (
  scope_id INTEGER NOT NULL,
  block INTEGER NOT NULL,
  entries BLOB NOT NULL,
  PRIMARY KEY (scope_id, block)
);
CREATE TABLE memory_index_threads (
  scope_id INTEGER NOT NULL,
  thread TEXT NOT NULL,
  last INTEGER NOT NULL,
  PRIMARY KEY (scope_id, thread)
) WITHOUT ROWID;
CREATE TABLE memory_index_records (
  number INTEGER PRIMARY KEY,
  scope_id INTEGER NOT NULL,
  ordinal INTEGER NOT NULL,
  thread TEXT,
  terms TEXT NOT NULL
);
`;
