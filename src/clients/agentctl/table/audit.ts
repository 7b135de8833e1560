// The words for the audit log.
import type { Command, Option } from '../command.ts';

const LINES: Option = {
  name: 'lines',
  short: 'n',
  value: 'N',
  kind: 'count',
  help: 'at most so many',
};

export const auditCommands: readonly Command[] = [
  {
    path: ['audit', 'tail'],
    options: [
      { ...LINES, help: 'how many (default 20)' },
      { name: 'follow', short: 'f', help: 'go on as more happens' },
      { name: 'event', value: 'KIND', help: 'only events of this kind, such as tool.call.ended' },
    ],
    help: 'the newest events',
    load: async () => (await import('../commands/audit-read.ts')).tail,
  },
  {
    path: ['audit', 'task'],
    positionals: [{ name: 'ID', completes: 'task' }],
    options: [LINES],
    help: 'all events of a task',
    load: async () => (await import('../commands/audit-read.ts')).task,
  },
  {
    path: ['audit', 'agent'],
    positionals: [{ name: 'AGENT', completes: 'agent' }],
    options: [LINES],
    help: 'all events of an agent',
    load: async () => (await import('../commands/audit-read.ts')).agent,
  },
  {
    path: ['audit', 'tool'],
    positionals: [{ name: 'TOOL', completes: 'tool' }],
    options: [LINES],
    help: 'all events of a tool',
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
        help: 'a checkpoint kept elsewhere: shows a log that was cut or rewritten',
      },
      {
        name: 'key',
        value: 'VKEY',
        many: true,
        help: 'trust only this public key, not those in the directory; may be repeated',
      },
    ],
    help: 'check every event, offline; also on a copied directory',
    load: async () => (await import('../commands/audit-files.ts')).verify,
  },
  {
    path: ['audit', 'prove'],
    positionals: [{ name: 'EVENT' }],
    help: 'the proof that an event is in the log, for others to check',
    details: ['EVENT is its number, the first column of audit tail, or its id (--json).'],
    load: async () => (await import('../commands/audit-files.ts')).prove,
  },
  {
    path: ['audit', 'export'],
    positionals: [{ name: 'DIR', completes: 'directory' }],
    help: 'copy the log, its checkpoints and public keys; never the signing key',
    load: async () => (await import('../commands/audit-files.ts')).exportLog,
  },
  {
    path: ['audit', 'checkpoint'],
    help: 'the newest signed checkpoint, to keep elsewhere',
    load: async () => (await import('../commands/audit-files.ts')).checkpoint,
  },
  {
    path: ['audit', 'rotate-key'],
    help: 'sign with a new key from now on',
    load: async () => (await import('../commands/audit-files.ts')).rotateKey,
  },
];
