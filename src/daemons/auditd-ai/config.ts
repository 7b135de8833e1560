// auditd-ai's section of the configuration.
import * as z from 'zod';

export const auditdConfig = z.strictObject({
  /** The log's name: first line of its checkpoints and name of its keys. */
  origin: z
    .string()
    .regex(/^[A-Za-z0-9._/-]{1,100}$/, 'must be a name such as audit.example.org')
    .default('agentd.local/audit'),
  segment_bytes_max: z.int().min(65_536).max(1_073_741_824).default(67_108_864),
  /** A log that grew is signed at least this often. */
  checkpoint_every_ms: z.int().min(10).max(3_600_000).default(1_000),
});
