// Commands for tools and models.
import type { Command, Positional } from '../command.ts';

const MODEL: Positional = { name: 'NAME', completes: 'model' };

export const modelCommands: readonly Command[] = [
  {
    path: ['tool', 'list'],
    help: 'list tools: description, risk and the capability that grants each',
    load: async () => (await import('../commands/tools.ts')).list,
  },
  {
    path: ['tool', 'show'],
    positionals: [{ name: 'NAME', completes: 'tool' }],
    help: 'show a tool with its schemas, or one tool call (call_…)',
    load: async () => (await import('../commands/tools.ts')).show,
  },
  {
    path: ['tool', 'init'],
    positionals: [{ name: 'NAME' }],
    options: [
      {
        name: 'out',
        value: 'FILE',
        completes: 'file',
        help: 'file to write (default: NAME.yaml); - prints it',
      },
    ],
    help: 'write a commented declaration of a tool to start from',
    details: ['Example: agentctl tool init word.count'],
    load: async () => (await import('../commands/init.ts')).initTool,
  },
  {
    path: ['tool', 'suspend'],
    positionals: [{ name: 'NAME', completes: 'tool' }],
    options: [{ name: 'reason', value: 'TEXT', help: 'reason, shown to agents' }],
    help: 'suspend a tool for all agents',
    load: async () => (await import('../commands/tools.ts')).suspend,
  },
  {
    path: ['tool', 'resume'],
    positionals: [{ name: 'NAME', completes: 'tool' }],
    help: 'resume a suspended tool',
    load: async () => (await import('../commands/tools.ts')).resume,
  },
  {
    path: ['model', 'list'],
    help: 'list models and providers, and which are available',
    load: async () => (await import('../commands/models.ts')).list,
  },
  {
    path: ['model', 'add'],
    positionals: [{ name: 'PROVIDER', completes: ['anthropic', 'openai'] }],
    options: [
      {
        name: 'dialect',
        value: 'DIALECT',
        completes: ['anthropic', 'openai', 'responses'],
        only: true,
        help: 'API dialect of the server: anthropic, openai (Chat Completions) or responses',
      },
      { name: 'base-url', value: 'URL', help: 'base URL (known for anthropic and openai)' },
      {
        name: 'key-file',
        value: 'FILE',
        completes: 'file',
        help: 'file with the API key; - reads stdin. Keys are never command-line arguments',
      },
      { name: 'model', value: 'M', many: true, help: 'model to offer; repeatable' },
      { name: 'free', help: 'its models cost nothing, such as on a local server' },
      {
        name: 'price-in',
        value: 'USD',
        kind: 'usd',
        help: 'price of a million input tokens, for all its models',
      },
      { name: 'price-out', value: 'USD', kind: 'usd', help: 'price of a million output tokens' },
    ],
    help: 'add or change a provider',
    details: [
      'A model with no known price is charged at the rate of the most expensive one, so that',
      'budgets hold. To set its price: --free, or --price-in with --price-out.',
    ],
    load: async () => (await import('../commands/model-add.ts')).add,
  },
  {
    path: ['model', 'remove'],
    positionals: [MODEL],
    help: 'remove a provider that was added, with its key, or a model of it',
    details: [
      'NAME is a provider, a model, or PROVIDER/MODEL. Its usage stays in the record.',
      'For example: agentctl model remove local/qwen3-coder',
    ],
    load: async () => (await import('../commands/model-remove.ts')).remove,
  },
  {
    path: ['model', 'alias'],
    positionals: [
      { name: 'NAME', optional: true },
      { name: 'MODEL', optional: true, completes: 'model' },
    ],
    options: [{ name: 'remove', help: 'NAME no longer stands for another model' }],
    help: 'list the names that stand for a model, or let NAME stand for MODEL',
    details: [
      'In NAME, * stands for any characters; quote it. MODEL is a name of agentctl model list,',
      "PROVIDER/MODEL, or default. For example: agentctl model alias 'claude-*' default",
    ],
    load: async () => (await import('../commands/model-alias.ts')).alias,
  },
  {
    path: ['model', 'test'],
    positionals: [MODEL],
    help: 'try what a model, or the models of a provider, can do',
    details: [
      'Sends each route some small calls: chat, streaming, tools, images, token counts, embeddings.',
      '"translated" and "estimated" work for clients, because agentd does it for the provider.',
      'They are charged and recorded. For example: agentctl model test local/qwen3-coder',
    ],
    load: async () => (await import('../commands/model-test.ts')).test,
  },
  {
    path: ['model', 'usage'],
    options: [
      { name: 'agent', value: 'A', completes: 'agent', help: 'only this agent' },
      { name: 'task', value: 'ID', completes: 'task', help: 'only this task' },
      { name: 'since', value: 'TIME', help: 'start time, or how long ago: 24h' },
      {
        name: 'by',
        value: 'WHAT',
        completes: ['key', 'agent', 'person', 'model', 'task'],
        help: 'sum by key, agent, person, model or task',
      },
    ],
    help: 'show calls, tokens and cost by agent and model',
    details: [
      'A person has the usage of the keys they own, and a task that of its subtasks.',
      'By task, the newest 10,000 calls are counted.',
    ],
    load: async () => (await import('../commands/model-usage.ts')).usage,
  },
  {
    path: ['model', 'budget'],
    positionals: [
      {
        name: 'SCOPE',
        optional: true,
        completes: ['site', 'day', 'agent', 'task', 'key', 'person'],
      },
      { name: 'NAME', optional: true },
    ],
    options: [
      { name: 'tokens', value: 'N|none', help: 'token limit' },
      { name: 'cost', value: 'USD|none', help: 'cost limit' },
      {
        name: 'per',
        value: 'PERIOD',
        completes: ['day', 'month', 'total'],
        help: 'for keys and people: renews each day or month (UTC), or never',
      },
    ],
    help: 'show budgets, or set one: site, day, agent NAME, task ID, key NAME, person NAME',
    details: [
      "A person's budget is for what they and the API keys they own use. What was used before it",
      'was set does not count. For example: agentctl model budget person alice --cost 20 --per month',
    ],
    load: async () => (await import('../commands/model-budget.ts')).budget,
  },
];
