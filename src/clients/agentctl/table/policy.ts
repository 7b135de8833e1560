// The words for policy.
import type { Command } from '../command.ts';

export const policyCommands: readonly Command[] = [
  {
    path: ['policy', 'check'],
    positionals: [{ name: 'FILE', completes: 'file' }],
    help: 'what is wrong with a file of rules (.cedar) or a manifest (.yaml)',
    load: async () => (await import('../commands/policy.ts')).check,
  },
  {
    path: ['policy', 'show'],
    positionals: [{ name: 'AGENT', completes: 'agent' }],
    options: [{ name: 'rules', help: 'the rules as Cedar' }],
    help: 'every rule that decides about an agent, and what its boxes show',
    load: async () => (await import('../commands/policy.ts')).show,
  },
  {
    path: ['policy', 'explain'],
    positionals: [{ name: 'EVENT' }],
    help: 'why a tool call was allowed, asked for or denied',
    details: ['EVENT is its number, the first column of audit tail, or its id (--json).'],
    load: async () => (await import('../commands/policy-explain.ts')).explain,
  },
  {
    path: ['policy', 'simulate'],
    positionals: [{ name: 'FILE', completes: 'file' }],
    options: [
      {
        name: 'since',
        value: 'T',
        help: 'only decisions since then: 2026-06-29, 2h (default: all)',
      },
    ],
    help: 'try a file of rules on the recorded past: every decision that would be another',
    details: ['A file of the same name as one in force takes its place.'],
    load: async () => (await import('../commands/policy.ts')).simulate,
  },
];
