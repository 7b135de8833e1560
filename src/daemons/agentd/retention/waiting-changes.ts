// Keeps task trees whose changes of a person's directory nobody has applied or discarded: they
// would be gone with the tree. Layers of subtasks do not count: their parents had the choice.
import type { Client } from '../../../platform/link.ts';
import type { TaskId } from '../../../wire/primitives.ts';
import type { LayerChangeView } from '../../../wire/sandboxd/layers.ts';
import type { sandboxdRoutes } from '../../../wire/sandboxd.ts';
import { dropLeftOut } from '../changes/change-rules.ts';
import type { KeptTree } from '../store/kept-trees.ts';
import { readWorkspaceMode } from '../store/rows.ts';
import type { AgentdStore } from '../store/store.ts';
import type { Candidate, Pass } from './pass.ts';

export type ChangesPeer = Pick<Client<typeof sandboxdRoutes>, 'layerChanges'>;

export type WaitingChanges = {
  /** True for a tree that works on a layer. */
  mayHave(rootTaskId: string): Promise<boolean>;
  /** Resolves to undefined for an ended tree without changes that wait, or when they may go. */
  findKept(
    tree: Pick<Candidate, 'id' | 'endedMs'>,
    pass: Pick<Pass, 'nowMs' | 'by'>,
  ): Promise<KeptTree | undefined>;
};

const ITSELF = 'service:agentd';
const COMMITS = /(^|\/)\.git\/(refs\/.*|packed-refs$)/;
const PAGE = 1_000;
/** Listing opens a box, and a pass runs every hour. */
const FOUND_MS = 24 * 3_600_000;

/** Commits wait as well, and `git status` alone makes none. */
const isCommit = ({ path }: LayerChangeView): boolean => COMMITS.test(path);

export function makeWaitingChanges(deps: {
  store: Pick<AgentdStore, 'taskRow'>;
  sandboxd: ChangesPeer;
  /** After this, changes are pruned with their tree; null: never. */
  ageMs: number | null;
}): WaitingChanges {
  const { store, sandboxd, ageMs } = deps;
  const found = new Map<string, { kept: KeptTree; atMs: number }>();

  const hasChanges = async (id: TaskId): Promise<boolean> => {
    let after: string | undefined;
    do {
      const query = { limit: PAGE, ...(after === undefined ? {} : { after }) };
      const page = await sandboxd.layerChanges({ params: { id }, query });
      if (page.changes.some(isCommit) || dropLeftOut(page.changes, []).length > 0) return true;
      after = page.next ?? undefined;
    } while (after !== undefined);
    return false;
  };

  const look = async (rootTaskId: string): Promise<KeptTree | undefined> => {
    const next = `agentctl task diff ${rootTaskId}, then task apply or task discard`;
    try {
      const isWaiting = await hasChanges(rootTaskId as TaskId);
      return isWaiting ? { reason: 'unapplied', detail: next } : undefined;
    } catch (error) {
      // Its directory may be gone, or not granted any more; what is in the layer is there.
      const why = `its changes cannot be read: ${(error as Error).message}`;
      const detail = `${why}; agentctl task discard ${rootTaskId} --yes drops them unread`;
      return { reason: 'unapplied', detail };
    }
  };

  const mayHave = async (rootTaskId: string): Promise<boolean> =>
    readWorkspaceMode(await store.taskRow(rootTaskId)) === 'layer';

  return {
    mayHave,
    async findKept({ id, endedMs }, { nowMs, by }) {
      if (ageMs !== null && endedMs < nowMs - ageMs) return undefined;
      const known = found.get(id);
      // A person may have applied them since, and wants to see what is so now.
      if (by === ITSELF && known !== undefined && nowMs - known.atMs < FOUND_MS) return known.kept;
      found.delete(id);
      const kept = (await mayHave(id)) ? await look(id) : undefined;
      if (kept !== undefined) found.set(id, { kept, atMs: nowMs });
      return kept;
    },
  };
}
