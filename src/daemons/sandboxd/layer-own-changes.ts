// The changes of a layer that a subtask has for itself, held against the layer of its parent: which
// of them are there already, and which are in the way of what was changed there meanwhile.
import { LayerConflict } from '../../wire/sandboxd/layers.ts';
import type { LayerChange } from './adapters/boxfs-changes.ts';
import type { BoxfsClient } from './adapters/boxfs-client.ts';
import type { CheckedStep } from './adapters/boxfs-install.ts';
import { findConflict } from './layer-changes.ts';
import type { MetChanges } from './layer-merges.ts';
import { PLACES } from './layer-places.ts';
import { findObstacles, planInstall } from './layer-plan.ts';
import type { LayerRow } from './layer-rows.ts';

/** Other obstacles are found by the apply: until then the target is read-only. */
const OTHER_CONTENT: ReadonlySet<string> = new Set(['not_empty', 'source_changed']);

type Boxfs = Pick<BoxfsClient, 'checkInstall'>;

const checkSteps = (boxfs: Boxfs, changes: readonly LayerChange[]): Promise<CheckedStep[]> =>
  boxfs.checkInstall({
    from: PLACES.merged,
    to: PLACES.target,
    undo: null,
    staging: null,
    applyId: 'check',
    steps: planInstall(changes).steps,
  });

/** Returns those that the target does not have yet. */
async function dropApplied(boxfs: Boxfs, changes: readonly LayerChange[]): Promise<LayerChange[]> {
  const checked = await checkSteps(boxfs, changes);
  const there = new Set(checked.map(({ step }) => step.path));
  for (const { step, outcome } of checked) if (outcome !== 'already') there.delete(step.path);
  return changes.filter(({ path }) => !there.has(path));
}

/** Expects all of them: a directory among them makes room for others. */
async function findObstacleConflicts(
  boxfs: Boxfs,
  changes: readonly LayerChange[],
): Promise<Map<string, LayerConflict>> {
  const found = new Map<string, LayerConflict>();
  for (const { path, reason } of findObstacles(await checkSteps(boxfs, changes))) {
    const known = LayerConflict.safeParse(reason);
    if (known.success) found.set(path, known.data);
    else if (OTHER_CONTENT.has(reason)) found.set(path, 'changed');
  }
  return found;
}

/** Nothing is merged: what such a change began from is not kept. */
export async function meetTarget(
  boxfs: Boxfs,
  { beganNs }: LayerRow,
  all: readonly LayerChange[],
): Promise<MetChanges> {
  const left = await dropApplied(boxfs, all);
  const conflicts = await findObstacleConflicts(boxfs, left);
  // A file of the person that has changed below both.
  const changes = left.map((change) => ({
    change,
    conflict: conflicts.get(change.path) ?? findConflict(change, undefined, beganNs),
  }));
  return { changes, texts: new Map() };
}
