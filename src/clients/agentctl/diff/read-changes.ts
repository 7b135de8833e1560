// Reads the changes of a task tree from agentd, page by page, and both sides of changed files in
// batches of a bounded size.
import { relative, resolve } from 'node:path';
import type { TreeChanges } from '../../../wire/agentd.ts';
import { fault } from '../../../wire/errors.ts';
import type { LayerChangeView } from '../../../wire/sandboxd/layers.ts';
import type { RuntimeClient } from '../runtime.ts';
import { type ChangedFile, type FileSide, LINK_MODE, toGitMode } from './git-diff.ts';

/** Hashing many files takes time. */
export const CHANGES_DEADLINE_MS = 900_000;
const PAGE_SIZE = 5_000;

export async function readChanges(runtime: RuntimeClient, id: string): Promise<TreeChanges> {
  let all: TreeChanges | undefined;
  for (let after: string | undefined; ; ) {
    const page: TreeChanges = await runtime.call(
      'agentd',
      'listChanges',
      { params: { id }, query: { limit: PAGE_SIZE, ...(after === undefined ? {} : { after }) } },
      { deadlineMs: CHANGES_DEADLINE_MS },
    );
    if (all === undefined) all = page;
    else {
      all.changes.push(...page.changes);
      Object.assign(all.refusals, page.refusals);
    }
    if (page.next === null) return { ...all, next: null };
    after = page.next;
  }
}

/** Accepts what a person types: relative to the directory, or absolute in it. */
export function toChangedPaths(
  given: readonly string[],
  { path: dir, changes, root_task_id: id }: TreeChanges,
): string[] {
  return given.map((word) => {
    const path = relative(dir, resolve(dir, word));
    if (path === '') return '';
    if (changes.some((change) => isAtOrIn(change.path, path))) return path;
    throw fault('not_found', `${word} is not among the changes of ${id}`, {
      hint: `See them: agentctl task diff ${id} --name-only`,
    });
  });
}

const isAtOrIn = (path: string, root: string): boolean =>
  root === '' || path === root || path.startsWith(`${root}/`);

export const selectShown = (
  changes: readonly LayerChangeView[],
  paths: readonly string[],
): LayerChangeView[] =>
  paths.length === 0
    ? [...changes]
    : changes.filter(({ path }) => paths.some((root) => isAtOrIn(path, root)));

/** Changes that an apply leaves in the layer: they are no part of the diff. */
export const isLeftOut = (
  { refused }: LayerChangeView,
  refusals: TreeChanges['refusals'],
): boolean => refused.some((kind) => (refusals[kind]?.handling ?? 'refused') !== 'refused');

const SIDE_BYTES_MAX = 1_048_576;
const BATCH_BYTES_MAX = 8 * SIDE_BYTES_MAX;
const BATCH_PATHS_MAX = 200;

const sizeOf = ({ before, after }: LayerChangeView): number =>
  Math.min(before?.size_bytes ?? 0, SIDE_BYTES_MAX) +
  Math.min(after?.size_bytes ?? 0, SIDE_BYTES_MAX);

const isFile = (side: LayerChangeView['before']): boolean => side?.type === 'file';
const isShown = (side: LayerChangeView['before']): boolean =>
  side?.type === 'file' || side?.type === 'link';

function* toBatches(changes: readonly LayerChangeView[]): Generator<LayerChangeView[]> {
  let batch: LayerChangeView[] = [];
  let bytes = 0;
  for (const change of changes) {
    const size = sizeOf(change);
    if (batch.length > 0 && (batch.length >= BATCH_PATHS_MAX || bytes + size > BATCH_BYTES_MAX)) {
      yield batch;
      [batch, bytes] = [[], 0];
    }
    batch.push(change);
    bytes += size;
  }
  if (batch.length > 0) yield batch;
}

/**
 * Yields the changes that git can show, in an order in which they can be applied: what was in a
 * directory that became a file goes before that file.
 */
export async function* readChangedFiles(
  runtime: RuntimeClient,
  id: string,
  changes: readonly LayerChangeView[],
): AsyncGenerator<ChangedFile> {
  const shown = orderForPatch(
    changes.filter(({ before, after }) => isShown(before) || isShown(after)),
  );
  for (const batch of toBatches(shown)) {
    const paths = batch.flatMap(({ path, before, after }) =>
      isFile(before) || isFile(after) ? [path] : [],
    );
    const texts = new Map<string, { before: string; after: string; isCut: boolean }>();
    if (paths.length > 0) {
      const body = { paths, bytes_max: SIDE_BYTES_MAX };
      const options = { deadlineMs: CHANGES_DEADLINE_MS };
      const request = { params: { id }, body };
      const answer = await runtime.call('agentd', 'readChangeTexts', request, options);
      for (const { path, before_base64, after_base64, is_cut } of answer.texts)
        texts.set(path, {
          before: decode(before_base64),
          after: decode(after_base64),
          isCut: is_cut,
        });
    }
    for (const { path, before, after } of batch) {
      const text = texts.get(path);
      yield {
        path,
        before: toFileSide(before, text?.before),
        after: toFileSide(after, text?.after),
        isCut: text?.isCut === true,
      };
    }
  }
}

const decode = (base64: string | null): string =>
  base64 === null ? '' : Buffer.from(base64, 'base64').toString('latin1');

function toFileSide(side: LayerChangeView['before'], content = ''): FileSide | null {
  if (side?.type === 'link') {
    const target = Buffer.from(side.link_target ?? '').toString('latin1');
    return { gitMode: LINK_MODE, content: target };
  }
  if (side?.type !== 'file') return null;
  return { gitMode: toGitMode('file', side.mode), content };
}

function orderForPatch(changes: readonly LayerChangeView[]): LayerChangeView[] {
  const ordered: LayerChangeView[] = [];
  const delayed: LayerChangeView[] = [];
  const release = (path: string | undefined): void => {
    for (let last = delayed.at(-1); last !== undefined; last = delayed.at(-1)) {
      if (path?.startsWith(`${last.path}/`) === true) return;
      ordered.push(delayed.pop()!);
    }
  };
  for (const change of changes) {
    release(change.path);
    if (change.before?.type === 'directory') delayed.push(change);
    else ordered.push(change);
  }
  release(undefined);
  return ordered;
}
