// The audit events: every kind there is, and the one shape they have. Attempts and confirmed
// effects are different events. Events carry ids, hashes and sizes, never content.
import * as z from 'zod';
import { Timestamp } from './words.ts';

export const EVENT_KINDS = [
  // runtime
  'runtime.started',
  'runtime.stopped',
  'halt.set',
  'halt.lifted',
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
  'run.started',
  'run.restarted',
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
  'artifact.stored',
  'artifact.read',
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
  // policy, and people's answers
  'policy.loaded',
  'policy.refused',
  'approval.requested',
  'approval.decided',
  'approval.expired',
  'approval.redeemed',
  'permit.granted',
  'permit.used',
  'permit.revoked',
  // boxes, and what leaves them
  'sandbox.opened',
  'sandbox.closed',
  'sandbox.refused',
  'network.allowed',
  'network.denied',
  'network.closed',
  // the log itself
  'audit.key_rotated',
] as const;

const text = z.string().max(256);

/**
 * What a daemon hands to auditd-ai. `source_seq` grows by its outbox, so a repeat is recognised.
 */
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
  data: z
    .record(z.string(), z.union([z.string().max(1024), z.number(), z.boolean(), z.null()]))
    .optional(),
});
export type NewEvent = z.infer<typeof NewEvent>;

/** An event as a daemon writes it into its outbox: the outbox adds time and source. */
export type EventDraft = Omit<NewEvent, 'ts' | 'source' | 'source_store' | 'source_seq'>;

/** An event as the log has it. */
export const AuditEvent = NewEvent.extend({ seq: z.int().nonnegative() });
export type AuditEvent = z.infer<typeof AuditEvent>;

const KINDS: ReadonlySet<string> = new Set(EVENT_KINDS);
const TEXT_MAX: Readonly<Record<string, number>> = {
  ...{ id: 128, principal: 256, agent: 256, task_id: 256, root_task_id: 256, run_id: 256 },
  ...{ call_id: 256, tool: 256, model: 256, artifact: 256, status: 256, policy: 512 },
};
const DATA_TEXT_MAX = 1_024;

function isPlainData(data: unknown): boolean {
  if (typeof data !== 'object' || data === null) return false;
  if (Object.getPrototypeOf(data) !== Object.prototype) return false;
  for (const name in data) {
    if (name === '__proto__') return false;
    const value: unknown = (data as Record<string, unknown>)[name];
    if (typeof value === 'string' ? value.length > DATA_TEXT_MAX : !isPlainValue(value))
      return false;
  }
  return true;
}

function isPlainValue(value: unknown): boolean {
  return value === null || typeof value === 'boolean' || Number.isFinite(value);
}

function isPlainMember(name: string, value: unknown): boolean {
  const most = TEXT_MAX[name];
  if (most !== undefined) return typeof value === 'string' && value.length <= most;
  if (name === 'data') return isPlainData(value);
  if (name === 'allowed') return typeof value === 'boolean';
  return name === 'event' && KINDS.has(value as string);
}

/**
 * True only for what the schema takes. It knows the usual forms and is many times faster; what it
 * does not know goes to the schema.
 */
export function isPlainDraft(draft: EventDraft): boolean {
  if (typeof draft.id !== 'string' || draft.id === '' || !KINDS.has(draft.event)) return false;
  for (const name in draft) if (!isPlainMember(name, draft[name as keyof EventDraft])) return false;
  return true;
}

let lastTime = '';

/** As our own clock writes it. */
function isUsualTime(value: unknown): boolean {
  if (typeof value !== 'string' || value.length !== 24) return false;
  const time = new Date(value);
  return !Number.isNaN(time.getTime()) && time.toISOString() === value;
}

/** Events of one batch are of few moments. */
function isTimestamp(value: unknown): boolean {
  if (value === lastTime) return true;
  if (!isUsualTime(value) && !Timestamp.safeParse(value).success) return false;
  lastTime = value as string;
  return true;
}

function isPlainOwn(name: string, value: unknown): boolean {
  if (name === 'ts') return isTimestamp(value);
  if (name === 'source' || name === 'source_store')
    return typeof value === 'string' && value.length <= 256;
  return name === 'source_seq' && Number.isSafeInteger(value) && (value as number) > 0;
}

/** The same for events that have all the outbox adds. */
export function isPlainEvent(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false;
  const { id, event, ts, source, source_store, source_seq } = value as Partial<NewEvent>;
  if (typeof id !== 'string' || id === '' || event === undefined || ts === undefined) return false;
  if (source === undefined || source_store === undefined || source_seq === undefined) return false;
  for (const name in value) {
    const member: unknown = (value as Record<string, unknown>)[name];
    if (!isPlainMember(name, member) && !isPlainOwn(name, member)) return false;
  }
  return true;
}
