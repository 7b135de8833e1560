// Commands for memories.
import type { Command, Option, Positional } from '../command.ts';
import { MARKS } from '../marks.ts';

const ID: Positional = { name: 'ID', completes: 'memory' };
const IDS: Positional = { name: 'ID', many: true, completes: 'memory' };
const load = async () => await import('../commands/memory-changes.ts');
const loadFiles = async () => await import('../commands/memory-files.ts');
const CLASSES = ['episodic', 'semantic', 'procedural', 'preference'];
/** Kept by agentd and auditd-ai. */
const VIEWS = ['artifact', 'audit'];
const SCOPE: Option = {
  name: 'scope',
  value: 'SCOPE',
  help: 'of this scope, and those below it; repeatable',
  many: true,
};

const MARK: Option = {
  name: 'mark',
  value: 'MARK',
  many: true,
  completes: MARKS,
  only: true,
  help: 'it is from outside, secret or personal; repeatable',
};
const STATUSES = [
  'active',
  'proposed',
  'rejected',
  'superseded',
  'merged',
  'expired',
  'rolled_back',
  'forgotten',
];

const ABOUT: readonly Option[] = [
  {
    name: 'class',
    value: 'CLASS',
    completes: CLASSES,
    only: true,
    help: 'what kind of memory it is (default: semantic)',
  },
  { name: 'ref', value: 'REF', help: 'the message, document or result that it comes from' },
  { name: 'speaker', value: 'NAME', help: 'who said it' },
  { name: 'at', value: 'TIME', help: 'when it happened: 2026-06-29T18:00:00Z, or 3h (ago)' },
  { name: 'valid-from', value: 'TIME', help: 'when it begins to be true' },
  { name: 'valid-to', value: 'TIME', help: 'when it ceases to be true' },
  { name: 'expires', value: 'D', help: 'forget to recall it after this: 30d, or a time' },
  { name: 'importance', value: 'N', kind: 'count', most: 100, help: 'from 0 to 100' },
  MARK,
];

const REPLACES: Option = {
  name: 'replaces',
  value: 'ID',
  many: true,
  completes: 'memory',
  help: 'the memory that it contradicts; repeatable',
};
const COMBINED: readonly Option[] = [
  { name: 'scope', value: 'SCOPE', help: 'needed if theirs differ' },
  {
    name: 'class',
    value: 'CLASS',
    completes: CLASSES,
    only: true,
    help: 'needed if theirs differ',
  },
];

