// Messages between agents, people and services: one envelope, twelve types.
import * as z from 'zod';
import {
  ArtifactId,
  ContextId,
  Label,
  MessageId,
  Principal,
  TaskId,
  Timestamp,
} from '../primitives.ts';

export const MESSAGE_TYPES = [
  'TaskRequest',
  'TaskAccepted',
  'TaskRejected',
  'TaskProgress',
  'TaskResult',
  'ArtifactReady',
  'MemoryRecallRequest',
  'MemoryWriteProposal',
  'ToolRequest',
  'ApprovalRequest',
  'Error',
  'Heartbeat',
] as const;
export const MessageType = z.enum(MESSAGE_TYPES);
export type MessageType = z.infer<typeof MessageType>;

export const MessagePart = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('text'), text: z.string().max(65_536) }),
  z.strictObject({ kind: z.literal('artifact_ref'), id: ArtifactId }),
  z.strictObject({ kind: z.literal('memory_ref'), id: z.string().max(128) }),
  z.strictObject({ kind: z.literal('data'), data: z.record(z.string(), z.unknown()) }),
]);
export type MessagePart = z.infer<typeof MessagePart>;

/** The turn of its thread that a message between agents belongs to. */
export const MessageTurn = z.object({
  n: z.int(),
  /** 0: no limit. */
  max: z.int(),
  /** The sender waits for a reply, so the next move is the receiver's. */
  awaits_reply: z.boolean(),
});
export type MessageTurn = z.infer<typeof MessageTurn>;

export const MessageView = z.object({
  id: MessageId,
  type: MessageType,
  context_id: ContextId,
  task_id: TaskId.nullable(),
  from: Principal,
  to: Principal,
  in_reply_to: MessageId.nullable(),
  labels: z.array(Label),
  parts: z.array(MessagePart),
  /** Its position among all messages from this sender to this recipient. */
  pair_seq: z.int(),
  sent_at: Timestamp,
  delivered_at: Timestamp.nullable(),
  /** Between agents; absent in messages of earlier releases. */
  turn: MessageTurn.optional(),
});
export type MessageView = z.infer<typeof MessageView>;

export const SendMessage = z.strictObject({
  type: MessageType,
  to: Principal,
  context_id: ContextId.optional(),
  task_id: TaskId.optional(),
  in_reply_to: MessageId.optional(),
  parts: z.array(MessagePart).min(1).max(32),
});
export type SendMessage = z.infer<typeof SendMessage>;
