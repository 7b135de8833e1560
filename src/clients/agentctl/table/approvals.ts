// Commands for approvals, permits and personal keys.
import { type Command, makeAlias, type Positional } from '../command.ts';

const ID: Positional = { name: 'ID', completes: 'approval' };
const PERSON: Positional = { name: 'NAME', completes: 'person' };

const ASK: Command = {
  path: ['ask'],
  positionals: [ID, { name: 'QUESTION' }],
  help: 'ask the agent for more information before you decide; - reads stdin',
  load: async () => (await import('../commands/approvals.ts')).ask,
};

export const approvalCommands: readonly Command[] = [
  {
    path: ['approvals'],
    positionals: [{ ...ID, optional: true }],
    options: [
      { name: 'all', help: 'include decided approvals' },
      { name: 'follow', short: 'f', help: 'show each new approval in full' },
    ],
    help: 'list pending approvals; with ID, show one in full',
    details: [
      'Text from an agent is shown in full behind a bar, with invisible characters escaped',
      '(such as \\u{202e}).',
    ],
    load: async () => (await import('../commands/approvals.ts')).approvals,
  },
  {
    path: ['approve'],
    positionals: [ID],
    options: [
      {
        name: 'for',
        value: 'SCOPE',
        completes: ['once', 'task', 'repo', 'class'],
        only: true,
        help: 'once (default), or a permit for this task, repository or class of action',
      },
      { name: 'expires', value: 'D', kind: 'duration', help: 'how long the permit lasts: 30m, 8h' },
      {
        name: 'edit',
        value: 'FILE',
        completes: 'file',
        help: 'approve these arguments (JSON), or words of a memory, instead; - reads stdin',
      },
      {
        name: 'seen',
        value: 'TOKEN',
        help: 'token of the version you reviewed, if a person changed it',
      },
    ],
    help: 'approve it exactly as shown',
    load: async () => (await import('../commands/approvals.ts')).approve,
  },
  {
    path: ['reject'],
    positionals: [ID],
    options: [{ name: 'reason', value: 'TEXT', help: 'reason, shown to the agent' }],
    help: 'reject it',
    load: async () => (await import('../commands/approvals.ts')).reject,
  },
  ASK,
  makeAlias(ASK, 'approval', 'ask'),
  {
    path: ['escalate'],
    positionals: [ID],
    options: [
      { name: 'to', value: 'PERSON', completes: 'person', help: 'who must decide instead of you' },
      { name: 'reason', value: 'TEXT', help: 'reason, for the record' },
    ],
    help: 'hand the decision to another person; you can no longer approve it',
    load: async () => (await import('../commands/approvals.ts')).escalate,
  },
  {
    path: ['permit', 'list'],
    options: [{ name: 'all', help: 'include expired and revoked permits' }],
    help: 'list permits: agent, tool, scope, expiry',
    load: async () => (await import('../commands/permits.ts')).list,
  },
  {
    path: ['permit', 'revoke'],
    positionals: [{ name: 'ID', completes: 'permit' }],
    help: 'revoke a permit, effective immediately',
    load: async () => (await import('../commands/permits.ts')).revoke,
  },
  {
    path: ['person', 'list'],
    help: 'list people who have their own key',
    load: async () => (await import('../commands/person-keys.ts')).list,
  },
  {
    path: ['person', 'add'],
    positionals: [{ name: 'NAME' }],
    options: [
      {
        name: 'role',
        value: 'ROLE',
        completes: ['reader', 'approver', 'operator'],
        only: true,
        help: 'what they may do: reader, approver or operator (the default)',
      },
    ],
    help: 'create a key for a person, with a role',
    details: [
      'A reader sees everything; an approver also decides approvals and answers questions; an operator',
      'may do everything. For example: agentctl person add alice --role approver',
    ],
    load: async () => (await import('../commands/person-keys.ts')).add,
  },
  {
    path: ['person', 'remove'],
    positionals: [PERSON],
    help: "revoke a person's key",
    load: async () => (await import('../commands/person-keys.ts')).remove,
  },
];
