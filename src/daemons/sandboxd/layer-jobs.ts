// The jobs of boxfs for an apply, for its undo, and in the layer that goes on. Pure.
import type { InstallJob } from './adapters/boxfs-layers.ts';
import { PLACES } from './layer-places.ts';
import { planInstall, reverseChanges, toLayerChanges } from './layer-plan.ts';
import type { AppliedChange } from './layer-rows.ts';

export const jobFor = (applyId: string, changes: readonly AppliedChange[]): InstallJob => ({
  from: PLACES.merged,
  to: PLACES.target,
  undo: PLACES.undo,
  staging: PLACES.staging,
  applyId,
  steps: planInstall(changes).steps,
});

/** Gives a layer that goes on the merged texts: its next apply undoes nothing of the person's. */
export const layerJobFor = (applyId: string, changes: readonly AppliedChange[]): InstallJob => ({
  ...jobFor(applyId, toLayerChanges(changes)),
  to: PLACES.merged,
  undo: null,
});

export const undoJobFor = (applyId: string, changes: readonly AppliedChange[]): InstallJob => ({
  ...jobFor(applyId, reverseChanges(changes)),
  from: PLACES.undo,
  undo: null,
  staging: null,
  isRepeat: true,
});
