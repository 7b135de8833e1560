// Commands for the audit log.
import type { Command, Option } from '../command.ts';

const LINES: Option = {
  name: 'lines',
  short: 'n',
  value: 'N',
  kind: 'count',
  help: 'show only the last N events',
};

const ARCHIVE: Option = {
  name: 'archive',
  value: 'DIR',
  completes: 'directory',
  help: 'directory with the archives, to show archived events too',
};

export const auditCommands: readonly Command[] = [
  {
    path: ['audit', 'tail'],
    options: [
      { ...LINES, help: 'number of events (default 20)' },
      { name: 'follow', short: 'f', help: 'keep printing new events' },
      { name: 'event', value: 'KIND', help: 'only events of this kind, such as tool.call.ended' },
    ],
    help: 'show the newest events',
    load: async () => (await import('../commands/audit-read.ts')).tail,
  },
  {
    path: ['audit', 'task'],
    positionals: [{ name: 'ID', completes: 'task' }],
    options: [LINES, ARCHIVE],
    help: 'show all events of a task',
    load: async () => (await import('../commands/audit-read.ts')).task,
  },
  {
    path: ['audit', 'agent'],
    positionals: [{ name: 'AGENT', completes: 'agent' }],
    options: [LINES, ARCHIVE],
    help: 'show all events of an agent',
    load: async () => (await import('../commands/audit-read.ts')).agent,
  },
  {
    path: ['audit', 'tool'],
    positionals: [{ name: 'TOOL', completes: 'tool' }],
    options: [LINES, ARCHIVE],
    help: 'show all events of a tool',
    load: async () => (await import('../commands/audit-read.ts')).tool,
  },
  {
    path: ['audit', 'verify'],
    positionals: [{ name: 'DIR', optional: true, completes: 'directory' }],
    options: [
      {
        name: 'from',
        value: 'CHECKPOINT',
        completes: 'file',
        help: 'checkpoint stored elsewhere: detects a truncated or rewritten log',
      },
      {
        name: 'key',
        value: 'VKEY',
        many: true,
        help: 'trust only this public key, not those in the directory; repeatable',
      },
      { ...ARCHIVE, help: 'directory with the archives, to hash archived events too' },
      { name: 'full', help: 'hash every event, not only those since the last verification' },
    ],
    help: 'verify the log offline; works on a copied directory too',
    details: [
      'Without DIR it continues from the last verification (STATE/audit/verified.json). A user who can ' +
        'change the log can change that file; --full, --from, --key and DIR do not rely on it.',
      'Example: agentctl audit verify --from FILE',
    ],
    load: async () => (await import('../commands/audit-files.ts')).verify,
  },
  {
    path: ['audit', 'prove'],
    positionals: [{ name: 'EVENT', completes: 'event' }],
    options: [{ ...ARCHIVE, help: 'directory with the archives, to prove an archived event' }],
    help: 'print the proof that an event is in the log, for others to verify',
    details: ['EVENT is a sequence number (first column of audit tail) or an event id (--json).'],
    load: async () => (await import('../commands/audit-files.ts')).prove,
  },
  {
    path: ['audit', 'export'],
    positionals: [{ name: 'DIR', completes: 'directory' }],
    help: 'copy the log, its checkpoints and public keys; never the signing key',
    load: async () => (await import('../commands/audit-files.ts')).exportLog,
  },
  {
    path: ['audit', 'segments'],
    help: 'list the files of the log, and where archived ones are',
    load: async () => (await import('../commands/audit-archive.ts')).segments,
  },
  {
    path: ['audit', 'archive'],
    options: [
      { name: 'to', value: 'DIR', completes: 'directory', help: 'write the archives to DIR' },
      {
        name: 'command',
        value: 'CMD',
        help: 'or run CMD for each, with the archive on its input and its name in AGENTD_ARCHIVE_NAME',
      },
      {
        name: 'checkpoint',
        value: 'FILE',
        completes: 'file',
        required: true,
        help: 'checkpoint stored elsewhere: only what it covers is archived',
      },
      {
        name: 'older-than',
        value: 'D',
        kind: 'duration',
        help: 'only segments whose last event is older (default 90d)',
      },
      { name: 'dry-run', help: 'only list what would be archived' },
    ],
    help: 'move old segments elsewhere, compressed and with their proofs',
    details: [
      'A segment is removed only after its archive was written, read back and recorded in the log. ' +
        'CMD must exit with status 0 only when its copy is safe. DIR or CMD is recorded in the log.',
      'Example: agentctl audit archive --to /mnt/archive --checkpoint FILE --older-than 90d',
    ],
    load: async () => (await import('../commands/audit-archive.ts')).archive,
  },
  {
    path: ['audit', 'checkpoint'],
    help: 'print the newest signed checkpoint, to store elsewhere',
    load: async () => (await import('../commands/audit-files.ts')).checkpoint,
  },
  {
    path: ['audit', 'rotate-key'],
    help: 'replace the signing key',
    load: async () => (await import('../commands/audit-files.ts')).rotateKey,
  },
];
