// The record that a restore leaves in the state directory: while it writes, so that nothing starts
// on half a state, and afterwards, until agentd has recorded what it restored. Small, because the
// command line loads it.
import { existsSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { fault } from '../wire/errors.ts';

/** There from the first to the last step of a restore. */
export const RESTORING_FILE = 'restoring.json';
/** There from the end of a restore until the first start after it. */
export const RESTORED_FILE = 'restored.json';

export type RestoreRecord = {
  backup: string;
  /** The instant that the restored databases are of. */
  taken_at: string;
  restored_at: string;
  /** The restored log ends here. */
  events: number;
  root: string;
  manifest_sha256: string;
  /** Root tasks whose files are newer than the databases. */
  changed_trees: string[];
};

export function assertRestoreEnded(stateDir: string): void {
  if (!existsSync(join(stateDir, RESTORING_FILE))) return;
  throw fault('storage_broken', `the restore of ${stateDir} did not end`, {
    hint: 'Run the same agentctl restore again: it starts over.',
  });
}

export function readRestoreRecord(stateDir: string): RestoreRecord | undefined {
  const file = join(stateDir, RESTORED_FILE);
  if (!existsSync(file)) return undefined;
  try {
    const record = JSON.parse(readFileSync(file, 'utf8')) as RestoreRecord;
    if (Number.isFinite(Date.parse(record.taken_at)) && Array.isArray(record.changed_trees))
      return record;
  } catch {
    // Reported below.
  }
  // Without it no person would be asked about what happened after the backup.
  throw fault('storage_broken', `${file} is damaged`, { hint: 'Restore the backup again.' });
}

export const removeRestoreRecord = (stateDir: string): void =>
  rmSync(join(stateDir, RESTORED_FILE), { force: true });
