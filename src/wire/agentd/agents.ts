// Views of agents, and of the runtime's overall status.
import * as z from 'zod';
import { AgentName, FileProblem, Sha256, Timestamp } from '../primitives.ts';
import { HomeId } from '../sandboxd/programs.ts';

export const AgentView = z.object({
  name: AgentName,
  description: z.string(),
  /** Its first role, and what that role is called and for; null without one. */
  persona: z.string().nullable(),
  role: z.string().nullable(),
  purpose: z.string().nullable(),
  /** "Role (persona) - Purpose", in one line without a colon. */
  summary: z.string(),
  /** The hash of what it is told: of its layers, composed. */
  persona_sha256: Sha256,
  /** The home that it keeps from task to task; null if it keeps none. */
  home_id: HomeId.nullable(),
  linux_user: z.string(),
  model: z.string(),
  status: z.enum(['active', 'paused', 'stopped', 'removed']),
  replicas: z.int(),
  capabilities: z.array(z.string()),
  tools: z.array(z.string()),
  manifest_hash: Sha256,
  manifest_file: z.string().nullable(),
  tasks: z.object({ ready: z.int(), working: z.int(), waiting: z.int(), ended: z.int() }),
  budget: z.object({
    tokens_per_day: z.int().nullable(),
    cost_microusd_per_day: z.int().nullable(),
  }),
  created_at: Timestamp,
  updated_at: Timestamp,
});
export type AgentView = z.infer<typeof AgentView>;

export const StatusView = z.object({
  version: z.string(),
  mode: z.enum(['embedded', 'split']),
  state_dir: z.string(),
  started_at: Timestamp,
  halted: z.boolean(),
  halt_reason: z.string().nullable(),
  agents: z.object({ active: z.int(), paused: z.int(), stopped: z.int() }),
  tasks: z.record(z.string(), z.int()),
  runs: z.object({ queued: z.int(), live: z.int(), parked: z.int() }),
  /** Queued runs, by what they wait for. Those that neither number counts are starting. */
  queue: z.object({
    /** Runs that wait for an agent, all of whose replicas are busy. */
    for_agents: z.array(z.object({ agent: AgentName, runs: z.int(), replicas: z.int() })),
    /** Runs that wait because runs_live_max runs are live. */
    for_machine: z.int(),
    runs_live_max: z.int(),
  }),
  waits_open: z.int(),
  problems: z.array(FileProblem),
});
export type StatusView = z.infer<typeof StatusView>;
