// Commands for personas: what agents are told to be.
import type { Command } from '../command.ts';

export const personaCommands: readonly Command[] = [
  {
    path: ['persona', 'list'],
    help: 'list personas, who uses them, and what is wrong with them',
    details: [
      'They are Markdown files: the package has some, /etc/agentd/personas those of the site, and',
      'STATE/personas yours. A file of the same name adds to the one before it.',
    ],
    load: async () => (await import('../commands/personas.ts')).list,
  },
  {
    path: ['persona', 'show'],
    positionals: [{ name: 'NAME', optional: true }],
    options: [
      { name: 'agent', value: 'NAME', completes: 'agent', help: 'what this agent is told' },
      { name: 'layers', help: 'show each file that it is composed of' },
    ],
    help: 'show a persona, or what an agent is told',
    load: async () => (await import('../commands/personas.ts')).show,
  },
];
