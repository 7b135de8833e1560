// Turns changes into the steps of an install, as a pure function: in an order in which every
// directory exists before it is filled and is empty before it is removed.
import { type Fault, fault } from '../../wire/errors.ts';
import type { ChangeSide } from './adapters/boxfs-changes.ts';
import type { CheckedStep, InstallSide, InstallStep } from './adapters/boxfs-install.ts';
import { isDirectory } from './layer-changes.ts';
import type { AppliedChange } from './layer-rows.ts';

export type PlannedInstall = {
  steps: InstallStep[];
  /** Changes that no step can make: neither file, directory nor link, or without a hash. */
  impossible: { path: string; reason: 'special' | 'not_hashed' }[];
};

const TYPE = 0o170000;
const TYPES: ReadonlyMap<number, InstallSide['type']> = new Map([
  [0o100000, 'file'],
  [0o040000, 'directory'],
  [0o120000, 'link'],
]);
/** The owner needs these rights to change what is in a directory. */
const OPEN = 0o700;

/** Returns undefined if a step cannot express it. */
function sideOf(side: ChangeSide | undefined): InstallSide | null | undefined {
  if (side === undefined) return null;
  const mode = side.mode & 0o777;
  switch (TYPES.get(side.mode & TYPE)) {
    case 'file':
      return side.sha256 === null ? undefined : { type: 'file', mode, sha256: side.sha256 };
    case 'directory':
      return { type: 'directory', mode };
    case 'link':
      return { type: 'link', target: side.linkTarget };
    default:
      return undefined;
  }
}

const isSpecial = (side: ChangeSide | undefined): boolean =>
  side !== undefined && !TYPES.has(side.mode & TYPE);
const sizeOf = (side: ChangeSide | undefined): number =>
  side === undefined || (side.mode & TYPE) !== 0o100000 ? 0 : side.sizeBytes;
const isOpen = (side: InstallSide | null): boolean =>
  side?.type !== 'directory' || side.mode === null || (side.mode & OPEN) === OPEN;

/** The order of the steps. */
const STAGES = ['open', 'remove files', 'remove directories', 'turn', 'install', 'close'] as const;
type Stage = (typeof STAGES)[number];
/** The deepest path comes first. */
const INNER_FIRST: ReadonlySet<Stage> = new Set(['remove files', 'remove directories', 'close']);

/** The steps of one change; a directory that its owner cannot change is opened before. */
function stepsOf(step: InstallStep): { stage: Stage; step: InstallStep }[] {
  const { before, after } = step;
  if (before?.type === 'directory' && after?.type !== 'directory') {
    // Its mode does not matter any more: what counts is that it is empty.
    const any = { type: 'directory', mode: null } as const;
    const opened = { type: 'directory', mode: (before.mode ?? OPEN) | OPEN } as const;
    const opening = { ...step, before: any, after: opened, sizeBytes: 0, source: 'layer' as const };
    const removal = {
      stage: after === null ? ('remove directories' as const) : ('install' as const),
      step: { ...step, before: any },
    };
    return isOpen(before) ? [removal] : [{ stage: 'open', step: opening }, removal];
  }
  if (after === null) return [{ stage: 'remove files', step }];
  // A file that becomes a directory, before anything is put into it.
  const isTurned = after.type === 'directory' && before !== null && before.type !== 'directory';
  const stage = isTurned ? 'turn' : 'install';
  if (after.type !== 'directory' || isOpen(after)) return [{ stage, step }];
  const any = { type: 'directory', mode: null } as const;
  if (before?.type === 'directory') return [{ stage: 'close', step }];
  return [
    { stage, step: { ...step, after: any } },
    { stage: 'close', step: { ...step, before: any, sizeBytes: 0 } },
  ];
}

/** Expects the changes in the order in which boxfs lists them. */
export function planInstall(changes: readonly AppliedChange[]): PlannedInstall {
  const stages = new Map<Stage, InstallStep[]>(STAGES.map((stage) => [stage, []]));
  const impossible: PlannedInstall['impossible'] = [];
  for (const { path, before: was, after: is, isShared, agents } of changes) {
    const [before, after] = [sideOf(was), sideOf(is)];
    if (before === undefined || after === undefined) {
      const reason = isSpecial(was) || isSpecial(is) ? 'special' : 'not_hashed';
      impossible.push({ path, reason });
      continue;
    }
    const sizeBytes = sizeOf(was) + sizeOf(is);
    const source = agents !== undefined ? 'ready' : isShared ? 'copy' : 'layer';
    for (const { stage, step } of stepsOf({ path, before, after, sizeBytes, source }))
      stages.get(stage)!.push(step);
  }
  const steps = STAGES.flatMap((stage) => {
    const found = stages.get(stage)!;
    return INNER_FIRST.has(stage) ? found.toReversed() : found;
  });
  return { steps, impossible };
}

