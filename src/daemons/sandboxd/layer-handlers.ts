// Maps the routes of layers. No tree has a layer yet: boxes that ask for one are refused.
import type { Handlers } from '../../platform/dispatch.ts';
import { fault } from '../../wire/errors.ts';
import type { layerRoutes, WorkspaceMode } from '../../wire/sandboxd/layers.ts';

export function makeLayerHandlers(): Handlers<typeof layerRoutes> {
  return {
    layerChanges: async () => ({ layer: null, changes: [], next: null }),
    layerTexts: async ({ body }) => ({
      texts: body.paths.map((path) => ({
        path,
        before_base64: null,
        after_base64: null,
        is_cut: false,
      })),
    }),
    applyLayer: async ({ params }) => {
      throw noLayerFault(params.id);
    },
    discardLayer: async () => ({ discarded: 0 }),
    undoApply: async ({ params }) => {
      throw noLayerFault(params.id);
    },
  };
}

const noLayerFault = (rootTaskId: string) =>
  fault('not_found', `${rootTaskId} has no layer`, {
    hint: 'Only tasks that work in a directory of yours, without --live, have one.',
  });

export function assertMode(mode: WorkspaceMode | undefined): void {
  if (mode === 'layer')
    throw fault('level_unavailable', 'layers over a directory are not available here', {
      hint: 'Create the task with --live: its agents then write in the directory itself.',
    });
}
