// Commands for backups.
import type { Command, Option } from '../command.ts';

const BACKUP: Option = {
  name: 'backup',
  value: 'ID',
  help: 'this one; see agentctl backup list (default: the newest)',
};

const MANIFEST: Option = {
  name: 'manifest',
  value: 'SHA256',
  help: 'the hash that agentctl backup printed: reveals a backup that was replaced',
};

export const backupCommands: readonly Command[] = [
  {
    path: ['backup'],
    positionals: [{ name: 'DIR', completes: 'directory' }],
    options: [
      {
        name: 'files',
        value: 'WHICH',
        completes: ['all', 'open', 'none'],
        only: true,
        help: 'files of which task trees: all (default), those of open tasks, none',
      },
    ],
    help: 'copy the whole state to a directory, or with - as a tar file to standard output',
    details: [
      'The runtime keeps working. DIR can hold many backups; a new one copies only what is new.',
      'A backup contains every key of the runtime: store it as safely as the runtime itself.',
      'Example: agentctl backup /backup/agentd && agentctl backup verify /backup/agentd',
      'Example: agentctl backup - | zstd | ssh HOST "cat > agentd.tar.zst"',
      'Also: agentctl backup list, backup verify, backup prune, restore',
    ],
    load: async () => (await import('../commands/backup.ts')).backup,
  },
  {
    path: ['backup', 'list'],
    positionals: [{ name: 'DIR', completes: 'directory' }],
    help: 'list the backups in a directory',
    load: async () => (await import('../commands/backup.ts')).list,
  },
  {
    path: ['backup', 'verify'],
    positionals: [{ name: 'DIR', completes: 'directory' }],
    options: [
      { ...BACKUP, help: 'only this one; see agentctl backup list (default: all)' },
      MANIFEST,
    ],
    help: 'check every file, database and event of the backups in a directory',
    details: ['Example: agentctl backup verify /backup/agentd'],
    load: async () => (await import('../commands/backup.ts')).verify,
  },
  {
    path: ['backup', 'prune'],
    positionals: [{ name: 'DIR', completes: 'directory' }],
    options: [
      { name: 'keep', value: 'N', kind: 'count', help: 'keep the newest N (default 7)' },
      { name: 'dry-run', help: 'only show what would be removed' },
    ],
    help: 'remove old backups, and the contents that only they had',
    details: ['Example: agentctl backup prune /backup/agentd --keep 30'],
    load: async () => (await import('../commands/backup-prune.ts')).prune,
  },
  {
    path: ['restore'],
    positionals: [{ name: 'DIR', completes: 'directory' }],
    options: [
      BACKUP,
      MANIFEST,
      { name: 'halted', help: 'keep all agents halted until agentctl unhalt' },
    ],
    help: 'write a backup into an empty state directory; - reads a tar file',
    details: [
      'The backup is verified first; a damaged one is refused, and nothing is written.',
      'Tasks that were open resume. A call that they may have made after the backup is not',
      'repeated: a person is asked whether it happened.',
      'Example: agentctl restore /backup/agentd --state /var/lib/agentd --halted',
    ],
    load: async () => (await import('../commands/restore.ts')).restore,
  },
];
