// task.delegate, task.update, task.apply, task.discard and task.finish: agentd holds the tasks and
// does each call once.
import * as z from 'zod';
import { Delegation, Limits, TaskInput, type WaitView } from '../../../wire/agentd.ts';
import { AgentName, TaskId } from '../../../wire/primitives.ts';
import { ArtifactRef } from './artifacts.ts';
import { WORKSPACE } from './box.ts';
import {
  type AgentdClient,
  forRun,
  peerOptions,
  type Tool,
  type ToolOutcome,
  type Touch,
  tool,
} from './tool.ts';

const Delegated = z.object({
  task_id: TaskId,
  status: z.string().describe('completed, failed or canceled once the task has ended'),
  result: z.string().nullable(),
  result_ref: z
    .string()
    .nullable()
    .describe('the artifact that holds the result, when there is one'),
  error: z.unknown().optional(),
  reason: z.string().optional(),
});

const APPLIED_SHOWN_MAX = 200;
const CHANGES_TIMEOUT_MS = 600_000;
const SLOW = { deadlineMs: CHANGES_TIMEOUT_MS };

function readChildOutcome(wait: WaitView): ToolOutcome {
  const { task_id, status, result, result_ref, error, reason } = wait.answer ?? {};
  const text = (value: unknown) => (typeof value === 'string' ? value : null);
  return {
    status: 'completed',
    result: {
      task_id: wait.child_task_id ?? task_id,
      status: text(status) ?? wait.outcome ?? 'failed',
      result: text(result),
      result_ref: text(result_ref),
      ...(error === undefined || error === null ? {} : { error }),
      ...(typeof reason === 'string' ? { reason } : {}),
    },
  };
}

