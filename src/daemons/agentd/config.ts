// agentd's section of the configuration: limits of the site. Every field has a safe default.
import * as z from 'zod';

export const agentdConfig = z.strictObject({
  /** Runs that may have a process at the same time. */
  runs_live_max: z.int().min(1).max(1_000).default(16),
  /** A runner that gives no sign of life for so long is taken for dead. */
  lease_s: z.int().min(5).max(3_600).default(60),
  /** Crashes of one run, without getting further, before its task fails. */
  crashes_max: z.int().min(0).max(100_000).default(8),
  delegation_depth_max: z.int().min(1).max(64).default(8),
  children_max: z.int().min(1).max(10_000).default(100),
  question_expires_s: z
    .int()
    .min(1)
    .max(31_536_000)
    .default(7 * 86_400),
  /** Limits of a task where neither it nor its agent says otherwise. */
  limits: z
    .strictObject({
      max_steps: z.int().min(1).max(10_000).default(50),
      max_tokens: z.int().positive().optional(),
      max_cost_microusd: z.int().nonnegative().optional(),
      max_time_s: z.int().min(1).max(31_536_000).default(86_400),
    })
    .prefault({}),
  /** So much of the disk is kept from what agents store as artifacts; 0 keeps nothing. */
  disk_reserve_bytes: z.int().min(0).default(536_870_912),
  /** A directory of manifests; the starter team when absent. */
  agents_dir: z.string().max(4_096).optional(),
  /** A directory of the site's own rules (*.cedar); STATE/policies when absent. */
  policies_dir: z.string().max(4_096).optional(),
  /**
   * Who may answer what: people and their roles (approver, admin, or words of the site's rules).
   * Nobody named: whoever holds a key of this runtime may answer everything.
   */
  people: z
    .record(
      z.string().regex(/^[A-Za-z0-9][A-Za-z0-9@._-]{0,63}$/, 'must be a name such as alice'),
      z.strictObject({
        roles: z
          .array(z.string().regex(/^[a-z][a-z0-9_-]{0,31}$/))
          .max(32)
          .default([]),
      }),
    )
    .optional(),
  /** A directory with the starter team's manifests. Set by whoever starts the daemon. */
  starter_dir: z.string().max(4_096).optional(),
});
export type AgentdConfig = z.output<typeof agentdConfig>;