const KINDS_REVERSED = { added: 'deleted', deleted: 'added' } as const;

/** Returns the changes that undo these. */
export function reverseChanges(changes: readonly AppliedChange[]): AppliedChange[] {
  return changes.map((change) => ({
    ...change,
    kind: KINDS_REVERSED[change.kind as 'added' | 'deleted'] ?? change.kind,
    before: change.after,
    after: change.before,
    isShared: false,
    ...(change.agents === undefined ? {} : { agents: undefined }),
  }));
}

/** The changes that give the layer the texts that were merged for the directory. */
export const toLayerChanges = (changes: readonly AppliedChange[]): AppliedChange[] =>
  changes.flatMap((change) =>
    change.agents === undefined ? [] : [{ ...change, before: change.agents }],
  );

const isIn = (path: string, dir: string): boolean => path.startsWith(`${dir}/`);

/**
 * The changes at and below these paths, with the new directories that they are in. Throws if one of
 * these would replace a file or a link of the person: it was not chosen, so she has not seen it.
 */
export function selectChanges(
  changes: readonly AppliedChange[],
  paths: readonly string[],
): AppliedChange[] {
  const selected = changes.filter(({ path }) =>
    paths.some((chosen) => path === chosen || isIn(path, chosen)),
  );
  const parents = new Map<string, string>();
  for (const { path, after } of selected)
    for (let at = path.lastIndexOf('/'); after !== undefined && at > 0; ) {
      parents.set(path.slice(0, at), path);
      at = path.lastIndexOf('/', at - 1);
    }
  const chosen = new Set(selected);
  return changes.filter((change) => {
    if (chosen.has(change)) return true;
    const { path, before, after } = change;
    const child = parents.get(path);
    if (child === undefined || !isDirectory(after) || isDirectory(before)) return false;
    if (before !== undefined) throw replacedFault(path, child);
    return true;
  });
}

function replacedFault(parent: string, child: string): Fault {
  const what = `${parent} is a directory in the layer, in place of what is there`;
  return fault('conflict', `${child} cannot be applied alone: ${what}; nothing was applied`, {
    hint: `Look at ${parent}, and apply it as a whole: agentctl task apply ID ${parent}.`,
    details: { conflicts: [{ path: parent, reason: 'replaced' }] },
  });
}

/** Returns what is in the way of an install, by path; empty if it can start. */
export function findObstacles(checked: readonly CheckedStep[]): { path: string; reason: string }[] {
  const parentOf = (path: string): string => path.slice(0, Math.max(path.lastIndexOf('/'), 0));
  const made = new Set<string>();
  const opened = new Set<string>();
  const removed = new Map<string, number>();
  for (const { step, outcome } of checked) {
    if (step.after?.type === 'directory' && step.before?.type !== 'directory') made.add(step.path);
    if (step.before?.type === 'directory' && step.after?.type === 'directory')
      opened.add(step.path);
    if (step.before !== null && step.after === null && outcome !== 'already')
      removed.set(parentOf(step.path), (removed.get(parentOf(step.path)) ?? 0) + 1);
  }
  return checked.flatMap((found) => {
    const { path, before, after } = found.step;
    const parent = parentOf(path);
    if (found.outcome === 'blocked') {
      const isOpened = found.reason === 'denied' && opened.has(parent);
      const isClosedLater = before?.type === 'directory' && made.has(path);
      return isOpened || isClosedLater ? [] : [{ path, reason: found.reason }];
    }
    if (found.outcome === 'ready' && found.needsParent && !made.has(parent))
      return [{ path, reason: 'removed' }];
    const isRemoved = before?.type === 'directory' && after?.type !== 'directory';
    if (found.outcome === 'ready' && isRemoved && found.entries > (removed.get(path) ?? 0))
      return [{ path, reason: 'not_empty' }];
    return [];
  });
}
