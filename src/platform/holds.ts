// Holds: each stops the changes of one daemon for a moment, so that all daemons can be copied as of
// one instant. A hold ends by itself, so that a caller that died blocks no daemon.
import { randomUUID } from 'node:crypto';

/** Changes that are waiting continue after `release`. */
export type Hold = { release(): void };

export type Holds = {
  /** Keeps a hold for at most this time. Returns its id. */
  keep(hold: Hold, forMs: number): string;
  /** Ends a hold. Returns false if it had ended before, so that there may have been changes. */
  end(id: string): boolean;
  endAll(): void;
};

/** The longest hold: no caller of a daemon gives up within this time. */
export const HOLD_MS_MAX = 2_000;

export function makeHolds(): Holds {
  const kept = new Map<string, { hold: Hold; timer: NodeJS.Timeout }>();
  const end = (id: string): boolean => {
    const found = kept.get(id);
    if (found === undefined) return false;
    kept.delete(id);
    clearTimeout(found.timer);
    found.hold.release();
    return true;
  };
  return {
    keep(hold, forMs) {
      const id = randomUUID();
      // Real time, even if a test controls the daemon's clock.
      const timer = setTimeout(end, Math.min(forMs, HOLD_MS_MAX), id).unref();
      kept.set(id, { hold, timer });
      return id;
    },
    end,
    endAll() {
      for (const id of [...kept.keys()]) end(id);
    },
  };
}

/** A gate that several holds can close; it is open when all of them are released. */
export class Gate {
  readonly #closed = new Set<Promise<void>>();

  get isClosed(): boolean {
    return this.#closed.size > 0;
  }

  close(): Hold {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#closed.add(promise);
    return {
      release: () => {
        this.#closed.delete(promise);
        resolve();
      },
    };
  }

  /** Resolves when it was open for a moment: check again before relying on it. */
  async whenOpen(): Promise<void> {
    while (this.isClosed) await Promise.all(this.#closed);
  }
}
