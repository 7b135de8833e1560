// Boxes and runners that were refused: written into the log, and told to whoever asked. Where the
// one fails, the other is done all the same.
import type { Log } from '../../platform/log.ts';
import type { RefusedBox, SandboxdStore } from './store.ts';

export type OrRefused = <T>(box: Omit<RefusedBox, 'uid'>, work: () => Promise<T>) => Promise<T>;

/** For everything before a box is there: what stands in its way is recorded and thrown. */
export function makeOrRefused(store: Pick<SandboxdStore, 'recordRefused'>, log: Log): OrRefused {
  return async (box, work) => {
    try {
      return await work();
    } catch (error) {
      // Whoever asked must hear why there is no box, not why that could not be written down.
      await store.recordRefused({ ...box, uid: null }, whyOf(error)).catch((unwritten: unknown) => {
        log.error('a refusal could not be recorded', { box: box.id, error: unwritten });
      });
      throw error;
    }
  };
}

function whyOf(error: unknown): { code: string; message: string } {
  const { code = 'internal', message = String(error) } = error as Partial<Record<string, string>>;
  return { code, message };
}