export function taskTools(agentd: AgentdClient): Tool[] {
  const delegate = tool({
    name: 'task.delegate',
    description:
      'Give a colleague a task of its own. By default you wait: the result of this call is the ' +
      'result of that task. Ask for several at once by calling it several times in one step. The ' +
      'colleague sees only the goal and the inputs, so say everything it needs.',
    risk: 'medium',
    reversibility: 'reversible',
    idempotent: true,
    level: 'L0',
    input: z.strictObject({
      agent: AgentName.describe('the colleague, by name'),
      goal: z.string().min(1).max(65_536).describe('what to do, complete in itself'),
      inputs: z
        .array(TaskInput)
        .max(64)
        .optional()
        .describe('artifacts by id, or text, that the colleague should have'),
      limits: Limits.optional().describe('of that task; never more than yours'),
      delegation: Delegation.optional().describe('allow only these tools, deny those'),
      workspace: z
        .enum(['shared', 'own'])
        .optional()
        .describe(
          'own: it changes a copy of the files as they are now, which you apply with task.apply or ' +
            'drop with task.discard; otherwise you both change the same files',
        ),
      wait: z.boolean().default(true).describe('false: go on at once with only the task_id'),
    }),
    output: Delegated,
    touches: ({ agent }) => [{ action: 'task.delegate', agent }],
    delegatesTo: ({ agent, delegation }) => ({ agent, delegation }),
    async perform(input, context) {
      const body = { ...forRun(context), ...input };
      const { task, wait } = await agentd.toolDelegate({ body }, peerOptions);
      if (wait !== null) return { wait };
      const { id, status, result, result_ref } = task;
      return { result: { task_id: id, status, result, result_ref } };
    },
    readWaitOutcome: readChildOutcome,
  });

  const update = tool({
    name: 'task.update',
    description:
      'Change a task that you delegated and that has not ended: give it to another colleague, ' +
      'change its priority or what it waits for, or end it yourself because it is done or no ' +
      'longer needed. Tasks of others you cannot change, and your own you end with task.finish.',
    risk: 'medium',
    reversibility: 'reversible',
    idempotent: true,
    level: 'L0',
    input: z.strictObject({
      task_id: TaskId.describe('a task that you delegated'),
      agent: AgentName.optional().describe('the colleague who gets it; only before it has started'),
      priority: z.int().min(-100).max(100).optional().describe('up to that of your own task'),
      after: z
        .array(TaskId)
        .max(64)
        .optional()
        .describe('tasks that you delegated, which it waits for; only before it has started'),
      status: z.enum(['completed', 'failed']).optional().describe('ends it'),
      result: z.string().min(1).max(65_536).optional().describe('with status: its result'),
    }),
    output: z.object({
      task_id: TaskId,
      status: z.string(),
      agent: z.string().nullable(),
      priority: z.int(),
      after: z.array(TaskId),
    }),
    touches: ({ agent }) => (agent === undefined ? [] : [{ action: 'task.delegate', agent }]),
    delegatesTo: ({ agent }) =>
      agent === undefined ? undefined : { agent, delegation: undefined },
    async perform(input, context) {
      const { task } = await agentd.toolUpdateTask(
        { body: { ...forRun(context), ...input } },
        peerOptions,
      );
      const { id, status, assigned_to: agent, priority, after } = task;
      return { result: { task_id: id, status, agent, priority, after } };
    },
  });

  const paths = z
    .array(z.string().min(1).max(4_095))
    .min(1)
    .max(1_000)
    .optional()
    .describe('only these files and directories, relative to /workspace');
  /** Its files and yours are in the same box to policy. */
  const touches = (): Touch[] => [{ action: 'file.write', path: WORKSPACE }];

  const apply = tool({
    name: 'task.apply',
    description:
      'Bring what a colleague changed, in a task that you delegated with workspace own, into your ' +
      'files. All or nothing: a file that changed here meanwhile is a conflict, and then you name ' +
      'the other paths or make the change yourself. Files that would run by themselves later ' +
      '(git hooks and the like) are refused; a person can apply them.',
    risk: 'medium',
    reversibility: 'reversible',
    idempotent: true,
    level: 'L0',
    input: z.strictObject({ task_id: TaskId.describe('of that task, which has ended'), paths }),
    output: z.object({
      task_id: TaskId,
      count: z.int().describe('how many paths were changed'),
      applied: z.array(z.string()).describe('the first of them'),
      commits: z.array(z.object({ ref: z.string(), count: z.int() })),
    }),
    touches,
    timeoutMs: CHANGES_TIMEOUT_MS,
    async perform({ task_id, paths: some }, context) {
      const only = some === undefined ? {} : { paths: some };
      const body = { ...forRun(context), action: 'apply' as const, task_id, ...only };
      const { applied, commits } = await agentd.toolChanges({ body }, SLOW);
      return {
        result: {
          task_id,
          count: applied.length,
          applied: applied.slice(0, APPLIED_SHOWN_MAX),
          commits: commits.map(({ ref, count }) => ({ ref, count })),
        },
      };
    },
  });

  const discard = tool({
    name: 'task.discard',
    description:
      'Drop what a colleague changed in a task that you delegated with workspace own, as far as it ' +
      'was not applied. It is gone for good.',
    risk: 'medium',
    reversibility: 'irreversible',
    idempotent: true,
    level: 'L0',
    input: z.strictObject({ task_id: TaskId.describe('of that task, which has ended') }),
    output: z.object({ task_id: TaskId, discarded: z.int() }),
    timeoutMs: CHANGES_TIMEOUT_MS,
    async perform({ task_id }, context) {
      const body = { ...forRun(context), action: 'discard' as const, task_id };
      const { discarded } = await agentd.toolChanges({ body }, SLOW);
      return { result: { task_id, discarded } };
    },
  });

  const finish = tool({
    name: 'task.finish',
    description:
      'End your task with its result. Call it once, when the goal is reached or cannot be ' +
      'reached; nothing you call after it is done. The result is what the person or colleague ' +
      'who gave the task will read.',
    risk: 'low',
    reversibility: 'irreversible',
    idempotent: true,
    level: 'L0',
    input: z.strictObject({
      result: z.string().max(4_000_000).describe('the answer, or why there is none'),
      status: z.enum(['completed', 'failed']).default('completed'),
      artifacts: z.array(ArtifactRef).max(64).optional().describe('what belongs to the result'),
      error_code: z.string().max(64).optional().describe('with failed: a short word for the cause'),
    }),
    output: z.object({ task_id: TaskId, status: z.string() }),
    async perform(input, context) {
      const body = { ...forRun(context), ...input };
      const { task } = await agentd.toolFinish({ body }, peerOptions);
      return { result: { task_id: task.id, status: task.status } };
    },
  });

  return [delegate, update, apply, discard, finish];
}
