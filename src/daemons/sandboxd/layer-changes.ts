// The meaning of a layer's changes: how they are shown, where a person has changed the same path,
// and which are refused. Pure.
import { hashChanges } from '../../platform/change-hash.ts';
import { APPLY_KINDS } from '../../policy/apply-kinds.ts';
import { type Fault, fault } from '../../wire/errors.ts';
import type { LayerChangeView, LayerConflict, LayerSide } from '../../wire/sandboxd/layers.ts';
import type { ChangeSide, LayerChange } from './adapters/boxfs-changes.ts';
import type { AppliedChange, BaseSide } from './layer-rows.ts';

const TYPE = 0o170000;
const TYPES = new Map<number, LayerSide['type']>([
  [0o100000, 'file'],
  [0o040000, 'directory'],
  [0o120000, 'link'],
]);
const typeOf = ({ mode }: ChangeSide): LayerSide['type'] => TYPES.get(mode & TYPE) ?? 'other';
export const isFile = (side: ChangeSide | undefined): boolean =>
  side !== undefined && typeOf(side) === 'file';
export const isDirectory = (side: ChangeSide | undefined): boolean =>
  side !== undefined && typeOf(side) === 'directory';

/** The content that an apply leaves at a path, or expects there. */
export function toBaseSide(side: ChangeSide | null | undefined): BaseSide {
  if (side == null) return null;
  const type = typeOf(side);
  return {
    type,
    mode: side.mode & 0o7777,
    sha256: side.sha256,
    linkTarget: type === 'link' ? side.linkTarget : null,
  };
}

function isSame(a: BaseSide, b: BaseSide): boolean {
  if (a === null || b === null) return a === b;
  if (a.type !== b.type) return false;
  // The modes of links mean nothing.
  if (a.type === 'link') return a.linkTarget === b.linkTarget;
  return a.mode === b.mode && a.sha256 === b.sha256;
}

/**
 * Where an apply has written the path, it must still be as the apply left it. Elsewhere a file
 * must not have changed since the layer began. A directory's time changes with each name in it, so
 * it does not count: what is in it is listed, too.
 */
export function findConflict(
  { before, base: copied }: Pick<LayerChange, 'before' | 'base'>,
  applied: BaseSide | undefined,
  beganNs: bigint,
): LayerConflict | null {
  // A copy has a record of what was copied.
  const base = applied === undefined && copied !== undefined ? toBaseSide(copied) : applied;
  if (base !== undefined) {
    if (isSame(base, toBaseSide(before))) return null;
    if (base === null) return 'appeared';
    return before === undefined ? 'removed' : 'changed';
  }
  if (before === undefined || isDirectory(before)) return null;
  return before.changedNs >= beganNs ? 'changed' : null;
}

export const toSideView = (side: ChangeSide | undefined): LayerSide | null =>
  side === undefined
    ? null
    : {
        type: typeOf(side),
        mode: side.mode & 0o7777,
        size_bytes: side.sizeBytes,
        sha256: side.sha256,
        link_target: typeOf(side) === 'link' ? side.linkTarget : null,
      };

export const toChangeView = (
  change: AppliedChange,
  refused: readonly string[],
  conflict: LayerConflict | null,
): LayerChangeView => ({
  path: change.path,
  kind: change.kind,
  before: toSideView(change.before),
  after: toSideView(change.after),
  refused: [...refused],
  conflict,
  merged: change.agents !== undefined,
});

const handlingOf = (kind: string) => APPLY_KINDS.get(kind)?.handling ?? 'refused';

/** Changes that are made again, or come over in another way: they stay in the layer. */
const isLeftOut = ({ refused }: LayerChangeView, allow: readonly string[]): boolean =>
  refused.some((kind) => {
    const handling = handlingOf(kind);
    return handling === 'never' || (handling === 'left_out' && !allow.includes(kind));
  });

/** Everything that the person has agreed to. */
export type ApplyConsent = {
  /** Kinds of changes, by name. */
  allow: readonly string[];
  /** The hash of what she has seen. */
  expect?: string | undefined;
  /** The agents' side is written where it conflicts with hers. */
  overwrite?: boolean | undefined;
};

/**
 * Throws unless the changes may be applied; nothing is applied otherwise. Returns the paths that
 * are left out.
 */
export function assertApplicable(
  all: readonly LayerChangeView[],
  /** Those that a person has chosen; the others are new directories above them. */
  chosen: readonly LayerChangeView[],
  { allow, expect, overwrite }: ApplyConsent,
): { changeSha256: string; leftOut: ReadonlySet<string> } {
  const changeSha256 = hashChanges(chosen);
  if (expect !== undefined && expect !== changeSha256)
    throw fault('conflict', 'the changes are not those that were shown', {
      hint: 'Look at them again: agentctl task diff ID.',
      details: { reason: 'changed', change_sha256: changeSha256 },
    });
  const changes = all.filter((change) => !isLeftOut(change, allow));
  const refused = changes.flatMap(({ path, refused: kinds }) => {
    const left = kinds.filter((kind) => !allow.includes(kind));
    return left.length === 0 ? [] : [{ path, kinds: left }];
  });
  if (refused.length > 0) throw refusedFault(refused);
  const conflicts = changes.flatMap(({ path, conflict }) =>
    conflict === null || overwrite === true ? [] : [{ path, reason: conflict as string }],
  );
  if (conflicts.length > 0) throw conflictsFault(conflicts);
  const kept = new Set(changes);
  const leftOut = all.flatMap((change) => (kept.has(change) ? [] : [change.path]));
  return { changeSha256, leftOut: new Set(leftOut) };
}

/** In a fault's details: more would not help a person. */
const NAMED_MAX = 100;

function refusedFault(refused: readonly { path: string; kinds: string[] }[]): Fault {
  const [first] = refused;
  return fault('denied', `${countOthers(first!.path, refused.length)} may not be applied`, {
    hint: 'Allow the kind by name (--allow KIND), or apply other paths only.',
    details: { refused: refused.slice(0, NAMED_MAX) },
  });
}

export function conflictsFault(conflicts: readonly { path: string; reason: string }[]): Fault {
  const [first] = conflicts;
  const what = countOthers(first!.path, conflicts.length);
  return fault('conflict', `${what} was changed in the directory, too; nothing was applied`, {
    hint: 'Apply other paths only, or these with --overwrite, which undo takes back.',
    details: { conflicts: conflicts.slice(0, NAMED_MAX) },
  });
}

const countOthers = (path: string, count: number): string =>
  count === 1 ? path : `${path} and ${count - 1} more`;
