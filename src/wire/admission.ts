// How agentd lets a run call a daemon, tells what it has seen, and ends that: the same at each
// daemon that runs call.
import * as z from 'zod';
import { AgentName, Label, RunId, TaskId } from './primitives.ts';
import { route, routes } from './route.ts';

/** The fields of an admission that are the same at every daemon. */
export const admitted = {
  fence: z.int().positive(),
  mode: z.enum(['live', 'replay']),
  agent: AgentName,
  task_id: TaskId,
  root_task_id: TaskId,
  labels: z.array(Label).max(16),
};
export type RunAdmission = z.infer<z.ZodObject<typeof admitted>>;

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
     * What the run has seen by other ways: a message, an artifact, a result. Labels only grow. What
     * is open to it, also to what it does just now, is narrowed before the answer, which gives all
     * labels that count.
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
