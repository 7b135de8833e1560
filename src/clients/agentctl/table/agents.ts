// Commands for agents, messages and questions.
import { type Command, makeAlias, type Option, type Positional } from '../command.ts';

const NAME: Positional = { name: 'NAME', completes: 'agent' };

const manifestOptions: readonly Option[] = [
  { name: 'file', short: 'f', value: 'FILE', completes: 'file', help: 'manifest; - reads stdin' },
  { name: 'description', value: 'TEXT', help: 'what the agent is for' },
  {
    name: 'persona',
    value: 'NAME',
    many: true,
    help: 'what it is told to be, such as coder; repeat for several; base alone removes them',
  },
  { name: 'instructions', value: 'TEXT', help: 'your own words, which come last; - reads stdin' },
  { name: 'model', value: 'MODEL', completes: 'model', help: 'model the agent uses' },
  {
    name: 'allow',
    value: 'CAPABILITY',
    many: true,
    help: 'allow a capability, such as task.delegate; repeat for the full list',
  },
  {
    name: 'deny',
    value: 'CAPABILITY',
    many: true,
    help: 'deny a capability; repeat for the full list',
  },
  {
    name: 'home',
    value: 'HOME',
    completes: ['task', 'kept'],
    only: true,
    help: 'kept: one home for all its tasks; task: one for each',
  },
  {
    name: 'replicas',
    value: 'N',
    kind: 'count',
    help: 'number of tasks it works on at a time (default 4)',
  },
];

const commands: readonly Command[] = [
  {
    path: ['list'],
    help: 'list agents: name, user, status, model, tasks, spend today',
    load: async () => (await import('../commands/agents.ts')).list,
  },
  {
    path: ['pause'],
    positionals: [NAME],
    help: 'stop giving the agent new tasks; running tasks continue',
    load: async () => (await import('../commands/agents.ts')).pause,
  },
  {
    path: ['resume'],
    positionals: [NAME],
    help: 'resume a paused or stopped agent',
    load: async () => (await import('../commands/agents.ts')).resume,
  },
  {
    path: ['stop'],
    positionals: [NAME],
    help: 'pause the agent and stop its running tasks',
    load: async () => (await import('../commands/agents.ts')).stop,
  },
  {
    path: ['logs'],
    positionals: [NAME],
    options: [
      {
        name: 'lines',
        short: 'n',
        value: 'N',
        kind: 'count',
        help: 'number of events (default 50)',
      },
      { name: 'follow', short: 'f', help: 'keep printing new events' },
    ],
    help: 'show what the agent did, from the audit log',
    load: async () => (await import('../commands/audit-read.ts')).logs,
  },
  {
    path: ['agent', 'show'],
    positionals: [NAME],
    help: 'show an agent: manifest, tools, budget and tasks',
    load: async () => (await import('../commands/agents.ts')).show,
  },
  {
    path: ['agent', 'init'],
    positionals: [{ name: 'NAME' }],
    options: [
      {
        name: 'out',
        value: 'FILE',
        completes: 'file',
        help: 'file to write (default: NAME.yaml); - prints it',
      },
    ],
    help: 'write a commented manifest to start from',
    details: ['Example: agentctl agent init reviewer'],
    load: async () => (await import('../commands/init.ts')).initAgent,
  },
  {
    path: ['agent', 'create'],
    positionals: [{ name: 'NAME' }],
    options: manifestOptions,
    help: 'create an agent from a manifest file or from options',
    details: [
      'With --persona and without --allow it may use what the persona expects: agentctl persona list.',
    ],
    load: async () => (await import('../commands/agent-manifest.ts')).create,
  },
  {
    path: ['agent', 'update'],
    positionals: [NAME],
    options: manifestOptions,
    help: 'update an agent: replace its manifest, or change single fields',
    load: async () => (await import('../commands/agent-manifest.ts')).update,
  },
  {
    path: ['agent', 'remove'],
    positionals: [NAME],
    options: [{ name: 'keep-home', help: 'leave the home that it kept from task to task' }],
    help: 'remove an agent and its home; its history stays in the audit log',
    load: async () => (await import('../commands/agents.ts')).remove,
  },
  {
    path: ['run'],
    positionals: [{ name: 'AGENT', completes: 'agent' }],
    options: [
      {
        name: 'task',
        value: 'TASK',
        required: true,
        completes: 'task',
        help: 'task to assign',
      },
    ],
    help: 'assign an existing task to an agent',
    load: async () => (await import('../commands/agents.ts')).run,
  },
  {
    path: ['send'],
    positionals: [{ name: 'USER', completes: 'agent' }, { name: 'MESSAGE' }],
    options: [
      { name: 'task', value: 'ID', completes: 'task', help: "send it in this task's thread" },
      {
        name: 'type',
        value: 'TYPE',
        completes: [
          'TaskRequest',
          'TaskAccepted',
          'TaskRejected',
          'TaskProgress',
          'TaskResult',
          'ArtifactReady',
          'Error',
          'Heartbeat',
        ],
        only: true,
        help: 'message type (default TaskRequest; TaskProgress in a thread)',
      },
      { name: 'subject', value: 'TEXT', help: 'of the mail, if USER is a person' },
    ],
    help: 'send a message to an agent, or mail to a person; - reads it from stdin',
    load: async () => (await import('../commands/messages.ts')).send,
  },
  {
    path: ['questions'],
    options: [{ name: 'all', help: 'include answered questions' }],
    help: 'list questions from agents',
    load: async () => (await import('../commands/messages.ts')).questions,
  },
  {
    path: ['answer'],
    positionals: [{ name: 'ID', completes: 'question' }, { name: 'TEXT' }],
    help: 'answer a question; - reads the answer from stdin',
    load: async () => (await import('../commands/messages.ts')).answer,
  },
];

const alias = (name: string, ...path: string[]): Command =>
  makeAlias(commands.find((command) => command.path[0] === name)!, ...path);

export const agentCommands: readonly Command[] = [
  ...commands,
  alias('list', 'agent', 'list'),
  alias('questions', 'question', 'list'),
  alias('answer', 'question', 'answer'),
];
