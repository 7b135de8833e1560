// A valid request for each route about backups.
import assert from 'node:assert/strict';
import { rows } from './row.ts';

const BACKUP = `backup_${'0'.repeat(26)}`;

export const backupRows = rows({
  startBackup: {
    good: async () => ({}),
    check: ({ backup }: { backup: { id: string } }) => assert.match(backup.id, /^backup_/),
  },
  renewBackup: { unknownId: 'fine', good: async () => ({ params: { id: BACKUP } }) },
  endBackup: {
    unknownId: 'fine',
    good: async () => ({
      params: { id: BACKUP },
      body: { status: 'completed', manifest_sha256: 'a'.repeat(64), events: 1, size_bytes: 1 },
    }),
  },
});
