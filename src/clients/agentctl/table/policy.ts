// Commands for policy.
import type { Command } from '../command.ts';
import { MARKS } from '../marks.ts';

export const policyCommands: readonly Command[] = [
  {
    path: ['policy', 'init'],
    positionals: [{ name: 'NAME' }],
    options: [
      {
        name: 'out',
        value: 'FILE',
        completes: 'file',
        help: 'file to write (default: NAME.cedar); - prints it',
      },
    ],
    help: 'write a commented rule file to start from',
    details: ['Example: agentctl policy init network'],
    load: async () => (await import('../commands/init.ts')).initPolicy,
  },
  {
    path: ['policy', 'check'],
    positionals: [{ name: 'FILE', completes: 'file' }],
    help: 'check a rule file (.cedar) or a manifest (.yaml)',
    load: async () => (await import('../commands/policy.ts')).check,
  },
  {
    path: ['policy', 'can'],
    positionals: [
      { name: 'AGENT', completes: 'agent' },
      { name: 'TOOL', optional: true, completes: 'tool' },
      { name: 'ARGS', optional: true, many: true },
    ],
    options: [
      { name: 'list', help: 'every tool of the agent, without arguments' },
      {
        name: 'mark',
        value: 'MARK',
        many: true,
        completes: MARKS,
        only: true,
        help: 'as if the run had this mark; repeatable',
      },
    ],
    help: 'say whether an agent may call a tool: yes, no or ask',
    details: [
      'ARGS are the arguments of the call, as key=value words or one JSON object. Without them only',
      'the tool itself is decided, not the paths and hosts that a call would touch.',
      'Exits 0 for yes, 3 for no, 4 when a person would be asked.',
      'Example: agentctl policy can coder git.branch action=create name=topic',
    ],
    load: async () => (await import('../commands/policy-can.ts')).can,
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
    positionals: [{ name: 'EVENT', completes: 'event' }],
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
