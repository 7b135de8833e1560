// The routes by which a backup is recorded: it copies everything, keys included, so the log has who
// made one, and the hash by which a backup kept elsewhere can be recognized. Nothing is pruned in
// the meantime.
import * as z from 'zod';
import { Timestamp } from '../primitives.ts';
import { route, routes } from '../route.ts';

const BackupId = z
  .string()
  .regex(/^backup_[0-9a-hjkmnp-tv-z]{26}$/, 'must look like backup_ and 26 characters');

export const backupRoutes = routes({
  /**
   * Responds when the log has it durably, so that nothing is copied unrecorded, and when nothing is
   * being pruned. Pruning waits for endBackup, or until the backup was not renewed for two minutes.
   */
  startBackup: route({
    method: 'POST',
    path: '/v1/backups',
    callers: ['operator'],
    output: z.object({ backup: z.object({ id: BackupId, started_at: Timestamp }) }),
  }),
  renewBackup: route({
    method: 'POST',
    path: '/v1/backups/{id}/renew',
    callers: ['operator'],
    params: z.strictObject({ id: BackupId }),
    output: z.object({ renewed: z.boolean() }),
  }),
  endBackup: route({
    method: 'PUT',
    path: '/v1/backups/{id}',
    callers: ['operator'],
    params: z.strictObject({ id: BackupId }),
    body: z.strictObject({
      status: z.enum(['completed', 'failed']),
      /** The manifest's hash. It and what follows are null for a backup that failed. */
      manifest_sha256: z
        .string()
        .regex(/^[0-9a-f]{64}$/, 'must be a SHA-256 in hex')
        .nullable(),
      events: z.int().nonnegative().nullable(),
      size_bytes: z.int().nonnegative().nullable(),
    }),
    output: z.object({ recorded: z.boolean() }),
  }),
});
