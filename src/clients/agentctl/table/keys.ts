// Commands for API keys: for programs and SDKs, which need no operator key.
import type { Command, Positional } from '../command.ts';

const KEY: Positional = { name: 'NAME', completes: 'key' };

export const keyCommands: readonly Command[] = [
  {
    path: ['key', 'create'],
    positionals: [{ name: 'NAME' }],
    options: [
      { name: 'models', value: 'A,B', help: 'only these models; * stands for any characters' },
      {
        name: 'budget',
        value: 'USD',
        help: 'most that it may cost: 5/day, 20/month, or 100 in total',
      },
      { name: 'rpm', value: 'N', kind: 'count', help: 'requests per minute' },
      { name: 'expires', value: 'TIME', help: 'when it ends: 30d, or a date' },
      {
        name: 'owner',
        value: 'PERSON',
        completes: 'person',
        help: 'whose usage its calls count towards',
      },
    ],
    help: 'create an API key for an SDK or program, and print its secret once',
    details: [
      'The key works on /openai/… and /anthropic/… of the port (agentctl up --port N), as a bearer',
      'token or x-api-key, and nowhere else. Only its hash is stored. For example:',
      '  agentctl key create ci --models "gpt-*" --budget 20/month --rpm 60 --expires 30d',
      'Days and months are those of UTC. agentctl model budget key NAME changes the budget.',
      '  OPENAI_BASE_URL=http://127.0.0.1:PORT/openai/v1 OPENAI_API_KEY=agentd_… program',
    ],
    load: async () => (await import('../commands/keys.ts')).create,
  },
  {
    path: ['key', 'list'],
    options: [{ name: 'all', help: 'include revoked and expired keys' }],
    help: 'list API keys; for example: agentctl key list --all',
    load: async () => (await import('../commands/keys.ts')).list,
  },
  {
    path: ['key', 'show'],
    positionals: [KEY],
    help: 'show an API key; for example: agentctl key show ci',
    load: async () => (await import('../commands/keys.ts')).show,
  },
  {
    path: ['key', 'rotate'],
    positionals: [KEY],
    options: [
      {
        name: 'overlap',
        value: 'TIME',
        kind: 'duration',
        help: 'how long the old secret works too',
      },
    ],
    help: 'give an API key a new secret, and end the old one',
    details: ['For example: agentctl key rotate ci --overlap 24h'],
    load: async () => (await import('../commands/keys.ts')).rotate,
  },
  {
    path: ['key', 'revoke'],
    positionals: [KEY],
    help: 'end an API key at once, and cut its open streams; for example: agentctl key revoke ci',
    load: async () => (await import('../commands/keys.ts')).revoke,
  },
];
