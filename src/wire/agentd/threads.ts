// The thread of tasks and messages that belong together: what agents may still write to each other
// there, and whose move is the next.
import * as z from 'zod';
import { ContextId, Principal } from '../primitives.ts';
import { route, routes } from '../route.ts';

/** Why an agent may not take the next turn; `stopped`: a person ended the exchange. */
export const TurnLimit = z.enum(['turns', 'repeats', 'cost', 'stopped']);
export type TurnLimit = z.infer<typeof TurnLimit>;

export const NextMove = z.object({
  /** An agent or a person; `person:*` is any person. */
  owner: z.string(),
  /** Whose task it is, or waits for it. */
  task_id: z.string(),
  why: z.string(),
});
export type NextMove = z.infer<typeof NextMove>;

export const ThreadView = z.object({
  context_id: ContextId,
  /** Between agents, since a person last wrote there. */
  turns: z.int(),
  /** 0: no limit. */
  turns_max: z.int(),
  /** The person who ended what agents write to each other there. */
  stopped_by: Principal.nullable(),
  next_move: NextMove,
});
export type ThreadView = z.infer<typeof ThreadView>;

export const threadRoutes = routes({
  getThread: route({
    method: 'GET',
    path: '/v1/threads/{id}',
    callers: ['operator'],
    params: z.strictObject({ id: ContextId }),
    output: z.object({ thread: ThreadView }),
  }),
});
