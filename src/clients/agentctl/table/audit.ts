// Commands for the audit log.
import type { Command, Option } from '../command.ts';

const LINES: Option = {
  name: 'lines',
  short: 'n',
  value: 'N',
  kind: 'count',
  help: 'show only the last N events',
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
    options: [LINES],
    help: 'show all events of a task',
    load: async () => (await import('../commands/audit-read.ts')).task,
  },
  {
    path: ['audit', 'agent'],
    positionals: [{ name: 'AGENT', completes: 'agent' }],
    options: [LINES],
    help: 'show all events of an agent',
    load: async () => (await import('../commands/audit-read.ts')).agent,
  },
  {
    path: ['audit', 'tool'],
    positionals: [{ name: 'TOOL', completes: 'tool' }],
    options: [LINES],
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
      { name: 'full', help: 'hash every event, not only those since the last verification' },
    ],
    help: 'verify the log offline; works on a copied directory too',
    details: [
      'Without DIR it continues from the last verification (STATE/audit/verified.json). Whoever can ' +
        'change the log can change that file; --full, --from, --key and DIR do not rely on it.',
      'Example: agentctl audit verify --from FILE',
    ],
    load: async () => (await import('../commands/audit-files.ts')).verify,
  },
  {
    path: ['audit', 'prove'],
    positionals: [{ name: 'EVENT' }],
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
