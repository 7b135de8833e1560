// The words for agents, messages and questions.
import type { Command, Option, Positional } from '../command.ts';

const NAME: Positional = { name: 'NAME', completes: 'agent' };

const manifestOptions: readonly Option[] = [
  { name: 'file', short: 'f', value: 'FILE', completes: 'file', help: 'a manifest; - is stdin' },
  { name: 'description', value: 'TEXT', help: 'what the agent is for' },
  { name: 'persona', value: 'TEXT', help: 'who the agent is, in words' },
  { name: 'model', value: 'MODEL', completes: 'model', help: 'the model that answers it' },
  {
    name: 'allow',
    value: 'CAPABILITY',
    many: true,
    help: 'what it may use, such as task.delegate; repeat it: this is the whole list',
  },
  {
    name: 'deny',
    value: 'CAPABILITY',
    many: true,
    help: 'what it may not use; repeat it: this is the whole list',
  },
  { name: 'replicas', value: 'N', kind: 'count', help: 'how many tasks it does at a time' },
];

export const agentCommands: readonly Command[] = [
  {
    path: ['list'],
    help: 'agents: name, user, status, model, tasks, spend today',
    load: async () => (await import('../commands/agents.ts')).list,
  },
  {
    path: ['pause'],
    positionals: [NAME],
    help: 'let the agent take no new task; what it has goes on',
    load: async () => (await import('../commands/agents.ts')).pause,
  },
  {
    path: ['resume'],
    positionals: [NAME],
    help: 'let a paused or stopped agent work again',
    load: async () => (await import('../commands/agents.ts')).resume,
  },
  {
    path: ['stop'],
    positionals: [NAME],
    help: 'pause the agent and stop what it is doing now',
    load: async () => (await import('../commands/agents.ts')).stop,
  },
  {
    path: ['logs'],
    positionals: [NAME],
    options: [
      { name: 'lines', short: 'n', value: 'N', kind: 'count', help: 'how many (default 50)' },
      { name: 'follow', short: 'f', help: 'go on as more happens' },
    ],
    help: 'what the agent did, from the audit log',
    load: async () => (await import('../commands/audit-read.ts')).logs,
  },
  {
    path: ['agent', 'show'],
    positionals: [NAME],
    help: 'one agent: its manifest, tools, quotas and tasks',
    load: async () => (await import('../commands/agents.ts')).show,
  },
  {
    path: ['agent', 'create'],
    positionals: [{ name: 'NAME' }],
    options: manifestOptions,
    help: 'declare a new agent from a manifest file or from options',
    load: async () => (await import('../commands/agent-manifest.ts')).create,
  },
  {
    path: ['agent', 'update'],
    positionals: [NAME],
    options: manifestOptions,
    help: 'change an agent: a new manifest, or only what the options name',
    load: async () => (await import('../commands/agent-manifest.ts')).update,
  },
  {
    path: ['agent', 'remove'],
    positionals: [NAME],
    help: 'remove the agent; its record stays in the audit log',
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
        help: 'the task it shall do',
      },
    ],
    help: 'give an existing task to an agent now',
    load: async () => (await import('../commands/agents.ts')).run,
  },
  {
    path: ['send'],
    positionals: [{ name: 'USER', completes: 'agent' }, { name: 'MESSAGE' }],
    options: [
      { name: 'task', value: 'ID', completes: 'task', help: 'say it in the thread of this task' },
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
          'MemoryRecallRequest',
          'MemoryWriteProposal',
          'ToolRequest',
          'ApprovalRequest',
          'Error',
          'Heartbeat',
        ],
        only: true,
        help: 'the message type (default TaskRequest, in a thread TaskProgress)',
      },
    ],
    help: 'send a message to an agent; - reads it from stdin',
    load: async () => (await import('../commands/messages.ts')).send,
  },
  {
    path: ['questions'],
    options: [{ name: 'all', help: 'also those that have been answered' }],
    help: 'what agents ask and wait for',
    load: async () => (await import('../commands/messages.ts')).questions,
  },
  {
    path: ['answer'],
    positionals: [{ name: 'ID', completes: 'question' }, { name: 'TEXT' }],
    help: 'answer a question; - reads the answer from stdin',
    load: async () => (await import('../commands/messages.ts')).answer,
  },
];
