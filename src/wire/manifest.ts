// The schema of an agent's manifest, which people write in YAML. Keys are camelCase; unknown keys
// are rejected.
import * as z from 'zod';
import { AgentName } from './primitives.ts';

const capability = z
  .string()
  .regex(/^[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)+$/, 'must look like git.read');
const absolutePath = z
  .string()
  .regex(/^\/[^\0]*$/, 'must be an absolute path')
  .max(4_096);
const size = z.union([
  z.int().positive(),
  z.string().regex(/^[1-9]\d*([KMGT]i?B?)?$/, 'must be a size such as 4G'),
]);
const host = z
  .string()
  .regex(
    /^(\*\.)?[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:\d{1,5})?$/,
    'must be a host such as github.com',
  );
const scope = z
  .string()
  .regex(/^[a-z][a-z0-9_-]*(:[A-Za-z0-9._/-]+)?$/, 'must look like project:app')
  .max(200);

/** A role, or a layer of another kind by its folder: coder, groups/night, scopes/payments. */
export const PersonaRef = z
  .string()
  .regex(
    /^((groups|roles|scopes)\/)?[a-z][a-z0-9_-]{0,62}$/,
    'must be a persona such as coder, groups/night or scopes/payments',
  );

/** Concurrent runs of an agent whose manifest sets no number, so that a new team is parallel. */
export const REPLICAS_DEFAULT = 4;

export const Manifest = z.strictObject({
  apiVersion: z.literal('agentd/v1'),
  kind: z.literal('Agent'),
  metadata: z.strictObject({
    name: AgentName,
    description: z.string().max(500).optional(),
    labels: z.record(z.string().max(63), z.string().max(63)).optional(),
  }),
  spec: z.strictObject({
    linuxUser: z
      .string()
      .regex(/^[a-z_][a-z0-9_-]{0,31}$/, 'must be a Linux user name such as agent-coder')
      .optional(),
    model: z.string().min(1).max(128).optional(),
    replicas: z.int().min(1).max(100).optional(),
    /**
     * Describe the agent to the model: the first part of its context. `personas` name layers,
     * `persona` is the last layer, written here.
     */
    personas: z.array(PersonaRef).max(16).optional(),
    persona: z.string().max(64_000).optional(),
    /** `kept`: one home for all its tasks, which outlives them; unset: one for each task tree. */
    home: z.enum(['task', 'kept']).optional(),
    /** Those of the library that it may read; all if unset. */
    skills: z
      .array(z.string().regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/, 'must be the name of a skill'))
      .max(256)
      .optional(),
    memory: z
      .strictObject({
        /** That of its project, where the episodes of its tasks are kept besides its own. */
        scope: scope.optional(),
        read: z.array(scope).max(64).optional(),
        write: z.array(scope).max(64).optional(),
        /** Set to false: its runs start without memories, its tasks leave no episodes. */
        briefing: z.boolean().optional(),
        episodes: z.boolean().optional(),
      })
      .optional(),
    /** Its groups. Some bring capabilities; site rules can refer to all of them. */
    groups: z
      .array(z.string().regex(/^[a-z][a-z0-9_-]{0,31}$/, 'must look like agent-read-docs'))
      .max(32)
      .optional(),
    tools: z
      .strictObject({
        allow: z.array(capability).max(256).optional(),
        deny: z.array(capability).max(256).optional(),
      })
      .optional(),
    filesystem: z
      .strictObject({
        read: z.array(absolutePath).max(256).optional(),
        write: z.array(absolutePath).max(256).optional(),
        deny: z.array(absolutePath).max(256).optional(),
      })
      .optional(),
    network: z
      .strictObject({
        mode: z.enum(['none', 'restricted']).optional(),
        allow: z.array(host).max(256).optional(),
        /** Methods that `http.fetch` may use at a host without asking a person. */
        change: z
          .record(host, z.array(z.enum(['POST', 'PUT', 'PATCH', 'DELETE'])).min(1))
          .optional(),
      })
      .optional(),
    resources: z
      .strictObject({
        cpu: z.number().positive().max(1024).optional(),
        memory: size.optional(),
        pids: z.int().min(1).max(4_194_304).optional(),
        disk: size.optional(),
      })
      .optional(),
    approvals: z.strictObject({ required: z.array(capability).max(64).optional() }).optional(),
    /** Default limits of one task. */
    limits: z
      .strictObject({
        maxSteps: z.int().min(1).max(10_000).optional(),
        maxTokens: z.int().positive().optional(),
        maxCostUsd: z.number().nonnegative().max(1_000_000).optional(),
        maxTimeS: z.int().min(1).max(31_536_000).optional(),
      })
      .optional(),
    /** The agent's daily spending limit over all its tasks. */
    budget: z
      .strictObject({
        tokensPerDay: z.int().nonnegative().optional(),
        costUsdPerDay: z.number().nonnegative().max(1_000_000).optional(),
      })
      .optional(),
    /**
     * The agents it may delegate to and send messages to. If absent: any agent (with
     * task.delegate), and its own thread.
     */
    team: z
      .strictObject({
        delegateTo: z.array(AgentName).max(256).optional(),
        talkTo: z.array(AgentName).max(256).optional(),
      })
      .optional(),
  }),
});
export type Manifest = z.infer<typeof Manifest>;
