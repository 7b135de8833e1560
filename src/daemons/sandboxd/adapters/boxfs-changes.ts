// Decodes the list of changes of a layered workspace, as boxfs finds it (native/boxfs/changes.c).
import { fault } from '../../../wire/errors.ts';
import { type Fields, frame, OP, pathField, u8, u16, u32 } from './boxfs-wire.ts';

/** `replaced`: by another type of file; what was and is in a directory is listed separately. */
const KINDS = ['added', 'modified', 'deleted', 'replaced', 'mode'] as const;

/** One side of a change. `mode` includes the type; `sha256` is of a file's bytes, if hashed. */
export type ChangeSide = {
  mode: number;
  sizeBytes: number;
  changedNs: bigint;
  sha256: string | null;
  linkTarget: string;
};

export type LayerChange = {
  /** Lossless, as `decodePath` makes it. */
  path: string;
  kind: (typeof KINDS)[number];
  /** Undefined: it did not exist. */
  before: ChangeSide | undefined;
  /** Undefined: it does not exist any more. */
  after: ChangeSide | undefined;
  hasCapabilities: boolean;
  /** A directory that could not be read on one side: nothing in it is listed. */
  isClosed: boolean;
  isHardLinked: boolean;
  /** Its bytes are those of a lower file, because a directory above it was renamed. */
  isShared: boolean;
  /** Only of a copy: what was copied; null: there was nothing. */
  base?: ChangeSide | null;
};

const FLAGS = {
  oldHashed: 1,
  newHashed: 2,
  capabilities: 4,
  hardLinked: 16,
  shared: 32,
  closed: 64,
};

/**
 * Roots of the merged view, the upper and the lower directory; of a copy, the second is that of its
 * record. See native/boxfs/changes.c.
 */
export function encodeChanges(
  id: number,
  roots: readonly [number, number, number],
  page: { limit: number; after: string; isCopy: boolean },
): Buffer {
  const { limit, after, isCopy } = page;
  const places = [...roots.map(u16), u8(isCopy ? 1 : 0)];
  return frame(OP.changes, id, [...places, u32(limit), pathField(after)]);
}

function decodeBase(fields: Fields): ChangeSide | null {
  if (fields.u8() === 0) return null;
  const mode = fields.u32();
  const isHashed = fields.u8() === 1 && (mode & 0o170000) === 0o100000;
  const sha256 = fields.hex(32);
  const sides = { sizeBytes: 0, changedNs: 0n, linkTarget: fields.path() };
  return { mode, sha256: isHashed ? sha256 : null, ...sides };
}

function decodeSide(fields: Fields, isHashed: boolean): Omit<ChangeSide, 'linkTarget'> {
  const mode = fields.u32();
  const sizeBytes = Math.min(fields.u64(), Number.MAX_SAFE_INTEGER);
  const changedNs = fields.bigint();
  const sha256 = fields.hex(32);
  return { mode, sizeBytes, changedNs, sha256: isHashed ? sha256 : null };
}

function decodeChange(fields: Fields, isCopy: boolean): LayerChange {
  const kind = KINDS[fields.u8() - 1];
  if (kind === undefined) throw fault('bad_output', 'boxfs sent an unknown kind of change');
  const flags = fields.u8();
  const path = fields.path();
  const before = decodeSide(fields, (flags & FLAGS.oldHashed) !== 0);
  const after = decodeSide(fields, (flags & FLAGS.newHashed) !== 0);
  const [beforeTarget, afterTarget] = [fields.path(), fields.path()];
  return {
    path,
    kind,
    before: before.mode === 0 ? undefined : { ...before, linkTarget: beforeTarget },
    after: after.mode === 0 ? undefined : { ...after, linkTarget: afterTarget },
    hasCapabilities: (flags & FLAGS.capabilities) !== 0,
    isClosed: (flags & FLAGS.closed) !== 0,
    isHardLinked: (flags & FLAGS.hardLinked) !== 0,
    isShared: (flags & FLAGS.shared) !== 0,
    ...(isCopy ? { base: decodeBase(fields) } : {}),
  };
}

/** Returns one page, and the `after` of the next one. */
export function decodeChanges(
  fields: Fields,
  isCopy: boolean,
): { changes: LayerChange[]; next: string | null } {
  const more = fields.u8() === 1;
  const changes = Array.from({ length: fields.u32() }, () => decodeChange(fields, isCopy));
  return { changes, next: more ? (changes.at(-1)?.path ?? null) : null };
}
