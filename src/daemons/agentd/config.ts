// Defines agentd's section of the configuration. Every field has a safe default.
import * as z from 'zod';
import { FailurePolicy } from '../../wire/agentd.ts';

export const agentdConfig = z.strictObject({
  /** Maximum number of runs with a process. */
  runs_live_max: z.int().min(1).max(1_000).default(16),
  /** A runner that sends no heartbeat for this long is considered dead. */
  lease_s: z.int().min(5).max(3_600).default(60),
  /** Crashes of one run without progress before its task fails. */
  crashes_max: z.int().min(0).max(100_000).default(8),
  delegation_depth_max: z.int().min(1).max(64).default(8),
  children_max: z.int().min(1).max(10_000).default(100),
  question_expires_s: z
    .int()
    .min(1)
    .max(31_536_000)
    .default(7 * 86_400),
  /** For root tasks that set no policy. */
  on_failure: FailurePolicy.default('stop'),
  /** Tries with the policies retry and reassign, the first one included. */
  attempts_max: z.int().min(1).max(10).default(3),
  /** Defaults for tasks whose own limits and whose agent's limits are unset. */
  limits: z
    .strictObject({
      max_steps: z.int().min(1).max(10_000).default(50),
      max_tokens: z.int().positive().optional(),
      max_cost_microusd: z.int().nonnegative().optional(),
      max_time_s: z.int().min(1).max(31_536_000).default(86_400),
    })
    .prefault({}),
  /** Limits of a thread, until a person writes there; 0: no limit. */
  threads: z
    .strictObject({
      /** Turns: an agent writes or delegates to another, after that one wrote or as the first. */
      turns_max: z.int().min(0).max(100_000).default(40),
      /** Turns in a row between two agents that only repeat what one of them said. */
      repeats_max: z.int().min(0).max(1_000).default(2),
      /** The cost of a thread before the next message between agents. */
      cost_microusd_max: z.int().min(0).default(10_000_000),
    })
    .prefault({}),
  memory: z
    .strictObject({
      /** Runs start with what their scopes know about the goal. */
      briefing: z.boolean().default(true),
      briefing_tokens_max: z.int().min(0).max(8_000).default(800),
      /** A run starts without memories if memoryd has not answered by then. */
      wait_ms: z.int().min(1).max(10_000).default(50),
      /** Ended tasks are remembered: what they took, and their words. */
      episodes: z.boolean().default(true),
    })
    .prefault({}),
  /** Disk space that artifacts may not use; 0 disables the reserve. */
  disk_reserve_bytes: z.int().min(0).default(536_870_912),
  /** The directory of manifests; if unset, STATE/agents with the starter team. */
  agents_dir: z.string().max(4_096).optional(),
  /** The directory of the site's rules (*.cedar); STATE/policies if unset. */
  policies_dir: z.string().max(4_096).optional(),
  /**
   * People and their roles (approver, admin, or names used in the site's rules). If unset, anyone
   * with a key of this runtime may decide every approval.
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
  /** Personas and skills of the site, in folders of these names. */
  site_dir: z.string().max(4_096).default('/etc/agentd'),
  /** Those that ship with the runtime. Set by the process that starts the daemon. */
  package_dir: z.string().max(4_096).optional(),
  /** The directory of the starter team's manifests. Set by the process that starts the daemon. */
  starter_dir: z.string().max(4_096).optional(),
});
export type AgentdConfig = z.output<typeof agentdConfig>;
