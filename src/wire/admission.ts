// The routes by which agentd admits a run to a daemon, syncs its marks and dismisses it: the same
// at every daemon that serves runs.
import * as z from 'zod';
import { AgentName, Label, RunId, TaskId } from './primitives.ts';
import { route, routes } from './route.ts';

/** The fields that an admission has at every daemon. */
export const admissionFields = {
  fence: z.int().positive(),
  mode: z.enum(['live', 'replay']),
  agent: AgentName,
  task_id: TaskId,
  root_task_id: TaskId,
  labels: z.array(Label).max(16),
  /** The process of the run is a person's program. */
  is_program: z.literal(true).optional(),
};
export type RunAdmission = z.infer<z.ZodObject<typeof admissionFields>>;

export const admissionRoutes = <B extends z.ZodType>(body: B) =>
  routes({
    admitRun: route({
      method: 'PUT',
      path: '/v1/runs/{id}',
      callers: ['agentd'],
      params: z.strictObject({ id: RunId }),
      body,
      output: z.object({ socket: z.string() }),
    }),
    /**
     * Adds labels that the run got through another daemon: from a message, an artifact, a result.
     * Labels are never removed. Rights, also those of calls in progress, are narrowed before the
     * response, which lists all labels in effect.
     */
    markRun: route({
      method: 'PUT',
      path: '/v1/runs/{id}/labels',
      callers: ['agentd'],
      params: z.strictObject({ id: RunId }),
      body: z.strictObject({ labels: z.array(Label).min(1).max(16) }),
      output: z.object({ labels: z.array(Label) }),
    }),
    dismissRun: route({
      method: 'DELETE',
      path: '/v1/runs/{id}',
      callers: ['agentd'],
      params: z.strictObject({ id: RunId }),
      query: z.strictObject({ fence: z.coerce.number().int().nonnegative() }),
      output: z.object({ dismissed: z.boolean() }),
    }),
  });
