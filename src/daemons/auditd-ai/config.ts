// auditd-ai's section of the configuration.
import * as z from 'zod';

export const auditdConfig = z.strictObject({
  /** The log's name: the first line of its checkpoints and the name of its keys. */
  origin: z
    .string()
    .regex(/^[A-Za-z0-9._/-]{1,100}$/, 'must be a name such as audit.example.org')
    .default('agentd.local/audit'),
  segment_bytes_max: z.int().min(65_536).max(1_073_741_824).default(67_108_864),
  /** A segment is also sealed when its first event is so old: only sealed ones can be archived. */
  segment_hours_max: z.int().min(1).max(87_600).default(168),
  /** Interval at which a log that has grown is signed. */
  checkpoint_every_ms: z.int().min(10).max(3_600_000).default(1_000),
});
