// Presets: agents, tasks and messages of a team in one file, loaded as a whole or not at all.
import * as z from 'zod';
import { AgentName, ContextId, TaskId } from '../primitives.ts';
import { route, routes } from '../route.ts';
import { TaskStatus } from './tasks.ts';

export const PresetView = z.object({
  name: z.string(),
  description: z.string(),
  variables: z.array(
    z.object({
      name: z.string(),
      description: z.string(),
      /** Null: required and not given. */
      value: z.string().nullable(),
      from: z.enum(['given', 'default', 'missing']),
      choice: z.array(z.string()),
    }),
  ),
  /** `keep`: there is one already, which is left as it is. */
  agents: z.array(
    z.object({ name: AgentName, description: z.string(), action: z.enum(['create', 'keep']) }),
  ),
  /** In an order in which each comes after those it waits for. */
  tasks: z.array(
    z.object({
      id: z.string(),
      goal: z.string(),
      agent: AgentName.nullable(),
      needs: z.array(z.string()),
      after: z.array(z.string()),
      /** Null until it is loaded. */
      task_id: TaskId.nullable(),
      status: TaskStatus.nullable(),
    }),
  ),
  mail: z.array(z.object({ to: AgentName, subject: z.string() })),
  /** The thread of its tasks; null until it is loaded. */
  context_id: ContextId.nullable(),
});
export type PresetView = z.infer<typeof PresetView>;

export const presetRoutes = routes({
  loadPreset: route({
    method: 'POST',
    path: '/v1/presets',
    callers: ['operator'],
    body: z.strictObject({
      /** Its name in problems. */
      file: z.string().min(1).max(4_096),
      text: z.string().max(524_288),
      variables: z.record(z.string().max(64), z.string().max(4_000)).optional(),
      /** Checks everything and changes nothing; required variables may be missing. */
      dry_run: z.boolean().optional(),
      /** Leaves agents that exist as they are, whatever the preset says about them. */
      skip_existing: z.boolean().optional(),
      /** Creates the tasks anew; otherwise the same preset with the same values is loaded once. */
      again: z.boolean().optional(),
    }),
    output: z.object({ preset: PresetView }),
    bodySizeBytesMax: 1_000_000,
  }),
});
