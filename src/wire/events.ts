// The audit events: all kinds and their common shape. Attempts and confirmed effects are different
// events. Events carry ids, hashes and sizes, never content.
import * as z from 'zod';
import { Timestamp } from './primitives.ts';

export const EVENT_KINDS = [
  // runtime
  'runtime.started',
  'runtime.stopped',
  'halt.set',
  'halt.lifted',
  'backup.started',
  'backup.ended',
  'runtime.restored',
  'restore.lifted',
  // agents
  'agent.loaded',
  'agent.changed',
  'agent.removed',
  'agent.paused',
  'agent.resumed',
  'agent.stopped',
  // tasks and runs (a run's start and end are the agent's start, stop, crash and restart)
  'task.created',
  'task.started',
  'task.waiting',
  'task.ended',
  'task.assigned',
  'task.updated',
  // what people do with the changes of a tree: before it is done, and what came of it
  'task.changes.attempted',
  'task.changes.refused',
  'task.applied',
  'task.discarded',
  'task.undone',
  'run.started',
  'run.restarted',
  'run.woken',
  'run.parked',
  'run.crashed',
  'run.released',
  'run.ended',
  'run.broken',
  'run.marked',
  'wait.opened',
  'wait.ended',
  'message.sent',
  'message.delivered',
  // a turn between agents was refused
  'thread.limited',
  'artifact.stored',
  'artifact.read',
  'artifact.shared',
  // retention
  'task.kept',
  'task.released',
  'data.pruned',
  // tools
  'tool.call.denied',
  'tool.call.waiting',
  'tool.call.attempted',
  'tool.call.ended',
  'tool.suspended',
  'tool.resumed',
  // models
  'model.call.attempted',
  'model.call.ended',
  'model.call.refused',
  'model.part.forgotten',
  'budget.set',
  'provider.set',
  'provider.removed',
  'alias.set',
  // API keys; refused: an expired, ended or revoked one was used
  'key.created',
  'key.rotated',
  'key.revoked',
  'key.refused',
  // policy, and people's decisions
  'policy.loaded',
  'policy.refused',
  // a request outside of tool and model calls
  'policy.denied',
  'approval.requested',
  'approval.decided',
  'approval.expired',
  'approval.redeemed',
  'permit.granted',
  'permit.used',
  'permit.revoked',
  // memories; ended: without a newer version
  'memory.remembered',
  'memory.proposed',
  'memory.approved',
  'memory.edited',
  'memory.merged',
  'memory.summarized',
  'memory.restored',
  'memory.ended',
  'memory.expiry.set',
  'memory.forgotten',
  'memory.pruned',
  // the last copy of a forgotten text was removed
  'memory.erased',
  'memory.snapshot.taken',
  'memory.recalled',
  // what a run's briefing got
  'memory.briefed',
  // what a person accepted that an agent proposed
  'persona.changed',
  'skill.changed',
  // mail of people
  'mail.delivered',
  'mail.received',
  'mail.handed_over',
  'mail.refused',
  // mail to others, for an agent; unsure: the smarthost may have it
  'mail.queued',
  'mail.attempted',
  'mail.deferred',
  'mail.sent',
  'mail.failed',
  'mail.unsure',
  // boxes and their egress
  'sandbox.opened',
  'sandbox.closed',
  'sandbox.refused',
  // a person's further command in the box of a program
  'sandbox.command.attempted',
  'sandbox.command.ended',
  // in a person's directory that is changed in place
  'workspace.disarmed',
  'network.allowed',
  'network.denied',
  'network.closed',
  // the log itself
  'audit.key_rotated',
  'audit.archived',
] as const;

const text = z.string().max(256);

/** An event as a daemon sends it. `source_seq` grows with its outbox, so repeats are recognized. */
export const NewEvent = z.strictObject({
  id: z.string().min(1).max(128),
  ts: Timestamp,
  event: z.enum(EVENT_KINDS),
  source: text,
  source_store: text,
  source_seq: z.int().positive(),
  principal: text.optional(),
  agent: text.optional(),
  task_id: text.optional(),
  root_task_id: text.optional(),
  run_id: text.optional(),
  call_id: text.optional(),
  tool: text.optional(),
  model: text.optional(),
  allowed: z.boolean().optional(),
  policy: z.string().max(512).optional(),
  artifact: text.optional(),
  status: text.optional(),
  // Checked for every event, twice: this takes half the time of a `z.record`.
  data: z
    .object({})
    .catchall(z.union([z.number(), z.string().max(1024), z.boolean(), z.null()]))
    .optional(),
});
export type NewEvent = z.infer<typeof NewEvent>;

/** An event as a daemon writes it into its outbox: the outbox adds time and source. */
export const EventDraft = NewEvent.omit({
  ts: true,
  source: true,
  source_store: true,
  source_seq: true,
});
export type EventDraft = z.infer<typeof EventDraft>;

/** An event in the log. */
export const AuditEvent = NewEvent.extend({ seq: z.int().nonnegative() });
export type AuditEvent = z.infer<typeof AuditEvent>;
