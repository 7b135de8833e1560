// Runs whose process is a program of a person instead of a runner.
import * as z from 'zod';
import { AgentName, BoxId, RunId } from '../primitives.ts';
import { route, routes } from '../route.ts';
import { WorkspaceMode } from '../sandboxd/layers.ts';
import { AttachToken, ProgramCommand } from '../sandboxd/programs.ts';
import { Limits, TaskView, WorkspacePath } from './tasks.ts';

/** The agent of programs for which nobody names another; agentd declares it when first needed. */
export const BOX_AGENT = 'box';

export const CreateProgram = z.strictObject({
  agent: AgentName.optional(),
  limits: Limits.optional(),
  workspace: WorkspacePath.optional(),
  workspace_mode: WorkspaceMode.optional(),
  /** Programs of one agent with the same name, or else in the same directory, share a home. */
  name: z
    .string()
    .regex(/^[a-z0-9][a-z0-9-]{0,31}$/, 'must be a name such as my-box')
    .optional(),
  /** Answers for every model that the program asks for; absent: one that its agent may use. */
  model: z.string().min(1).max(128).optional(),
  /**
   * Hosts that it may reach beyond its agent's rules, also after it has read text from outside:
   * `name`, `*.name`, each with or without a port.
   */
  allow_hosts: z.array(z.string().min(1).max(260)).max(64).optional(),
  command: ProgramCommand,
});
export type CreateProgram = z.infer<typeof CreateProgram>;

export const programTaskRoutes = routes({
  /** Creates a task, claims its run, and prepares the program; the creator then attaches to it. */
  createProgram: route({
    method: 'POST',
    path: '/v1/programs',
    callers: ['operator'],
    body: CreateProgram,
    output: z.object({
      task: TaskView,
      run_id: RunId,
      box_id: BoxId,
      /** For `attachProgram` of sandboxd, within seconds. */
      token: AttachToken,
    }),
    bodySizeBytesMax: 8_000_000,
  }),
});
