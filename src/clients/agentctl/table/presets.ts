// Commands for presets.
import type { Command } from '../command.ts';

export const presetCommands: readonly Command[] = [
  {
    path: ['preset', 'list'],
    help: 'list presets: teams with their tasks, of the package and in STATE/presets',
    load: async () => (await import('../commands/presets.ts')).list,
  },
  {
    path: ['preset', 'show'],
    positionals: [{ name: 'PRESET', completes: 'file' }],
    help: 'show a preset: its variables, agents, tasks in order, and mail',
    load: async () => (await import('../commands/presets.ts')).show,
  },
  {
    path: ['preset', 'load'],
    positionals: [{ name: 'PRESET', completes: 'file' }],
    options: [
      { name: 'set', value: 'NAME=VALUE', many: true, help: 'value of a variable; repeatable' },
      { name: 'dry-run', help: 'check everything, show what it would create, and change nothing' },
      { name: 'skip-existing', help: 'leave agents that exist as they are, if they differ' },
      { name: 'again', help: 'create its tasks anew; without it, a second load changes nothing' },
      { name: 'no-wait', help: 'return at once instead of following its tasks to the end' },
    ],
    help: 'create the agents and tasks of a preset, all or nothing, and follow them to the end',
    details: [
      'PRESET is a name from preset list, a file, or - for standard input. Ctrl-C leaves the tasks running.',
    ],
    load: async () => (await import('../commands/presets.ts')).load,
  },
];
