// Commands for the directories that people let agents work in.
import type { Command } from '../command.ts';

export const workspaceCommands: readonly Command[] = [
  {
    path: ['workspace', 'list'],
    help: 'list the directories that agents may work in, and how many live tasks use each',
    load: async () => (await import('../commands/workspaces.ts')).list,
  },
  {
    path: ['workspace', 'grant'],
    positionals: [{ name: 'DIR', completes: 'directory' }],
    help: 'let agents work in a directory of your own, in tasks that name it',
    details: [
      'task create --here and --workspace do this when it is needed. Never for a home, a directory',
      'of the system or of another user, or one above them. It ends with workspace revoke.',
    ],
    load: async () => (await import('../commands/workspaces.ts')).grant,
  },
  {
    path: ['workspace', 'revoke'],
    positionals: [{ name: 'DIR', optional: true, completes: 'directory' }],
    options: [{ name: 'unused', help: 'those of all directories that no task names any more' }],
    help: 'end that: no new box gets the directory; open boxes keep it until they close',
    details: ['agentctl prune ends the unused ones too.'],
    load: async () => (await import('../commands/workspaces.ts')).revoke,
  },
];
