// Counts what runs in the boxes of each task tree, and can hold it: an apply waits until no command
// of the tree runs, and none starts until it is done, also after a crash.
import type { Clock } from '../../platform/clock.ts';
import { fault } from '../../wire/errors.ts';

/** Must be called once. */
export type Leave = () => void;

export type TreeGate = {
  /** Waits while the tree is held or barred; throws `overloaded` if it stays barred. */
  enter(rootTaskId: string): Promise<Leave>;
  /** Lets nothing enter any more, and waits for what is inside; throws `overloaded` if it stays. */
  hold(rootTaskId: string, waitMs?: number): Promise<Leave>;
  /**
   * Lets nothing enter until it is lifted; a hold is still possible. For an apply that has begun:
   * what an error or a crash has left of it has to be finished first.
   */
  bar(rootTaskId: string): void;
  lift(rootTaskId: string): void;
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
  const bars = new Map<string, { lifted: Promise<void>; lift: () => void }>();
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

  /** Resolves to false if it stays barred. */
  const awaitLifted = (lifted: Promise<void>, waitMs: number): Promise<boolean> =>
    new Promise((resolve) => {
      const timer = clock.at(clock.nowMs() + waitMs, () => resolve(false));
      void lifted.then(() => {
        timer.cancel();
        resolve(true);
      });
    });

  return {
    async enter(id) {
      const endMs = clock.nowMs() + HOLD_WAIT_MS;
      for (;;) {
        const held = trees.get(id)?.held;
        const bar = bars.get(id);
        if (held !== undefined) await held;
        else if (bar === undefined) break;
        else if (!(await awaitLifted(bar.lifted, endMs - clock.nowMs()))) throw barredFault(id);
      }
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
    bar(id) {
      if (bars.has(id)) return;
      const { promise, resolve } = Promise.withResolvers<void>();
      bars.set(id, { lifted: promise, lift: resolve });
    },
    lift(id) {
      bars.get(id)?.lift();
      bars.delete(id);
    },
    isEmpty: (id) => (trees.get(id)?.inside ?? 0) === 0,
  };
}

const barredFault = (id: string) =>
  fault('overloaded', `an apply or undo of ${id} has begun and is not finished yet`, {
    hint: 'It is tried again and again; the log of sandboxd has what is in its way.',
    retryAfterMs: 1_000,
  });
