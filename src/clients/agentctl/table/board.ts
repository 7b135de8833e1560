// Commands for the board.
import type { Command, Option } from '../command.ts';

const ON_FAILURE: readonly Option[] = [
  {
    name: 'on-failure',
    value: 'POLICY',
    completes: ['stop', 'retry', 'reassign', 'halt'],
    only: true,
    help: 'stop what depends on it; retry; reassign to the next best agent; halt the runtime',
  },
  {
    name: 'attempts',
    value: 'N',
    kind: 'count',
    most: 10,
    help: 'tries with retry and reassign, the first one included',
  },
];
const OWNER: Option = {
  name: 'owner',
  value: 'A',
  completes: 'agent',
  help: 'agent that gets it',
};
const AFTER: Option = {
  name: 'after',
  value: 'ID',
  many: true,
  completes: 'task',
  help: 'start when this task has completed; repeatable',
};
const PRIORITY: Option = {
  name: 'priority',
  value: 'N',
  kind: 'priority',
  help: '-100 to 100; higher starts first',
};

export const boardCommands: readonly Command[] = [
  {
    path: ['board'],
    options: [
      {
        name: 'limit',
        value: 'N',
        kind: 'count',
        most: 200,
        help: 'tasks per column (default 20)',
      },
      {
        name: 'hours',
        value: 'N',
        kind: 'count',
        most: 8_760,
        help: 'ended tasks of the last N hours (default 24)',
      },
    ],
    help: 'show the tasks of people by status: what is blocked, ready, working, waiting, ended',
    load: async () => (await import('../commands/board.ts')).board,
  },
  {
    path: ['digest'],
    options: [
      {
        name: 'since',
        value: 'TIME',
        help: 'time, date or duration, such as 8h (default: the last 24 hours)',
      },
      { name: 'mail', help: 'also mail it to you, for example from cron' },
      { name: 'limit', value: 'N', kind: 'count', most: 200, help: 'of each list (default 20)' },
    ],
    help: 'show what waits for you, what went wrong, what was done, and what it cost',
    details: ['It is made by rule from the records; no model is asked.'],
    load: async () => (await import('../commands/digest.ts')).digest,
  },
  {
    path: ['task', 'add'],
    positionals: [{ name: 'GOAL' }],
    options: [
      OWNER,
      {
        name: 'needs',
        value: 'CAP',
        many: true,
        help: 'capability or tool that its agent must have; repeatable',
      },
      AFTER,
      PRIORITY,
      ...ON_FAILURE,
      {
        name: 'input',
        value: 'INPUT',
        many: true,
        completes: 'file',
        help: 'input: artifact_…, @FILE or text; repeatable',
      },
      { name: 'context', value: 'ID', completes: 'context', help: 'thread to continue' },
      { name: 'max-cost', value: 'USD', kind: 'usd', help: 'maximum cost, such as 0.50' },
      { name: 'deadline', value: 'TIME', help: 'time by which it must end' },
      { name: 'wait', help: 'show progress, and return with the result' },
      {
        name: 'no-wait',
        help: 'return (exit 4) as soon as it waits for a person',
      },
    ],
    help: 'put a task on the board; without --owner the agent that matches best gets it',
    details: [
      'If no agent matches clearly, you are asked: agentctl questions. task why ID explains a choice.',
      'task create gives a task to the planner, or to the agent that you name.',
    ],
    load: async () => (await import('../commands/task-create.ts')).add,
  },
  {
    path: ['task', 'update'],
    positionals: [{ name: 'ID', completes: 'task' }],
    options: [
      OWNER,
      PRIORITY,
      AFTER,
      { name: 'after-nothing', help: 'let it start now, whatever it waited for' },
      ...ON_FAILURE,
      {
        name: 'status',
        value: 'STATUS',
        completes: ['completed', 'failed'],
        only: true,
        help: 'end it by hand',
      },
      { name: 'result', value: 'TEXT', help: 'with --status: the result; - reads it from stdin' },
    ],
    help: 'change a task that has not ended: owner, priority, dependencies, failure policy, end',
    details: ['--after replaces its dependencies; only before it has started.'],
    load: async () => (await import('../commands/board.ts')).update,
  },
  {
    path: ['task', 'why'],
    positionals: [{ name: 'ID', completes: 'task' }],
    help: 'show why an agent got a task: who may do it, whom its words fit, what broke a tie',
    load: async () => (await import('../commands/board.ts')).why,
  },
];
