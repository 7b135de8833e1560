// Commands for policy.
import type { Command } from '../command.ts';

export const policyCommands: readonly Command[] = [
  {
    path: ['policy', 'check'],
    positionals: [{ name: 'FILE', completes: 'file' }],
    help: 'check a rule file (.cedar) or a manifest (.yaml)',
    load: async () => (await import('../commands/policy.ts')).check,
  },
  {
    path: ['policy', 'show'],
    positionals: [{ name: 'AGENT', completes: 'agent' }],
    options: [{ name: 'rules', help: 'print the rules as Cedar' }],
    help: 'show every rule that applies to an agent, and what its boxes can access',
    load: async () => (await import('../commands/policy.ts')).show,
  },
  {
    path: ['policy', 'explain'],
    positionals: [{ name: 'EVENT' }],
    help: 'explain why a tool call was allowed, sent for approval or denied',
    details: ['EVENT is a sequence number (first column of audit tail) or an event id (--json).'],
    load: async () => (await import('../commands/policy-explain.ts')).explain,
  },
  {
    path: ['policy', 'simulate'],
    positionals: [{ name: 'FILE', completes: 'file' }],
    options: [
      {
        name: 'since',
        value: 'T',
        help: 'only decisions since this time: 2026-06-29, 2h (default: all)',
      },
    ],
    help: 'replay recorded decisions against a rule file and show those that would change',
    details: ['A loaded file with the same name is replaced for the simulation.'],
    load: async () => (await import('../commands/policy.ts')).simulate,
  },
];
