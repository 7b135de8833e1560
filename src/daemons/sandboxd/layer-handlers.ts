// Maps the routes of layers to the service behind them.
import type { Handlers } from '../../platform/dispatch.ts';
import type { layerRoutes } from '../../wire/sandboxd/layers.ts';
import type { LayerProbe } from './layer-probe.ts';
import type { LayerService } from './layer-service.ts';
import type { Layers } from './layers.ts';

export function makeLayerHandlers(
  service: LayerService,
  layers: Pick<Layers, 'fork'>,
  probe: LayerProbe,
): Handlers<typeof layerRoutes> {
  return {
    probeLayer: ({ query }) => probe(query.path),
    async forkLayer({ params, body }) {
      const { root_task_id: treeId, parent_id: parentId, path } = body;
      await layers.fork({ rootTaskId: params.id, treeId, parentId, path });
      return { id: params.id };
    },
    layerChanges: ({ params, query }) =>
      service.changes(params.id, { after: query.after ?? '', limit: query.limit }),
    async layerTexts({ params, body }) {
      const texts = await service.texts(params.id, body.paths, body.bytes_max);
      return {
        texts: texts.map(({ path, before, after, cut }) => ({
          path,
          before_base64: before?.toString('base64') ?? null,
          after_base64: after?.toString('base64') ?? null,
          is_cut: cut,
        })),
      };
    },
    async applyLayer({ params, body }) {
      const { apply_id, ...how } = body;
      const done = await service.apply(params.id, { applyId: apply_id, ...how });
      const { applyId, changeSha256, applied, merged, commits, commitsLeft } = done;
      return {
        apply_id: applyId,
        change_sha256: changeSha256,
        applied,
        merged,
        commits,
        commits_left: commitsLeft,
      };
    },
    discardLayer: async ({ params }) => ({ discarded: await service.discard(params.id) }),
    async undoApply({ params, body }) {
      const undone = await service.undo(params.id, body.apply_id);
      const { applyId, restored, isInLayer, keptAt } = undone;
      return { apply_id: applyId, restored, is_in_layer: isInLayer, kept_at: keptAt };
    },
  };
}