export const memoryCommands: readonly Command[] = [
  {
    path: ['memory', 'remember'],
    positionals: [{ name: 'SCOPE' }, { name: 'TEXT' }],
    options: [...ABOUT, REPLACES],
    help: 'remember a text; - reads stdin',
    details: [
      'SCOPE is team, project:NAME, project:NAME/PART, agent:NAME, or person:NAME (private).',
      'Example: agentctl memory remember project:app "The release branch is main."',
    ],
    load: async () => (await import('../commands/memory.ts')).remember,
  },
  {
    path: ['memory', 'search'],
    positionals: [{ name: 'AGENT', completes: 'agent' }, { name: 'QUERY' }],
    options: [
      SCOPE,
      { name: 'as-of', value: 'T', help: 'as it was then: 2026-06-29T18:00:00Z, or 7d (ago)' },
      { name: 'limit', value: 'N', kind: 'count', most: 100, help: 'how many (default: 10)' },
      {
        name: 'max-tokens',
        value: 'N',
        kind: 'count',
        help: 'about how long all texts together may be',
      },
      { name: 'explain', help: 'show what each score is made of' },
    ],
    help: 'recall what an agent would, in the order of relevance',
    details: ['Only from scopes that both the agent and you may read.'],
    load: async () => (await import('../commands/memory.ts')).search,
  },
  {
    path: ['memory', 'show'],
    positionals: [ID],
    options: [{ name: 'version', value: 'N', kind: 'count', help: 'an earlier version' }],
    help: 'show a memory, where it came from, and what came of it',
    load: async () => (await import('../commands/memory.ts')).show,
  },
  {
    path: ['memory', 'list'],
    options: [
      { name: 'scope', value: 'SCOPE', help: 'of this scope, and those below it' },
      {
        name: 'class',
        value: 'CLASS',
        completes: [...CLASSES, ...VIEWS],
        only: true,
        help: 'of this class; artifact and audit are views of what agentd and the log have',
      },
      {
        name: 'status',
        value: 'STATUS',
        completes: STATUSES,
        only: true,
        help: 'with this status, such as proposed',
      },
      { name: 'limit', value: 'N', kind: 'count', most: 999, help: 'how many (default: 50)' },
      { name: 'cursor', value: 'CURSOR', help: 'continue an earlier list' },
    ],
    help: 'list memories, newest first',
    load: async () => (await import('../commands/memory.ts')).list,
  },
  {
    path: ['memory', 'history'],
    positionals: [ID],
    help: 'show every version of a memory',
    load: async () => (await import('../commands/memory.ts')).history,
  },
  {
    path: ['memory', 'edit'],
    positionals: [ID, { name: 'TEXT', optional: true }],
    options: [
      ...ABOUT.filter(({ name }) => name !== 'class' && name !== 'expires'),
      { name: 'vouch', help: 'answer for the text: its marks are dropped' },
      { name: 'seen', value: 'VERSION', kind: 'count', help: 'fail if it is not the newest' },
    ],
    help: 'add a version; - reads stdin',
    load: async () => (await load()).edit,
  },
  {
    path: ['memory', 'forget'],
    positionals: [IDS],
    options: [{ name: 'wait', help: 'until the last copy of them is removed' }],
    help: 'remove texts for good, and their copies in tasks; ids and links stay',
    load: async () => (await load()).forget,
  },
  {
    path: ['memory', 'expire'],
    positionals: [IDS],
    options: [
      { name: 'at', value: 'TIME', help: 'at this time, or after this: 30d (default: now)' },
    ],
    help: 'stop recalling memories; they stay in the history',
    load: async () => (await load()).expire,
  },
  {
    path: ['memory', 'merge'],
    positionals: [{ name: 'TEXT' }, IDS],
    options: COMBINED,
    help: 'replace memories by one; - reads stdin',
    details: ['It carries the marks of all of them, and is linked to each.'],
    load: async () => (await load()).merge,
  },
  {
    path: ['memory', 'summarize'],
    positionals: [{ name: 'TEXT' }, IDS],
    options: COMBINED,
    help: 'add a summary beside the memories that it is made from; - reads stdin',
    details: ['It carries the marks of all of them, and is linked to each.'],
    load: async () => (await load()).summarize,
  },
  {
    path: ['memory', 'propose'],
    positionals: [{ name: 'SCOPE' }, { name: 'TEXT' }],
    options: [...ABOUT, REPLACES],
    help: 'propose a text, which somebody approves or rejects; - reads stdin',
    load: async () => (await import('../commands/memory.ts')).propose,
  },
  {
    path: ['memory', 'approve'],
    positionals: [IDS],
    help: 'accept proposals, each on its own',
    load: async () => (await load()).approve,
  },
  {
    path: ['memory', 'reject'],
    positionals: [IDS],
    help: 'reject proposals, each on its own',
    load: async () => (await load()).reject,
  },
  {
    path: ['memory', 'snapshot'],
    positionals: [{ name: 'SCOPE', optional: true }],
    options: [{ name: 'name', value: 'NAME', help: 'a name for it' }],
    help: 'name this moment of a scope, for a rollback; without SCOPE, list snapshots',
    load: async () => (await load()).snapshot,
  },
  {
    path: ['memory', 'rollback'],
    positionals: [{ name: 'ID' }],
    options: [{ name: 'version', value: 'N', kind: 'count', help: 'the version of a memory' }],
    help: 'take a scope back to a snapshot, or a memory back to a version',
    details: ['Nothing is lost by it, and what was forgotten stays so.'],
    load: async () => (await load()).rollback,
  },
  {
    path: ['memory', 'export'],
    options: [
      SCOPE,
      { name: 'markdown', help: 'as a Markdown list instead of JSON lines' },
      { name: 'out', value: 'FILE', completes: 'file', help: 'write to this file' },
    ],
    help: 'print the memories in force, as lines that import reads',
    load: async () => (await loadFiles()).exportMemories,
  },
  {
    path: ['memory', 'import'],
    positionals: [{ name: 'FILE', completes: 'file' }],
    options: [
      { name: 'scope', value: 'SCOPE', help: 'for what names none; required for Markdown' },
      {
        name: 'class',
        value: 'CLASS',
        completes: CLASSES,
        only: true,
        help: 'for what names none (default: semantic)',
      },
      MARK,
    ],
    help: 'remember the lines of a JSON lines file, or the items of a Markdown file',
    details: [
      'JSON lines: {"class","scope","text","occurred_at"?,"speaker"?,"ref"?,"thread"?,"seq"?,"caption"?}',
      'Markdown (.md): each paragraph and list item, with the headings above it. The same file twice',
      'remembers nothing twice. - reads JSON lines from stdin.',
      'Example: agentctl memory import CLAUDE.md --scope project:app --class procedural',
    ],
    load: async () => (await loadFiles()).importMemories,
  },
  {
    path: ['memory', 'rebuild'],
    help: 'make the tables of memories again from their journal, and name its damaged lines',
    load: async () => (await import('../commands/memory.ts')).rebuild,
  },
];
