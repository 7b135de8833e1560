// The tables of layers, as migrations; layer-rows.ts has their methods.
export const LAYER_TABLES = `
CREATE TABLE layers (
  root_task_id TEXT PRIMARY KEY,
  path TEXT NOT NULL,
  directory_id TEXT,
  number BIGINT NOT NULL,
  sealed TEXT NOT NULL,
  began_ns TEXT NOT NULL,
  created_ms BIGINT NOT NULL
);
CREATE TABLE layer_bases (
  root_task_id TEXT NOT NULL,
  path TEXT NOT NULL,
  side TEXT NOT NULL,
  PRIMARY KEY (root_task_id, path)
);
CREATE TABLE layer_applies (
  root_task_id TEXT NOT NULL,
  apply_id TEXT NOT NULL,
  state TEXT NOT NULL,
  change_sha256 TEXT NOT NULL,
  changes TEXT NOT NULL,
  is_whole INTEGER NOT NULL,
  begun_ms BIGINT NOT NULL,
  done_ms BIGINT,
  PRIMARY KEY (root_task_id, apply_id)
);
CREATE INDEX layer_applies_open ON layer_applies (state)
  WHERE state IN ('applying', 'undoing');`;

/** The emptied layer of the last full apply, for an undo to make current again. */
export const LAYER_KEPT_TABLES = `
CREATE TABLE layer_kept (
  root_task_id TEXT PRIMARY KEY,
  apply_id TEXT NOT NULL,
  number BIGINT NOT NULL,
  sealed TEXT NOT NULL,
  began_ns TEXT NOT NULL,
  bases TEXT NOT NULL
);
ALTER TABLE layer_applies ADD COLUMN layer_began_ns TEXT;
UPDATE layer_applies SET layer_began_ns = (
    SELECT began_ns FROM layers
    WHERE layers.root_task_id = layer_applies.root_task_id
      AND CAST(began_ns AS INTEGER) / 1000000 <= layer_applies.begun_ms)
  WHERE is_whole = 0;`;

/** The commits of an apply, as a plan; null: none. */
export const LAYER_COMMITS_TABLES = 'ALTER TABLE layer_applies ADD COLUMN commits TEXT;';

/** Layers of subtasks: the root task of their tree, the layer they are above, and its parts. */
export const LAYER_OWN_TABLES = `
ALTER TABLE layers ADD COLUMN tree_id TEXT;
ALTER TABLE layers ADD COLUMN parent_id TEXT;
ALTER TABLE layers ADD COLUMN base TEXT;
CREATE INDEX layers_own ON layers (tree_id) WHERE tree_id IS NOT NULL;`;

/** Layers that are copies: the sizes of their copies by number; null: an overlay. */
export const LAYER_COPIES_TABLES = 'ALTER TABLE layers ADD COLUMN copies TEXT;';
