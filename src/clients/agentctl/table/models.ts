// The words for tools and models.
import type { Command, Positional } from '../command.ts';

const MODEL: Positional = { name: 'NAME', completes: 'model' };

export const modelCommands: readonly Command[] = [
  {
    path: ['tool', 'list'],
    help: 'tools: what each does, its risk and the capability that grants it',
    load: async () => (await import('../commands/tools.ts')).list,
  },
  {
    path: ['tool', 'show'],
    positionals: [{ name: 'NAME', completes: 'tool' }],
    help: 'one tool with its schemas, or one call of a tool (call_…)',
    load: async () => (await import('../commands/tools.ts')).show,
  },
  {
    path: ['tool', 'suspend'],
    positionals: [{ name: 'NAME', completes: 'tool' }],
    options: [{ name: 'reason', value: 'TEXT', help: 'why; agents read it' }],
    help: 'let nobody use a tool for now',
    load: async () => (await import('../commands/tools.ts')).suspend,
  },
  {
    path: ['tool', 'resume'],
    positionals: [{ name: 'NAME', completes: 'tool' }],
    help: 'let a suspended tool be used again',
    load: async () => (await import('../commands/tools.ts')).resume,
  },
  {
    path: ['model', 'list'],
    help: 'models and providers, and which of them answer',
    load: async () => (await import('../commands/models.ts')).list,
  },
  {
    path: ['model', 'add'],
    positionals: [{ name: 'PROVIDER', completes: ['anthropic', 'openai'] }],
    options: [
      {
        name: 'dialect',
        value: 'DIALECT',
        completes: ['anthropic', 'openai'],
        only: true,
        help: 'what the server speaks (known for anthropic and openai)',
      },
      { name: 'base-url', value: 'URL', help: 'where it is (known for anthropic and openai)' },
      {
        name: 'key-file',
        value: 'FILE',
        completes: 'file',
        help: 'the key; - reads it from stdin. A key never stands on a command line',
      },
      { name: 'model', value: 'M', many: true, help: 'a model to offer; may be repeated' },
      { name: 'free', help: 'its models cost nothing, such as those of a server of your own' },
      {
        name: 'price-in',
        value: 'USD',
        kind: 'usd',
        help: 'what a million tokens of input cost, for all its models',
      },
      { name: 'price-out', value: 'USD', kind: 'usd', help: 'and a million tokens of output' },
    ],
    help: 'add a provider, or change one',
    details: [
      'A model without a known price is charged as the dearest would be, so that',
      'budgets hold. Say what it costs: --free, or --price-in with --price-out.',
    ],
    load: async () => (await import('../commands/model-add.ts')).add,
  },
  {
    path: ['model', 'test'],
    positionals: [MODEL],
    help: 'ask a model one short question and say how it went',
    load: async () => (await import('../commands/models.ts')).test,
  },
  {
    path: ['model', 'usage'],
    options: [
      { name: 'agent', value: 'A', completes: 'agent', help: "only this agent's" },
      { name: 'task', value: 'ID', completes: 'task', help: "only this task's" },
      { name: 'since', value: 'TIME', help: 'from then on, or so long ago: 24h' },
    ],
    help: 'calls, tokens and money by agent and model',
    load: async () => (await import('../commands/models.ts')).usage,
  },
  {
    path: ['model', 'budget'],
    positionals: [
      { name: 'SUBJECT', optional: true, completes: ['site', 'day', 'agent', 'task'] },
      { name: 'NAME', optional: true },
    ],
    options: [
      { name: 'tokens', value: 'N|none', help: 'the most tokens' },
      { name: 'cost', value: 'USD|none', help: 'the most money' },
    ],
    help: 'show budgets, or set one: site, day, agent NAME, task ID',
    load: async () => (await import('../commands/model-budget.ts')).budget,
  },
];
