// Live items: output of commands and text of models in a task tree, for people who watch it as it
// comes. Nothing of it is kept here; the records have the whole afterwards.
import * as z from 'zod';
import { AgentName, CallId, TaskId } from './primitives.ts';
import { route } from './route.ts';

export const LIVE_CHARS_MAX = 16_384;

/** One document of the stream. */
export const LiveItem = z.object({
  kind: z.enum(['stdout', 'stderr', 'text', 'thinking', 'tool_call']),
  call_id: CallId,
  task_id: TaskId,
  agent: AgentName,
  /** The tool or the model that it comes from. */
  source: z.string(),
  /** Untrusted, and not checked for secrets. A tool_call has the tool's name as models have it. */
  text: z.string().max(LIVE_CHARS_MAX),
});
export type LiveItem = z.infer<typeof LiveItem>;

export const LiveQuery = z.strictObject({
  root_task_id: TaskId,
  seconds: z.coerce.number().int().min(1).max(86_400).optional(),
});
export type LiveQuery = z.infer<typeof LiveQuery>;

/** Sent instead of items for which the reader was too slow. */
export const LiveGap = z.object({ left_out_chars: z.int().positive() });
export type LiveGap = z.infer<typeof LiveGap>;

/**
 * Server-sent events, each a LiveItem or a LiveGap of this task tree: from now on, until the reader
 * disconnects or these seconds have passed.
 */
export const liveRoute = (path: string) =>
  route({
    method: 'GET',
    path,
    callers: ['operator'],
    query: LiveQuery,
    output: z.unknown(),
    streams: true,
  });
