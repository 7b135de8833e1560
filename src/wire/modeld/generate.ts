// Model calls and embeddings in the vendor-neutral form that runners and operators use.
import * as z from 'zod';
import { MemoryId } from '../memoryd/records.ts';
import { CallId, Label, Principal, RunId, TaskId } from '../primitives.ts';

export const sizeCharsMax = 4_000_000;

export const TextPart = z.strictObject({ type: z.literal('text'), text: z.string() });
/** Thinking stays opaque, so that the provider that signed it gets it back unchanged. */
export const ThinkingPart = z.strictObject({
  type: z.literal('thinking'),
  text: z.string(),
  signature: z.string().optional(),
});
export const ToolCallPart = z.strictObject({
  type: z.literal('tool_call'),
  id: z.string().min(1).max(128),
  name: z.string().min(1).max(128),
  /** When the model wrote invalid JSON, this is {} and `arguments_error` says why. */
  arguments: z.record(z.string(), z.unknown()),
  arguments_error: z.string().optional(),
});
export const ToolResultPart = z.strictObject({
  type: z.literal('tool_result'),
  tool_call_id: z.string().min(1).max(128),
  name: z.string().max(128).optional(),
  content: z.string(),
  is_error: z.boolean().optional(),
});
export const Part = z.discriminatedUnion('type', [
  TextPart,
  ThinkingPart,
  ToolCallPart,
  ToolResultPart,
]);
export type Part = z.infer<typeof Part>;

export const Message = z.strictObject({
  role: z.enum(['system', 'user', 'assistant']),
  parts: z.array(Part).min(1).max(2_000),
  /** The origins of the text; they decide which providers may see it. */
  labels: z.array(Label).max(16).optional(),
  /** The memory that it shows, for the record; the provider does not see it. */
  memory_id: MemoryId.optional(),
});
export type Message = z.infer<typeof Message>;

export const ToolSpec = z.strictObject({
  name: z.string().min(1).max(128),
  description: z.string().max(10_000),
  input_schema: z.record(z.string(), z.unknown()),
});
export type ToolSpec = z.infer<typeof ToolSpec>;

/** Counts from the provider. `input_tokens` excludes cache reads and cache writes. */
export const Usage = z.strictObject({
  input_tokens: z.int().nonnegative(),
  output_tokens: z.int().nonnegative(),
  cache_read_tokens: z.int().nonnegative(),
  cache_write_tokens: z.int().nonnegative(),
  reasoning_tokens: z.int().nonnegative(),
});
export type Usage = z.infer<typeof Usage>;

export const StopReason = z.enum([
  'end',
  'tool_calls',
  'max_tokens',
  'stop_sequence',
  'refusal',
  'other',
]);
export type StopReason = z.infer<typeof StopReason>;

export const GenerateRequest = z.strictObject({
  model: z.string().min(1).max(128),
  messages: z.array(Message).min(1).max(10_000).optional(),
  /** An artifact whose text becomes the last user message, after `messages` if there are any. */
  input_ref: z
    .string()
    .regex(/^artifact:\/\/[a-z0-9_]+$/)
    .optional(),
  tools: z.array(ToolSpec).max(256).optional(),
  tool_choice: z.enum(['auto', 'none', 'required']).optional(),
  temperature: z.number().min(0).max(2).optional(),
  stop: z.array(z.string().max(256)).max(8).optional(),
  limits: z
    .strictObject({
      max_input_tokens: z.int().positive().optional(),
      max_output_tokens: z.int().positive().optional(),
    })
    .optional(),
  purpose: z.string().max(1_000).optional(),
  /** Recorded for callers that are not runs; a run's own identity takes precedence. */
  agent: z.string().max(128).optional(),
  task_id: TaskId.optional(),
  /** Set by runs. A repeated call_id gets the recorded response. */
  call_id: CallId.optional(),
  stream: z.boolean().optional(),
});
export type GenerateRequest = z.infer<typeof GenerateRequest>;

export const GenerateResponse = z.object({
  call_id: CallId,
  model: z.string(),
  provider: z.string(),
  /** True when the rehearsal responded instead of a real model. */
  rehearsal: z.boolean(),
  message: Message,
  stop_reason: StopReason,
  usage: Usage,
  cost_microusd: z.int().nonnegative(),
  /** True when this is a recorded response. */
  recorded: z.boolean(),
});
export type GenerateResponse = z.infer<typeof GenerateResponse>;

/** One SSE `data:` line of a streamed response: deltas, then `done` with the whole response. */
export const GenerateEvent = z.discriminatedUnion('type', [
  z.object({ type: z.literal('text'), text: z.string() }),
  z.object({ type: z.literal('thinking'), text: z.string() }),
  z.object({ type: z.literal('tool_call'), id: z.string(), name: z.string() }),
  z.object({ type: z.literal('done'), response: GenerateResponse }),
  z.object({ type: z.literal('error'), error: z.record(z.string(), z.unknown()) }),
]);
export type GenerateEvent = z.infer<typeof GenerateEvent>;

export const EmbedRequest = z.strictObject({
  model: z.string().min(1).max(128),
  input: z.array(z.string().min(1).max(100_000)).min(1).max(256),
  purpose: z.string().max(1_000).optional(),
  agent: z.string().max(128).optional(),
  task_id: TaskId.optional(),
  call_id: CallId.optional(),
});
export type EmbedRequest = z.infer<typeof EmbedRequest>;
export const EmbedResponse = z.object({
  call_id: CallId,
  model: z.string(),
  provider: z.string(),
  rehearsal: z.boolean(),
  embeddings: z.array(z.array(z.number())),
  usage: Usage,
  cost_microusd: z.int().nonnegative(),
  recorded: z.boolean(),
});
export type EmbedResponse = z.infer<typeof EmbedResponse>;

/** Texts of memories, or a question about them. */
export const EmbedMemories = z.strictObject({
  model: z.string().min(1).max(128),
  input: z
    .array(
      z.strictObject({
        text: z.string().min(1).max(100_000),
        /** The version that the text is of: the record names it instead of keeping the text. */
        memory: z.strictObject({ id: MemoryId, version: z.int().positive() }).optional(),
      }),
    )
    .min(1)
    .max(256),
  /** All these texts have them; they decide which providers may see them. */
  labels: z.array(Label).max(16),
  /** Who pays: the author of the memories, or who asks. */
  principal: Principal,
  /** Its budgets pay, too, also when it has ended. */
  run_id: RunId.optional(),
});
export type EmbedMemories = z.infer<typeof EmbedMemories>;
