// Shows people a layer: its changes, with their kinds and conflicts, and their texts.
import { toTimestamp } from '../../platform/clock.ts';
import type { Log } from '../../platform/log.ts';
import { fault } from '../../wire/errors.ts';
import type { LayerChanges, LayerChangeView } from '../../wire/sandboxd/layers.ts';
import type { LayerChange } from './adapters/boxfs-changes.ts';
import type { BoxfsClient } from './adapters/boxfs-client.ts';
import type { LayerBoxes } from './layer-boxes.ts';
import { toChangeView } from './layer-changes.ts';
import { findChangeKinds } from './layer-kinds.ts';
import type { LayerMerges, MetChanges } from './layer-merges.ts';
import { meetTarget } from './layer-own-changes.ts';
import { PLACES } from './layer-places.ts';
import type { LayerRow } from './layer-rows.ts';
import type { Layers } from './layers.ts';
import type { SandboxdStore } from './store.ts';

export type LayerText = { path: string; before: Buffer | null; after: Buffer | null; cut: boolean };

export type LayerViews = {
  changes(rootTaskId: string, page: { after: string; limit: number }): Promise<LayerChanges>;
  texts(rootTaskId: string, paths: readonly string[], bytesMax: number): Promise<LayerText[]>;
  /** All changes of the layer that the box shows, as they meet those of its target. */
  listAll(boxfs: BoxfsClient, row: LayerRow): Promise<MetChanges>;
  /** How many there are, as far as they can be listed. */
  countListed(boxfs: BoxfsClient): Promise<number>;
  /** `side`: as `findChangeKinds` has it. */
  toViews(
    boxfs: BoxfsClient,
    row: LayerRow,
    met: MetChanges,
    side: 'before' | 'after',
  ): Promise<LayerChangeView[]>;
};

/** An apply is recorded as one row, and a person has to review it. */
const CHANGES_MAX = 100_000;

export function makeLayerViews(options: {
  layers: Pick<Layers, 'find' | 'enter' | 'isUntouched'>;
  boxes: Pick<LayerBoxes, 'withReview'>;
  merges: LayerMerges;
  store: Pick<SandboxdStore, 'listApplies'>;
  log: Log;
}): LayerViews {
  const { layers, boxes, merges, store } = options;

  const listAll: LayerViews['listAll'] = async (boxfs, row) => {
    const all: LayerChange[] = [];
    for await (const change of boxfs.listChanges(PLACES)) {
      all.push(change);
      if (all.length > CHANGES_MAX)
        throw fault('too_large', `the layer has more than ${CHANGES_MAX} changes`, {
          hint: 'Have the agent delete what is made by programs, or discard the layer.',
        });
    }
    return row.own === null ? merges.meet(boxfs, row, all) : meetTarget(boxfs, row, all);
  };

  const countListed: LayerViews['countListed'] = async (boxfs) => {
    let count = 0;
    try {
      for await (const _ of boxfs.listChanges(PLACES)) if (++count >= CHANGES_MAX) break;
    } catch (error) {
      options.log.warn('listing a layer failed', { error });
    }
    return count;
  };

  const toViews: LayerViews['toViews'] = async (boxfs, row, met, side) => {
    const { changes, texts, hasOwnRepository } = met;
    const context = { side, hostPath: row.path, merged: texts, hasOwnRepository };
    const all = changes.map(({ change }) => change);
    const kinds = await findChangeKinds(boxfs, all, context);
    return changes.map(({ change, conflict }) => {
      const refused = kinds.get(change.path) ?? [];
      // git's own files are never written: refs are compared instead.
      const isOfGit = refused.some((kind) => kind === 'git_files' || kind === 'own_repository');
      return toChangeView(change, refused, isOfGit ? null : conflict);
    });
  };

  type Page = { after: string; limit: number };
  const readPage = async (boxfs: BoxfsClient, row: LayerRow, { after, limit }: Page) => {
    const changes: LayerChange[] = [];
    for await (const change of boxfs.listChanges(PLACES, limit + 1, after)) {
      changes.push(change);
      if (changes.length > limit) break;
    }
    const page = changes.slice(0, limit);
    return {
      views: await toViews(boxfs, row, await merges.meet(boxfs, row, page), 'after'),
      next: changes.length > limit ? page.at(-1)!.path : null,
    };
  };

  /** The conflicts of a change depend on the others, so all are looked at together. */
  const readOwnPage = async (boxfs: BoxfsClient, row: LayerRow, { after, limit }: Page) => {
    const all = await toViews(boxfs, row, await listAll(boxfs, row), 'after');
    const start = after === '' ? 0 : all.findIndex(({ path }) => path === after) + 1;
    const views = all.slice(start, start + limit);
    return { views, next: start + limit < all.length ? views.at(-1)!.path : null };
  };

  return {
    listAll,
    countListed,
    toViews,
    async changes(rootTaskId, page) {
      const row = await layers.find(rootTaskId);
      if (row === undefined) return { layer: null, changes: [], next: null };
      const applies = await store.listApplies(rootTaskId);
      const leave = await layers.enter(row);
      const read = row.own === null ? readPage : readOwnPage;
      const { views, next } = await layers
        .isUntouched(row)
        .then((isUntouched) =>
          isUntouched
            ? { views: [], next: null }
            : boxes.withReview(row, (boxfs) => read(boxfs, row, page)),
        )
        .finally(leave);
      return {
        layer: {
          path: row.path,
          is_copy: row.copies !== null,
          opened_at: toTimestamp(Number(row.beganNs / 1_000_000n)),
          applied: applies
            .filter(({ state }) => state === 'done' || state === 'undone')
            .map(({ applyId, state, begunMs }) => ({
              apply_id: applyId,
              at: toTimestamp(begunMs),
              undone: state === 'undone',
            })),
        },
        changes: views,
        next,
      };
    },
    async texts(rootTaskId, paths, bytesMax) {
      const row = await layers.find(rootTaskId);
      if (row === undefined)
        return paths.map((path) => ({ path, before: null, after: null, cut: false }));
      const leave = await layers.enter(row);
      const roots = { before: PLACES.lower, after: PLACES.merged };
      const found = await boxes
        .withReview(row, (boxfs) => boxfs.readMany(roots, { paths, bytesMax }))
        .finally(leave);
      const shown = found.map(({ path, before, after }) => ({
        path,
        before: before?.bytes ?? null,
        after: after?.bytes ?? null,
        cut: before?.isCut === true || after?.isCut === true,
      }));
      const whole = shown.filter(({ cut }) => !cut);
      const merged = await merges.mergeShown(row, whole);
      return shown.map((text) => ({ ...text, after: merged.get(text.path) ?? text.after }));
    },
  };
}
