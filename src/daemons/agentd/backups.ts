// Records in the audit log who makes a backup, before anything is copied, and how it ended.
import { type Clock, toTimestamp } from '../../platform/clock.ts';
import type { Handlers } from '../../platform/dispatch.ts';
import type { NewId } from '../../platform/ids.ts';
import { assertOperatorKey } from '../../platform/snapshots.ts';
import type { backupRoutes } from '../../wire/agentd/backups.ts';
import type { AgentdStore } from './store/store.ts';

export function makeBackupHandlers(options: {
  store: Pick<AgentdStore, 'recordBackup' | 'outbox'>;
  clock: Clock;
  newId: NewId;
}): Handlers<typeof backupRoutes> {
  const { store, clock, newId } = options;
  return {
    async startBackup({ caller }) {
      assertOperatorKey(caller);
      const id = newId<string>('backup');
      const startedAt = toTimestamp(clock.nowMs());
      const { principal } = caller;
      const seq = await store.recordBackup({ event: 'backup.started', principal, data: { id } });
      await store.outbox.delivered(seq);
      return { backup: { id, started_at: startedAt } };
    },
    async endBackup({ caller, params, body }) {
      assertOperatorKey(caller);
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
