// Counts what runs in the boxes of each task tree, and can hold it: an apply waits until no command
// of the tree runs, and none starts until it is done.
import type { Clock } from '../../platform/clock.ts';
import { fault } from '../../wire/errors.ts';

/** Must be called once. */
export type Leave = () => void;

export type TreeGate = {
  /** Waits while the tree is held. */
  enter(rootTaskId: string): Promise<Leave>;
  /** Lets nothing enter any more, and waits for what is inside; throws `overloaded` if it stays. */
  hold(rootTaskId: string, waitMs?: number): Promise<Leave>;
  isEmpty(rootTaskId: string): boolean;
};

const HOLD_WAIT_MS = 10_000;

type Tree = {
  inside: number;
  /** Resolves when the tree is no longer held. */
  held: Promise<void> | undefined;
  /** Called when the last one leaves. */
  onEmpty: (() => void) | undefined;
};

export function makeTreeGate(clock: Clock): TreeGate {
  const trees = new Map<string, Tree>();
  const findTree = (id: string): Tree => {
    const found = trees.get(id) ?? { inside: 0, held: undefined, onEmpty: undefined };
    trees.set(id, found);
    return found;
  };
  const forget = (id: string, tree: Tree): void => {
    if (tree.inside === 0 && tree.held === undefined) trees.delete(id);
  };

  const awaitEmpty = (tree: Tree, waitMs: number): Promise<boolean> => {
    if (tree.inside === 0) return Promise.resolve(true);
    return new Promise((resolve) => {
      const timer = clock.at(clock.nowMs() + waitMs, () => resolve(false));
      tree.onEmpty = () => {
        timer.cancel();
        resolve(true);
      };
    });
  };

  return {
    async enter(id) {
      for (let held = trees.get(id)?.held; held !== undefined; held = trees.get(id)?.held)
        await held;
      const tree = findTree(id);
      tree.inside++;
      return () => {
        tree.inside--;
        if (tree.inside === 0) tree.onEmpty?.();
        forget(id, tree);
      };
    },
    async hold(id, waitMs = HOLD_WAIT_MS) {
      for (let held = trees.get(id)?.held; held !== undefined; held = trees.get(id)?.held)
        await held;
      const tree = findTree(id);
      const { promise, resolve } = Promise.withResolvers<void>();
      tree.held = promise;
      const release = (): void => {
        tree.held = undefined;
        tree.onEmpty = undefined;
        forget(id, tree);
        resolve();
      };
      if (await awaitEmpty(tree, waitMs)) return release;
      release();
      throw fault('overloaded', 'a command of the task is running', {
        hint: 'Wait until it has ended, or pause the agent: agentctl pause NAME.',
        retryAfterMs: 1_000,
      });
    },
    isEmpty: (id) => (trees.get(id)?.inside ?? 0) === 0,
  };
}
