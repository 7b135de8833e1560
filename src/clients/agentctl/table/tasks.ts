// The words for tasks, and for what tasks leave behind.
import type { Command, Option, Positional } from '../command.ts';

const ID: Positional = { name: 'ID', completes: 'task' };
const NO_WAIT: Option = {
  name: 'no-wait',
  help: 'come back (exit 4) as soon as it waits for a person',
};
const LIMIT: Option = {
  name: 'limit',
  value: 'N',
  kind: 'count',
  most: 1000,
  help: 'at most so many (default 50)',
};
const TASK_STATUSES = [
  'submitted',
  'blocked',
  'ready',
  'working',
  'waiting',
  'completed',
  'failed',
  'canceled',
  'rejected',
];

export const taskCommands: readonly Command[] = [
  {
    path: ['task', 'create'],
    positionals: [{ name: 'GOAL' }],
    options: [
      { name: 'agent', value: 'A', completes: 'agent', help: 'who does it (default: the planner)' },
      {
        name: 'after',
        value: 'ID',
        many: true,
        completes: 'task',
        help: 'start when this task has completed; may be repeated',
      },
      { name: 'max-steps', value: 'N', kind: 'count', help: 'at most so many steps' },
      { name: 'max-tokens', value: 'N', kind: 'count', help: 'at most so many tokens' },
      { name: 'max-cost', value: 'USD', kind: 'usd', help: 'at most so much money, such as 0.50' },
      { name: 'max-time', value: 'D', kind: 'duration', help: 'at most so long: 30s, 10m, 2h, 1d' },
      { name: 'deadline', value: 'TIME', help: 'it must have ended by then' },
      {
        name: 'workspace',
        value: 'DIR',
        help: 'work in this directory, one that sandboxd.workspace_roots allows',
      },
      { name: 'priority', value: 'N', kind: 'priority', help: '-100 to 100, higher goes first' },
      {
        name: 'input',
        value: 'INPUT',
        many: true,
        completes: 'file',
        help: 'artifact_…, @FILE or a text it shall know; may be repeated',
      },
      { name: 'parent', value: 'ID', completes: 'task', help: 'the task it is a part of' },
      { name: 'context', value: 'ID', completes: 'context', help: 'the thread it belongs to' },
      { name: 'wait', help: 'show what happens, and come back with the result' },
      NO_WAIT,
    ],
    help: 'give work to the team; a GOAL of - is read from stdin',
    details: [
      'With --wait the exit status is 0 when it completed, 1 when it failed or was canceled,',
      '3 when it was denied, 7 when a budget or limit ended it.',
    ],
    load: async () => (await import('../commands/task-create.ts')).create,
  },
  {
    path: ['task', 'list'],
    options: [
      {
        name: 'status',
        value: 'STATUS',
        completes: TASK_STATUSES,
        only: true,
        help: 'only these',
      },
      { name: 'agent', value: 'A', completes: 'agent', help: "only this agent's" },
      { name: 'parent', value: 'ID', completes: 'task', help: 'only the parts of this task' },
      { name: 'root', value: 'ID', completes: 'task', help: 'only the tree below this task' },
      LIMIT,
      { name: 'cursor', value: 'CURSOR', help: 'go on where the last page ended' },
    ],
    help: 'tasks, newest first',
    load: async () => (await import('../commands/tasks.ts')).list,
  },
  {
    path: ['task', 'show'],
    positionals: [ID],
    help: 'one task: goal, limits, runs, waits and result',
    load: async () => (await import('../commands/tasks.ts')).show,
  },
  {
    path: ['task', 'watch'],
    positionals: [{ ...ID, optional: true }],
    options: [NO_WAIT],
    help: 'a tree of tasks and calls that follows what happens (default: the newest task)',
    load: async () => (await import('../commands/task-watch.ts')).watch,
  },
  {
    path: ['task', 'cancel'],
    positionals: [ID],
    options: [{ name: 'reason', value: 'TEXT', help: 'why, for the record' }],
    help: 'end a task and its parts, also in the middle of a model call',
    load: async () => (await import('../commands/tasks.ts')).cancel,
  },
  {
    path: ['task', 'retry'],
    positionals: [ID],
    options: [{ name: 'wait', help: 'show what happens, and come back with the result' }, NO_WAIT],
    help: 'make a new task like an ended one',
    load: async () => (await import('../commands/task-create.ts')).retry,
  },
  {
    path: ['task', 'explain'],
    positionals: [ID],
    help: 'the whole story: who asked whom for what, what was allowed by which rule, and why',
    load: async () => (await import('../commands/task-explain.ts')).explain,
  },
  {
    path: ['task', 'replay'],
    positionals: [ID],
    help: 'run it again from the recorded answers and say where it differs',
    load: async () => (await import('../commands/task-explain.ts')).replay,
  },
  {
    path: ['task', 'graph'],
    positionals: [{ ...ID, optional: true }],
    options: [{ name: 'dot', help: 'as a graph for Graphviz' }],
    help: 'what is part of what, and what waits for what',
    load: async () => (await import('../commands/task-graph.ts')).graph,
  },
  {
    path: ['artifact', 'list'],
    options: [
      { name: 'task', value: 'ID', completes: 'task', help: 'only those of this task' },
      { name: 'context', value: 'ID', completes: 'context', help: 'only those of this thread' },
      LIMIT,
      { name: 'cursor', value: 'CURSOR', help: 'go on where the last page ended' },
    ],
    help: 'what tasks have stored',
    load: async () => (await import('../commands/artifacts.ts')).list,
  },
  {
    path: ['artifact', 'get'],
    positionals: [{ name: 'ID', completes: 'artifact' }],
    options: [
      { name: 'output', short: 'o', value: 'FILE', completes: 'file', help: 'write it there' },
    ],
    help: 'the content of an artifact',
    load: async () => (await import('../commands/artifacts.ts')).get,
  },
];
