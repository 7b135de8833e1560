// Performs what a person does with a layer: records the intent, waits until it is durable in the
// log, lets sandboxd do it, and records the outcome. A repeat finishes what a crash interrupted.
import type { NewId } from '../../../platform/ids.ts';
import type { Client } from '../../../platform/link.ts';
import type { IdempotencyKey } from '../../../platform/sql/idempotency.ts';
import { Fault } from '../../../wire/errors.ts';
import type { TaskId } from '../../../wire/primitives.ts';
import type { sandboxdRoutes } from '../../../wire/sandboxd.ts';
import type { tooldRoutes } from '../../../wire/toold.ts';
import {
  type LayerActionKind,
  type LayerActionRequest,
  type LayerActionRow,
  readLayerRequest,
} from '../store/layer-actions.ts';
import type { AgentdStore } from '../store/store.ts';
import type { TaskLayer, TreeChangesReader } from './tree-changes.ts';

type SandboxdLayers = Pick<
  Client<typeof sandboxdRoutes>,
  'applyLayer' | 'discardLayer' | 'undoApply'
>;

/** Responses of sandboxd for each kind. */
export type LayerOutcomes = {
  apply: Awaited<ReturnType<SandboxdLayers['applyLayer']>>;
  discard: Awaited<ReturnType<SandboxdLayers['discardLayer']>>;
  undo: Awaited<ReturnType<SandboxdLayers['undoApply']>>;
};
export type LayerActionOf<K extends LayerActionKind> = LayerActionRow & { action: K };

type GivenAction<K> = {
  action: K;
  layer: TaskLayer;
  by: string;
  request: LayerActionRequest;
  rules: readonly string[];
  once?: IdempotencyKey | undefined;
};

export type LayerActions = {
  /** Records the intent; `waits`: for an approval. */
  begin<K extends LayerActionKind>(
    given: GivenAction<K>,
    how?: 'waits',
  ): Promise<{ row: LayerActionOf<K>; seq: number }>;
  /** `seq`: the event of the intent, which must be durable first. */
  perform<K extends LayerActionKind>(row: LayerActionOf<K>, seq: number): Promise<LayerOutcomes[K]>;
  /** Ends the action with this fault, unless a retry could help. Rethrows it. */
  fail(row: LayerActionRow, error: unknown): Promise<never>;
};

export function makeLayerActions(deps: {
  store: AgentdStore;
  sandboxd: SandboxdLayers;
  toold: Pick<Client<typeof tooldRoutes>, 'markPlace'>;
  reader: Pick<TreeChangesReader, 'findLayer' | 'marksOf'>;
  newId: NewId;
  failpoint: (name: string) => void;
}): LayerActions {
  const { store, sandboxd, toold, reader, failpoint } = deps;

  const perform = {
    async apply(row: LayerActionRow) {
      const layer = await reader.findLayer(layerOf(row));
      const { id, parentId } = layer;
      const request = readLayerRequest(row);
      const { path, paths, allow = [], change_sha256: expect, overwrite } = request;
      const labels = await reader.marksOf(layer);
      const tree = row.root_task_id as TaskId;
      const target = parentId ?? path;
      await toold.markPlace({ body: { root_task_id: tree, layer_task_id: id, target, labels } });
      failpoint('agentd.before-apply');
      return sandboxd.applyLayer({
        params: { id },
        body: {
          apply_id: row.id,
          allow,
          ...(paths === undefined ? {} : { paths }),
          ...(expect === undefined ? {} : { expect }),
          ...(overwrite === true ? { overwrite } : {}),
        },
      });
    },
    discard: (row: LayerActionRow) =>
      sandboxd.discardLayer({ params: { id: layerOf(row) }, body: {} }),
    undo(row: LayerActionRow) {
      const { apply_id } = readLayerRequest(row);
      return sandboxd.undoApply({
        params: { id: layerOf(row) },
        body: apply_id === undefined ? {} : { apply_id },
      });
    },
  };
  const count = {
    apply: ({ applied, merged, commits }: LayerOutcomes['apply']) => ({
      files: applied.length,
      merged: merged.length,
      commits: commits.reduce((sum, { count }) => sum + count, 0),
    }),
    discard: ({ discarded }: LayerOutcomes['discard']) => ({ discarded }),
    undo: ({ apply_id, restored }: LayerOutcomes['undo']) => ({ apply_id, files: restored.length }),
  };

  const fail: LayerActions['fail'] = async (row, error) => {
    if (error instanceof Fault && !error.retry) {
      const { code, message, hint, details } = error;
      const outcome = { error: { code, message, hint, details } };
      await store.endLayerAction(row.id, { status: 'refused', outcome, data: { error: code } });
    }
    throw error;
  };

  return {
    fail,
    async begin({ action, layer, by, request, rules, once }, how) {
      const { seq, id } = await store.beginLayerAction(
        {
          id: deps.newId<string>('apply'),
          root_task_id: layer.root.id,
          layer_task_id: layer.parentId === null ? null : layer.id,
          action,
          principal: by,
          status: how === 'waits' ? 'waiting' : 'attempted',
          request: JSON.stringify(request),
          approval_id: null,
          rules: JSON.stringify(rules),
        },
        once,
      );
      return { seq, row: (await store.layerAction(id)) as LayerActionOf<typeof action> };
    },
    async perform<K extends LayerActionKind>(row: LayerActionOf<K>, seq: number) {
      if (seq > 0) await store.outbox.delivered(seq);
      try {
        const outcome = (await perform[row.action](row)) as LayerOutcomes[K];
        failpoint('agentd.after-layer-action');
        const data = (count[row.action] as (given: LayerOutcomes[K]) => Record<string, number>)(
          outcome,
        );
        await store.endLayerAction(row.id, { status: 'done', outcome, data });
        return outcome;
      } catch (error) {
        return fail(row, error);
      }
    },
  };
}

export const layerOf = (row: Pick<LayerActionRow, 'layer_task_id' | 'root_task_id'>): TaskId =>
  (row.layer_task_id ?? row.root_task_id) as TaskId;
