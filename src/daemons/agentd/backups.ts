// Records in the audit log who makes a backup, before anything is copied, and how it ended. Pruning
// waits in between.
import { type Clock, toTimestamp } from '../../platform/clock.ts';
import type { Handlers } from '../../platform/dispatch.ts';
import type { NewId } from '../../platform/ids.ts';
import { assertOperatorKey } from '../../platform/snapshots.ts';
import type { backupRoutes } from '../../wire/agentd/backups.ts';
import type { BackupPauses } from './retention/pauses.ts';
import type { AgentdStore } from './store/store.ts';

export function makeBackupHandlers(options: {
  store: Pick<AgentdStore, 'recordBackup' | 'outbox'>;
  clock: Clock;
  newId: NewId;
  pauses: BackupPauses;
}): Handlers<typeof backupRoutes> {
  const { store, clock, newId, pauses } = options;
  return {
    async startBackup({ caller }) {
      assertOperatorKey(caller);
      const id = newId<string>('backup');
      const startedAt = toTimestamp(clock.nowMs());
      const { principal } = caller;
      await pauses.begin(id);
      try {
        const seq = await store.recordBackup({ event: 'backup.started', principal, data: { id } });
        await store.outbox.delivered(seq);
      } catch (error) {
        pauses.end(id);
        throw error;
      }
      return { backup: { id, started_at: startedAt } };
    },
    async renewBackup({ caller, params }) {
      assertOperatorKey(caller);
      await pauses.renew(params.id);
      return { renewed: true };
    },
    async endBackup({ caller, params, body }) {
      assertOperatorKey(caller);
      pauses.end(params.id);
      const { status, ...facts } = body;
      await store.recordBackup({
        event: 'backup.ended',
        principal: caller.principal,
        status,
        data: { id: params.id, ...facts },
      });
      return { recorded: true };
    },
  };
}
