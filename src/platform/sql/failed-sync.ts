// Ends the process after a failed sync of a database. The kernel may have marked unwritten pages
// clean, so a second sync would succeed without them; only a new process reads the disk.
import { FAULTS, type Fault, fault } from '../../wire/errors.ts';
import { makeLog, stderrSink } from '../log.ts';

/** Called after a failed sync; tests pass their own. */
export type OnFailedSync = (problem: Fault) => void;

export function failedSyncFault(file: string, cause: unknown): Fault {
  const why = (cause as Error).message;
  return fault('storage_broken', `syncing ${file} to the disk failed: ${why}`, {
    cause,
    hint: 'Check the disk (dmesg lists its errors). If the runtime is down: agentctl up.',
  });
}

export const endProcess: OnFailedSync = (problem) => {
  makeLog(stderrSink).error('ending this process: syncing its database failed', {
    hint: problem.hint,
    error: problem,
  });
  process.exit(FAULTS.storage_broken.exit);
};
