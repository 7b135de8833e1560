// The commits of an apply: planned before anything changes, moved after the files, and moved back
// by an undo. git runs in boxes of its own (layer-boxes.ts).
import { Fault, fault } from '../../wire/errors.ts';
import type { LayerChange } from './adapters/boxfs-changes.ts';
import type { LayerBoxes } from './layer-boxes.ts';
import {
  applyCommits,
  type CommitObstacle,
  checkCommits,
  countCommits,
  planCommits,
  reverseCommits,
} from './layer-commits.ts';
import { PLACES } from './layer-places.ts';
import type { ApplyRow, LayerRow, RecordedCommits } from './layer-rows.ts';
import type { Layers } from './layers.ts';

type Bad = { path: string; reason: string };
type OfApply = Pick<ApplyRow, 'applyId' | 'commits'>;

export type ApplyCommits = {
  /** Throws if a ref is in the way. `isComplete`: nothing of the layer's repository is left. */
  plan(
    row: LayerRow,
    applyId: string,
    allow: readonly string[],
  ): Promise<{ commits: RecordedCommits | null; isComplete: boolean }>;
  /** Returns what is in the way; then nothing was moved. */
  move(row: LayerRow, apply: OfApply): Promise<Bad[]>;
  /** Throws what would be in the way of moving them back. */
  check(row: LayerRow, apply: OfApply): Promise<void>;
  moveBack(row: LayerRow, apply: OfApply): Promise<Bad[]>;
};

const GIT_DIR = '.git';
export const isInGitDir = ({ path }: { path: string }): boolean => path.startsWith(`${GIT_DIR}/`);

/** True if git's files alone are left, of a repository that was there before. */
export const areGitFiles = (left: readonly LayerChange[]): boolean =>
  left.every((change) => change.path === GIT_DIR || isInGitDir(change));

/** Obstacles that a person may allow by name. */
const ALLOWABLE: ReadonlySet<string> = new Set<CommitObstacle['reason']>([
  'not_fast_forward',
  'tag_moved',
]);

function obstaclesFault(obstacles: readonly CommitObstacle[]): Fault {
  const denied = obstacles.filter(({ reason }) => ALLOWABLE.has(reason) || reason === 'name');
  const [first] = denied.length > 0 ? denied : obstacles;
  if (denied.length > 0)
    return fault('denied', `${first!.ref} may not be moved (${first!.reason})`, {
      hint: 'Allow the kind by name (--allow git_refs), or apply the paths without the commits.',
      details: {
        refused: denied.map(({ ref, reason }) => ({
          path: ref,
          kinds: [reason === 'name' ? 'name' : 'git_refs'],
        })),
      },
    });
  return fault('conflict', `${first!.ref} cannot be moved (${first!.reason})`, {
    hint: 'Look at the repository, or apply the paths without the commits.',
    details: { conflicts: obstacles.map(({ ref, reason }) => ({ path: ref, reason })) },
  });
}

/** A repository that git cannot read would be tried for ever. */
function toDenied(error: unknown): never {
  if (!(error instanceof Fault) || error.details?.reason !== 'git') throw error;
  throw fault('denied', error.message, {
    hint: 'Apply the paths without the commits: agentctl task apply ID PATH….',
    details: { reason: 'commits' },
  });
}

async function findConflicts(work: Promise<unknown>): Promise<Bad[]> {
  try {
    await work;
    return [];
  } catch (error) {
    const isConflict = error instanceof Fault && error.code === 'conflict';
    const conflicts = isConflict ? error.details?.conflicts : undefined;
    if (conflicts === undefined) throw error;
    return conflicts as Bad[];
  }
}

export function makeApplyCommits(options: {
  boxes: Pick<LayerBoxes, 'withGit'>;
  layers: Pick<Layers, 'makeOwned' | 'remove'>;
}): ApplyCommits {
  const { boxes, layers } = options;

  const inGit = async <T>(
    row: LayerRow,
    applyId: string,
    work: Parameters<typeof boxes.withGit<T>>[2],
  ): Promise<T> => {
    const parts = ['undo', applyId, 'staging', 'objects'];
    return boxes.withGit(row, await layers.makeOwned(row, parts), work);
  };

  return {
    plan: (row, applyId, allow) =>
      inGit(row, applyId, async ({ layer, target }) => {
        const allowsRefs = allow.includes('git_refs');
        const how = { scratch: PLACES.scratch, allowsRefs };
        const planned = await planCommits(layer, target, how).catch(toDenied);
        const { plan, obstacles, skipped, left } = planned;
        if (obstacles.length > 0) throw obstaclesFault(obstacles);
        if (left.length > 0) return { commits: { plan, counts: [], left }, isComplete: false };
        const isComplete = skipped.every(({ reason }) => reason !== 'detached');
        if (plan.updates.length === 0) return { commits: null, isComplete };
        const counted = await countCommits(target, plan);
        const counts = plan.updates.map(({ ref }) => counted.get(ref)!);
        return { commits: { plan, counts }, isComplete };
      }),
    async move(row, { applyId, commits }) {
      if (commits === null || commits.plan.updates.length === 0) return [];
      const message = `agentd: apply ${applyId}`;
      return findConflicts(
        inGit(row, applyId, ({ target }) => applyCommits(target, commits.plan, message)),
      );
    },
    async check(row, { applyId, commits }) {
      if (commits === null || commits.plan.updates.length === 0) return;
      const back = reverseCommits(commits.plan);
      await inGit(row, applyId, ({ target }) => checkCommits(target, back));
    },
    async moveBack(row, { applyId, commits }) {
      if (commits === null || commits.plan.updates.length === 0) return [];
      const back = reverseCommits(commits.plan);
      const message = `agentd: undo ${applyId}`;
      return findConflicts(
        inGit(row, applyId, ({ target }) => applyCommits(target, back, message)),
      );
    },
  };
}
