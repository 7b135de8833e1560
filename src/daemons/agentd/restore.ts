// Applies a restore at the first start after it, before any run can be claimed: records it in the
// log, and flags the task trees whose runs may have acted after the backup.
import type { Log } from '../../platform/log.ts';
import { readRestoreRecord, removeRestoreRecord } from '../../platform/restore-record.ts';
import type { AgentdStore } from './store/store.ts';

export async function applyRestore(options: {
  store: Pick<AgentdStore, 'recordRestore'>;
  stateDir: string;
  log: Log;
}): Promise<void> {
  const { store, stateDir, log } = options;
  const restore = readRestoreRecord(stateDir);
  if (restore === undefined) return;
  const openTrees = await store.recordRestore(restore);
  // A crash before this finds the restore recorded, and removes the file then.
  removeRestoreRecord(stateDir);
  const { backup, taken_at } = restore;
  if (openTrees !== undefined)
    log.warn('restored from a backup', { backup, taken_at, open_trees: openTrees });
}
