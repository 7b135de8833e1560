// Plans an apply: which changes it makes, whether anything is in the way, and which commits come
// over. Nothing of the person's is changed yet; merged texts are put where the install finds them.
import type { BoxfsClient } from './adapters/boxfs-client.ts';
import { type ApplyCommits, areGitFiles, isInGitDir } from './layer-apply-commits.ts';
import { type ApplyConsent, assertApplicable, conflictsFault } from './layer-changes.ts';
import { jobFor } from './layer-jobs.ts';
import { PLACES } from './layer-places.ts';
import { findObstacles, planInstall, selectChanges } from './layer-plan.ts';
import type { ApplyRow, LayerRow } from './layer-rows.ts';
import type { LayerViews } from './layer-views.ts';

export type ApplyRequest = {
  applyId: string;
  paths?: readonly string[] | undefined;
} & ApplyConsent;
export type NewApply = Omit<ApplyRow, 'begunMs' | 'state'>;

/** Throws if it is not possible as a whole. */
export type PlanApply = (
  boxfs: BoxfsClient,
  row: LayerRow,
  request: ApplyRequest,
) => Promise<NewApply>;

export function makeApplyPlanner(options: {
  views: Pick<LayerViews, 'listAll' | 'toViews'>;
  git: Pick<ApplyCommits, 'plan'>;
}): PlanApply {
  const { views, git } = options;
  return async (boxfs, row, { applyId, paths, ...consent }) => {
    const met = await views.listAll(boxfs, row);
    const all = met.changes.map(({ change }) => change);
    const isChosen = ({ path }: { path: string }): boolean =>
      paths === undefined || paths.some((top) => path === top || path.startsWith(`${top}/`));
    const selected = paths === undefined ? all : selectChanges(all, paths);
    const isSelected = new Set(selected);
    const some = met.changes.filter(({ change }) => isSelected.has(change));
    const shownAll = await views.toViews(boxfs, row, { ...met, changes: some }, 'before');
    const shown = shownAll.filter(isChosen);
    const { changeSha256, leftOut } = assertApplicable(shownAll, shown, consent);
    const conflicts = new Map(met.changes.map(({ change, conflict }) => [change.path, conflict]));
    const changes = selected
      .filter(({ path }) => !leftOut.has(path))
      .map((change) => ({ ...change, isOverwriting: conflicts.get(change.path) !== null }));
    const { impossible } = planInstall(changes);
    if (impossible.length > 0) throw conflictsFault(impossible);
    for (const { path, agents } of changes)
      if (agents !== undefined) await stageText(boxfs, path, met.texts.get(path)!);
    const checked = await boxfs.checkInstall(jobFor(applyId, changes));
    const obstacles = findObstacles(checked);
    if (obstacles.length > 0) throw conflictsFault(obstacles);
    const hasGit = paths === undefined && all.some(isInGitDir);
    const { commits, isComplete } = hasGit
      ? await git.plan(row, applyId, consent.allow)
      : { commits: null, isComplete: false };
    const left = all.filter(({ path }) => leftOut.has(path));
    const isAll = changes.length === all.length;
    // The view of a subtask stays as it was, so its changes stay in its layer.
    const isWhole =
      row.own === null && (isAll || (paths === undefined && isComplete && areGitFiles(left)));
    const { rootTaskId, beganNs: layerBeganNs } = row;
    return { rootTaskId, applyId, changeSha256, changes, isWhole, layerBeganNs, commits };
  };
}

/** Where an install finds merged texts. Their hashes are in its list. */
const stageText = (boxfs: BoxfsClient, path: string, text: Buffer): Promise<unknown> =>
  boxfs.performExactly({
    op: 'write',
    path: `${PLACES.staging}/${path}`,
    content: text.toString('base64'),
    encoding: 'base64',
    make_parents: true,
  });
