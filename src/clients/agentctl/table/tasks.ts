// Commands for tasks and artifacts.
import type { Command, Option, Positional } from '../command.ts';

const ID: Positional = { name: 'ID', completes: 'task' };
const NO_WAIT: Option = {
  name: 'no-wait',
  help: 'return (exit 4) as soon as it waits for a person',
};
const LIMIT: Option = {
  name: 'limit',
  value: 'N',
  kind: 'count',
  most: 1000,
  help: 'maximum number of results (default 50)',
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
      {
        name: 'agent',
        value: 'A',
        completes: 'agent',
        help: 'agent to assign (default: the planner)',
      },
      {
        name: 'after',
        value: 'ID',
        many: true,
        completes: 'task',
        help: 'start when this task has completed; repeatable',
      },
      { name: 'max-steps', value: 'N', kind: 'count', help: 'maximum number of steps' },
      { name: 'max-tokens', value: 'N', kind: 'count', help: 'maximum number of tokens' },
      { name: 'max-cost', value: 'USD', kind: 'usd', help: 'maximum cost, such as 0.50' },
      {
        name: 'max-time',
        value: 'D',
        kind: 'duration',
        help: 'maximum duration: 30s, 10m, 2h, 1d',
      },
      { name: 'deadline', value: 'TIME', help: 'time by which it must end' },
      {
        name: 'workspace',
        value: 'DIR',
        completes: 'directory',
        help:
          'let agents work in this directory of your own, and start there; with --parent, own: in ' +
          'a layer above that of the parent',
      },
      { name: 'here', help: 'the same for the current directory' },
      { name: 'live', help: 'there, change the directory itself, at once' },
      { name: 'priority', value: 'N', kind: 'priority', help: '-100 to 100; higher starts first' },
      {
        name: 'input',
        value: 'INPUT',
        many: true,
        completes: 'file',
        help: 'input: artifact_…, memory_…, @FILE or text; repeatable',
      },
      { name: 'parent', value: 'ID', completes: 'task', help: 'parent task' },
      { name: 'context', value: 'ID', completes: 'context', help: 'thread to continue' },
      { name: 'wait', help: 'show progress, and return with the result' },
      NO_WAIT,
    ],
    help: 'create a task for the team; - reads GOAL from stdin',
    details: [
      'With --wait the exit status is 0 if the task completed, 1 if it failed or was canceled,',
      '3 if it was denied, 7 if a budget or limit ended it.',
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
        help: 'only tasks with this status',
      },
      { name: 'agent', value: 'A', completes: 'agent', help: 'only tasks of this agent' },
      { name: 'parent', value: 'ID', completes: 'task', help: 'only subtasks of this task' },
      { name: 'root', value: 'ID', completes: 'task', help: 'only the tree below this task' },
      LIMIT,
      { name: 'cursor', value: 'CURSOR', help: 'continue after the last page' },
    ],
    help: 'list tasks, newest first',
    load: async () => (await import('../commands/tasks.ts')).list,
  },
  {
    path: ['task', 'show'],
    positionals: [ID],
    help: 'show a task: goal, limits, runs, waits and result',
    load: async () => (await import('../commands/tasks.ts')).show,
  },
  {
    path: ['task', 'watch'],
    positionals: [{ ...ID, optional: true }],
    options: [NO_WAIT],
    help: 'follow a task as a live tree, with what models say and commands print (default: the newest)',
    details: [
      'Ctrl-C ends the watch; the task continues. With --json: {"task":…} at each change of a task,',
      '{"live":…} for each piece of text. Texts are as programs and models wrote them.',
    ],
    load: async () => (await import('../commands/task-watch.ts')).watch,
  },
  {
    path: ['task', 'assign'],
    positionals: [ID, { name: 'AGENT', completes: 'agent' }],
    help: 'assign a task to an agent; same as: agentctl run AGENT --task ID',
    load: async () => (await import('../commands/agents.ts')).assign,
  },
  {
    path: ['task', 'cancel'],
    positionals: [ID],
    options: [{ name: 'reason', value: 'TEXT', help: 'reason, for the record' }],
    help: 'cancel a task and its subtasks, even during a model call',
    load: async () => (await import('../commands/tasks.ts')).cancel,
  },
  {
    path: ['task', 'retry'],
    positionals: [ID],
    options: [{ name: 'wait', help: 'show progress, and return with the result' }, NO_WAIT],
    help: 'create a new task from an ended one',
    load: async () => (await import('../commands/task-create.ts')).retry,
  },
  {
    path: ['task', 'keep'],
    positionals: [ID],
    options: [
      { name: 'reason', value: 'TEXT', help: 'reason, for the record' },
      { name: 'off', help: 'release it' },
    ],
    help: 'hold a task and its whole tree: nothing of it is pruned until it is released',
    load: async () => (await import('../commands/tasks.ts')).keep,
  },
  {
    path: ['task', 'explain'],
    positionals: [ID],
    help: 'show the full timeline: who requested what, which rule allowed it, and why',
    load: async () => (await import('../commands/task-explain.ts')).explain,
  },
  {
    path: ['task', 'transcript'],
    positionals: [ID],
    options: [{ name: 'full', help: 'print every text whole' }],
    help: 'print a task as a conversation: what models said, calls with their results, answers',
    load: async () => (await import('../commands/task-transcript.ts')).transcript,
  },
  {
    path: ['task', 'replay'],
    positionals: [ID],
    help: 'run it again with the recorded responses and report differences',
    load: async () => (await import('../commands/task-explain.ts')).replay,
  },
  {
    path: ['task', 'graph'],
    positionals: [{ ...ID, optional: true }],
    options: [{ name: 'dot', help: 'print it for Graphviz' }],
    help: 'show subtasks and dependencies',
    load: async () => (await import('../commands/task-graph.ts')).graph,
  },
  {
    path: ['artifact', 'list'],
    options: [
      { name: 'task', value: 'ID', completes: 'task', help: 'only artifacts of this task' },
      { name: 'context', value: 'ID', completes: 'context', help: 'only artifacts of this thread' },
      LIMIT,
      { name: 'cursor', value: 'CURSOR', help: 'continue after the last page' },
    ],
    help: 'list stored artifacts',
    load: async () => (await import('../commands/artifacts.ts')).list,
  },
  {
    path: ['artifact', 'get'],
    positionals: [{ name: 'ID', completes: 'artifact' }],
    options: [
      { name: 'output', short: 'o', value: 'FILE', completes: 'file', help: 'write to this file' },
    ],
    help: "print an artifact's content",
    load: async () => (await import('../commands/artifacts.ts')).get,
  },
];
