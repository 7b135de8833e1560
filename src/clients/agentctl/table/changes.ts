// Commands for the changes that a task tree made in a layer over a person's directory.
import type { Command, Option, Positional } from '../command.ts';

const ID: Positional = { name: 'ID', completes: 'task' };
const PATHS: Positional = { name: 'PATH', optional: true, many: true, completes: 'file' };
const ALLOW: Option = {
  name: 'allow',
  value: 'KIND',
  many: true,
  help: 'apply changes of this kind, too, which are refused otherwise; repeatable',
};

export const changeCommands: readonly Command[] = [
  {
    path: ['task', 'diff'],
    positionals: [ID, PATHS],
    options: [
      { name: 'stat', help: 'only count changed lines' },
      { name: 'name-only', help: 'only list the paths' },
    ],
    help: 'show what a task would change in your directory, as git diff does',
    details: [
      'Example: agentctl task diff task_01… src',
      'git apply and patch -p1 accept the output. It begins with what is deleted, replaced or refused.',
    ],
    load: async () => (await import('../commands/task-diff.ts')).diff,
  },
  {
    path: ['task', 'apply'],
    positionals: [ID, PATHS],
    options: [
      ALLOW,
      {
        name: 'overwrite',
        help: "where the paths conflict with what you have changed, write the task's text",
      },
    ],
    help: 'write the changes of a task into your directory: all, or those of the paths',
    details: [
      'Example: agentctl task apply task_01… src --allow git_hooks',
      'Text that you and the task have changed in different places is merged; task diff shows it.',
      'It is all or nothing: a refused change or one that conflicts with yours stops it.',
    ],
    load: async () => (await import('../commands/task-apply.ts')).apply,
  },
  {
    path: ['task', 'discard'],
    positionals: [ID],
    options: [{ name: 'yes', short: 'y', help: 'do not ask' }],
    help: 'throw away the changes of a task that were not applied',
    details: ['Example: agentctl task discard task_01… --yes'],
    load: async () => (await import('../commands/task-apply.ts')).discard,
  },
  {
    path: ['task', 'undo'],
    positionals: [ID],
    options: [{ name: 'apply', value: 'ID', help: 'undo this apply; default: the last one' }],
    help: 'restore what the last apply of a task changed in your directory',
    details: ['Example: agentctl task undo task_01…'],
    load: async () => (await import('../commands/task-apply.ts')).undo,
  },
];
