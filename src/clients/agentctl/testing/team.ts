// Test helper: the records of one task, done by a planner, a researcher and a coder with a question
// to a person in the middle. The model was the rehearsal.
import type { TaskView, TreeNode } from '../../../wire/agentd.ts';
import type { AuditEvent } from '../../../wire/events.ts';
import type { ModelCallView } from '../../../wire/modeld.ts';
import type { ToolCallView } from '../../../wire/toold.ts';
import { at, event, id, modelCall, type Plain, run, task, toolCall, wait } from './fixtures.ts';

const child = (n: number, more: Plain<TaskView>): Plain<TaskView> => ({
  parent_task_id: id('task', 1),
  created_by: 'agent:planner',
  created_at: at(2 + n / 10),
  ended_at: at(5 + n),
  ...more,
});

/** planner → researcher and coder; the coder asked a person. */
export function teamTree(): TreeNode {
  return {
    task: task(1, { rehearsal: true }),
    runs: [run(1, { activations: 2 })],
    waits: [
      wait(1, { child_task_id: id('task', 2), call_id: id('call', 12) }),
      wait(2, { child_task_id: id('task', 3), call_id: id('call', 13) }),
    ],
    children: [
      {
        task: task(
          2,
          child(0, {
            assigned_to: 'researcher',
            goal: 'Read the logs',
            result: 'Slow since 14:02.',
          }),
        ),
        runs: [run(2, { agent: 'researcher', created_at: at(2.2), crashes: 1 })],
        waits: [],
        children: [],
      },
      {
        task: task(
          3,
          child(1, {
            assigned_to: 'coder',
            goal: 'Look at the diff',
            result: 'The index is gone.',
          }),
        ),
        runs: [run(3, { agent: 'coder', created_at: at(2.3) })],
        waits: [
          wait(3, {
            task_id: id('task', 3),
            call_id: id('call', 31),
            kind: 'question',
            question: 'May I read the schema?',
            outcome: 'answered',
            answer: { answer: 'yes' },
            answered_by: 'person:ada',
            opened_at: at(3),
            ended_at: at(4),
          }),
        ],
        children: [],
      },
    ],
  };
}

export function teamCalls(taskId: string): { models: ModelCallView[]; tools: ToolCallView[] } {
  if (taskId === id('task', 1)) {
    return {
      models: [
        modelCall(11),
        modelCall(14, { created_at: at(9), stop_reason: 'tool_calls', cost_microusd: 800 }),
      ],
      tools: [
        toolCall(12, { wait_id: id('wait', 1) }),
        toolCall(13, {
          arguments: { agent: 'coder', goal: 'Look at the diff' },
          wait_id: id('wait', 2),
        }),
        toolCall(15, {
          tool: 'task.finish',
          arguments: { result: 'An index' },
          created_at: at(11),
        }),
      ],
    };
  }
  if (taskId !== id('task', 3)) return { models: [], tools: [] };
  const mine = { task_id: id('task', 3), agent: 'coder', run_id: id('run', 3) };
  return {
    models: [modelCall(30, { ...mine, created_at: at(2.5), model: 'coder-large' })],
    tools: [
      toolCall(31, {
        ...mine,
        tool: 'person.ask',
        arguments: { question: 'May I read the schema?' },
        created_at: at(3),
        wait_id: id('wait', 3),
      }),
      toolCall(32, {
        ...mine,
        tool: 'git.push',
        arguments: { branch: 'main' },
        status: 'denied',
        result: null,
        error: { code: 'denied', message: 'the manifest does not allow git.push' },
        created_at: at(4.5),
      }),
    ],
  };
}

export function teamEvents(taskId: string): AuditEvent[] {
  if (taskId === id('task', 1))
    return [
      event(1, {
        call_id: id('call', 12),
        allowed: true,
        policy: 'manifest planner allows task.delegate',
      }),
    ];
  if (taskId === id('task', 2))
    return [
      event(2, {
        event: 'run.crashed',
        task_id: taskId,
        ts: at(3),
        data: { detail: 'the process was killed' },
      }),
    ];
  return [
    event(4, {
      event: 'tool.call.denied',
      task_id: taskId,
      call_id: id('call', 32),
      allowed: false,
      policy: 'manifest coder has no git.write',
    }),
  ];
}
