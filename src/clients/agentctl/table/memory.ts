// Commands for memories.
import type { Command, Option, Positional } from '../command.ts';
import { MARKS } from '../marks.ts';

const ID: Positional = { name: 'ID' };
const CLASSES = ['episodic', 'semantic', 'procedural', 'preference'];
const SCOPE: Option = {
  name: 'scope',
  value: 'SCOPE',
  help: 'of this scope, and those below it; repeatable',
  many: true,
};

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
  {
    name: 'mark',
    value: 'MARK',
    many: true,
    completes: MARKS,
    only: true,
    help: 'it is from outside, secret or personal; repeatable',
  },
];

export const memoryCommands: readonly Command[] = [
  {
    path: ['memory', 'remember'],
    positionals: [{ name: 'SCOPE' }, { name: 'TEXT' }],
    options: [
      ...ABOUT,
      {
        name: 'replaces',
        value: 'ID',
        many: true,
        help: 'the memory that it contradicts; repeatable',
      },
    ],
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
    path: ['memory', 'rebuild'],
    help: 'make the tables of memories again from their journal, and name its damaged lines',
    load: async () => (await import('../commands/memory.ts')).rebuild,
  },
];
