// Ends the process after a failed sync of a database. The kernel may have marked the pages clean
// that it could not write, so a second sync would succeed without them; memory and disk may differ,
// and only a new start reads the disk.
import { FAULTS, type Fault, fault } from '../../wire/errors.ts';
import { makeLog, stderrSink } from '../log.ts';

/** What becomes of the process after a failed sync; tests pass their own. */
export type OnFailedSync = (problem: Fault) => void;

export function failedSyncFault(file: string, cause: unknown): Fault {
  const why = (cause as Error).message;
  return fault('storage_broken', `syncing ${file} to the disk failed: ${why}`, {
    cause,
    hint: 'Check the disk (dmesg lists its errors). If the runtime is down: agentctl up.',
  });
}

export const endProcess: OnFailedSync = (problem) => {
  makeLog(stderrSink).error('ending this process: its database could not be synced', {
    hint: problem.hint,
    error: problem,
  });
  process.exit(FAULTS.storage_broken.exit);
};
