// Commands for skills: how kinds of tasks are done here.
import type { Command } from '../command.ts';

export const skillCommands: readonly Command[] = [
  {
    path: ['skill', 'list'],
    options: [{ name: 'for', value: 'GOAL', help: 'what a task with this goal is told about' }],
    help: 'list skills, or those that fit a goal',
    details: [
      'A skill is a folder with a SKILL.md. The package has some, /etc/agentd/skills those of the',
      'site, and STATE/skills yours; one of the same name takes the place of the one before it.',
    ],
    load: async () => (await import('../commands/skills.ts')).list,
  },
  {
    path: ['skill', 'show'],
    positionals: [{ name: 'NAME' }, { name: 'FILE', optional: true }],
    help: 'show a skill, or a file of it',
    load: async () => (await import('../commands/skills.ts')).show,
  },
];
