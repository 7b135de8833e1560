// Records boxes and runners that could not be started.
import type { Log } from '../../platform/log.ts';
import type { RefusedBox, SandboxdStore } from './store.ts';

export type RecordRefusal = <T>(box: Omit<RefusedBox, 'uid'>, work: () => Promise<T>) => Promise<T>;

/** Wraps the start of a box: an error is recorded and rethrown. */
export function makeRefusalRecorder(
  store: Pick<SandboxdStore, 'recordRefused'>,
  log: Log,
): RecordRefusal {
  return async (box, work) => {
    try {
      return await work();
    } catch (error) {
      // The caller needs the original error, not that of recording it.
      await store
        .recordRefused({ ...box, uid: null }, describeError(error))
        .catch((cause: unknown) => {
          log.error('recording a refusal failed', { box: box.id, error: cause });
        });
      throw error;
    }
  };
}

function describeError(error: unknown): { code: string; message: string } {
  const { code = 'internal', message = String(error) } = error as Partial<Record<string, string>>;
  return { code, message };
}
