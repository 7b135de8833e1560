// Decides which changes an apply is about and whether any of them is refused, and describes them to
// policy and to a person who approves. Pure.
import { hashChanges } from '../../../platform/change-hash.ts';
import { APPLY_KINDS, type ApplyKind } from '../../../policy/apply-kinds.ts';
import { isWithin } from '../../../policy/paths.ts';
import type { PolicyContext } from '../../../policy/request.ts';
import type { ChangeCounts } from '../../../wire/agentd.ts';
import { fault } from '../../../wire/errors.ts';
import type { LayerChangeView } from '../../../wire/sandboxd/layers.ts';

/** Returns the changes at and below these paths; all changes without paths. */
export const selectChanges = (
  changes: readonly LayerChangeView[],
  paths: readonly string[] | undefined,
): LayerChangeView[] =>
  changes.filter(({ path }) => paths?.some((root) => isWithin(path, root)) ?? true);

/** Returns the paths that name no change. */
export const findUnchanged = (
  changes: readonly LayerChangeView[],
  paths: readonly string[] | undefined,
): string[] => (paths ?? []).filter((path) => selectChanges(changes, [path]).length === 0);

export function countChanges(changes: readonly LayerChangeView[]): ChangeCounts {
  const counts: ChangeCounts = { added: 0, modified: 0, deleted: 0, replaced: 0, mode: 0 };
  for (const { kind } of changes) counts[kind]++;
  return counts;
}

export type RefusedChange = { path: string; kinds: string[] };

/** Kinds that the site adds are refused. */
export function describeKind(kind: string): Pick<ApplyKind, 'reason' | 'handling'> {
  const known = APPLY_KINDS.get(kind);
  if (known === undefined)
    return { reason: 'A rule of this site refuses it.', handling: 'refused' };
  return { reason: known.reason, handling: known.handling };
}

/** Changes that are made again, or come over in another way, stay in the layer. */
const isLeftOut = ({ refused }: LayerChangeView, allow: readonly string[]): boolean =>
  refused.some((kind) => {
    const { handling } = describeKind(kind);
    return handling === 'never' || (handling === 'left_out' && !allow.includes(kind));
  });

export const dropLeftOut = (
  changes: readonly LayerChangeView[],
  allow: readonly string[],
): LayerChangeView[] => changes.filter((change) => !isLeftOut(change, allow));

/** Returns the changes of kinds that are not allowed by name. */
export const findRefused = (
  changes: readonly LayerChangeView[],
  allow: readonly string[],
): RefusedChange[] =>
  changes.flatMap(({ path, refused }) => {
    const kinds = refused.filter((kind) => !allow.includes(kind));
    return kinds.length === 0 ? [] : [{ path, kinds }];
  });

/** Returns the changes of files that a person has changed, too. */
export const findConflicts = (changes: readonly LayerChangeView[]) =>
  changes.flatMap(({ path, conflict }) => (conflict === null ? [] : [{ path, reason: conflict }]));

export type ApplyFacts = {
  path: string;
  rootTaskId: string;
  isUndo: boolean;
  counts: ChangeCounts;
  kinds: readonly string[];
  labels: readonly string[];
};

export function toApplyContext(facts: ApplyFacts): PolicyContext {
  const { path, rootTaskId, isUndo, counts, kinds, labels } = facts;
  return {
    path,
    undo: isUndo,
    ...counts,
    kinds: [...kinds].sort(),
    task_id: rootTaskId,
    root_task_id: rootTaskId,
    labels: [...labels],
  };
}

const describeSide = (side: LayerChangeView['before']): string => {
  if (side === null) return 'nothing';
  const { type, mode, size_bytes, sha256, link_target } = side;
  const bits = mode.toString(8).padStart(4, '0');
  if (type === 'link') return `link to ${JSON.stringify(link_target)}`;
  if (type !== 'file') return `${type} ${bits}`;
  return `file ${bits}, ${size_bytes} bytes${sha256 === null ? '' : `, sha256 ${sha256}`}`;
};

/** Lists every change, for a person who approves it. */
export const describeChanges = (changes: readonly LayerChangeView[]): string =>
  changes
    .map(({ path, kind, before, after, refused, conflict, merged }) => {
      const notes = [
        ...refused,
        ...(merged ? ['merged with what a person has changed'] : []),
        ...(conflict === null ? [] : [`overwrites what a person has changed: ${conflict}`]),
      ];
      const kinds = notes.length === 0 ? '' : `  [${notes.join(', ')}]`;
      const sides = `${describeSide(before)} -> ${describeSide(after)}`;
      return `${kind.padEnd(8)}  ${JSON.stringify(path)}${kinds}\n          ${sides}\n`;
    })
    .join('');

export const countAll = (counts: ChangeCounts): number =>
  Object.values(counts).reduce((sum, count) => sum + count, 0);

const hasGitFiles = ({ refused }: LayerChangeView): boolean =>
  refused.includes('git_files') || refused.includes('own_repository');

export type ChosenChanges = {
  paths?: string[] | undefined;
  allow?: string[] | undefined;
  /** The hash of the changes that the person has seen. */
  expect?: string | undefined;
  /** The agents' side is written where it conflicts with the person's. */
  overwrite?: boolean | undefined;
};

/** Throws if sandboxd would apply nothing, so that no person is asked about it. */
export function assertAppliable(
  { id, root, parentId }: { id: string; root: { workspace: string }; parentId: string | null },
  all: readonly LayerChangeView[],
  chosen: readonly LayerChangeView[],
  { paths, allow = [], expect, overwrite }: ChosenChanges,
): void {
  if (overwrite === true && paths === undefined)
    throw fault('bad_request', 'overwrite is for the paths that are named', {
      hint: 'Name the paths whose conflicts you have looked at.',
    });
  const [unchanged] = findUnchanged(all, paths);
  if (unchanged !== undefined)
    throw fault('not_found', `${unchanged} is not among the changes of ${id}`, {
      hint: `See them: agentctl task diff ${id} --name-only`,
    });
  const applied = dropLeftOut(chosen, allow);
  const hasCommits = paths === undefined && chosen.some(hasGitFiles);
  if (applied.length === 0 && !hasCommits)
    throw fault('not_found', `${id} has no changes to apply`, {
      hint: 'Nothing was changed, or everything was applied or discarded.',
    });
  if (expect !== undefined && expect !== hashChanges(chosen))
    throw fault('conflict', 'the changes are not those that were seen', {
      hint: `Look at them again: agentctl task diff ${id}`,
    });
  const refused = findRefused(applied, allow);
  if (refused.length > 0)
    throw fault('denied', `${refused.length} of ${applied.length} changes are refused`, {
      hint: 'Allow their kinds by name, or name the other paths.',
      details: { refused },
    });
  const conflicts = overwrite === true ? [] : findConflicts(applied);
  if (conflicts.length > 0)
    throw fault('conflict', `${conflicts.length} of ${applied.length} changes conflict`, {
      hint:
        parentId === null
          ? `${root.workspace} was changed by a person, too; name the other paths, or overwrite these.`
          : `The layer of ${parentId} was changed, too; name the other paths.`,
      details: { conflicts },
    });
}
