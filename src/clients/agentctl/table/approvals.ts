// The words for what needs a person: approvals, permits, and people with keys of their own.
import type { Command, Positional } from '../command.ts';

const ID: Positional = { name: 'ID', completes: 'approval' };
const PERSON: Positional = { name: 'NAME', completes: 'person' };

export const approvalCommands: readonly Command[] = [
  {
    path: ['approvals'],
    positionals: [{ ...ID, optional: true }],
    options: [
      { name: 'all', help: 'also those that have been answered' },
      { name: 'follow', short: 'f', help: 'show each in full as it comes' },
    ],
    help: 'what waits for a person; with ID everything about one',
    details: [
      'What an agent wrote is shown in full behind a bar; characters that would not show are',
      'written out, such as \\u{202e}.',
    ],
    load: async () => (await import('../commands/approvals.ts')).approvals,
  },
  {
    path: ['approve'],
    positionals: [ID],
    options: [
      {
        name: 'for',
        value: 'REACH',
        completes: ['once', 'task', 'repo', 'class'],
        only: true,
        help: 'once (default), or a permit for this task, repository or class of action',
      },
      { name: 'expires', value: 'D', kind: 'duration', help: 'how long the permit lasts: 30m, 8h' },
      {
        name: 'edit',
        value: 'FILE',
        completes: 'file',
        help: 'approve these arguments (JSON) instead; - is stdin',
      },
      { name: 'seen', value: 'WORD', help: 'what you looked at, when a person had changed it' },
    ],
    help: 'let it be done, exactly as shown',
    load: async () => (await import('../commands/approvals.ts')).approve,
  },
  {
    path: ['reject'],
    positionals: [ID],
    options: [{ name: 'reason', value: 'TEXT', help: 'why not; the agent reads it' }],
    help: 'say no',
    load: async () => (await import('../commands/approvals.ts')).reject,
  },
  {
    path: ['ask'],
    positionals: [ID, { name: 'QUESTION' }],
    help: 'want to know more before you decide; - reads the question from stdin',
    load: async () => (await import('../commands/approvals.ts')).ask,
  },
  {
    path: ['escalate'],
    positionals: [ID],
    options: [
      { name: 'to', value: 'PERSON', completes: 'person', help: 'who must decide instead of you' },
      { name: 'reason', value: 'TEXT', help: 'why' },
    ],
    help: 'leave it to a second person; you cannot approve it any more',
    load: async () => (await import('../commands/approvals.ts')).escalate,
  },
  {
    path: ['permit', 'list'],
    options: [{ name: 'all', help: 'also those that have ended' }],
    help: 'permits that people gave: for whom, what, how far, until when',
    load: async () => (await import('../commands/permits.ts')).list,
  },
  {
    path: ['permit', 'revoke'],
    positionals: [{ name: 'ID', completes: 'permit' }],
    help: 'take a permit back; holds at once',
    load: async () => (await import('../commands/permits.ts')).revoke,
  },
  {
    path: ['person', 'list'],
    help: 'people with keys of their own',
    load: async () => (await import('../commands/person-keys.ts')).list,
  },
  {
    path: ['person', 'add'],
    positionals: [{ name: 'NAME' }],
    help: 'give a person a key of their own, so that they can be a second approver',
    load: async () => (await import('../commands/person-keys.ts')).add,
  },
  {
    path: ['person', 'remove'],
    positionals: [PERSON],
    help: "make a person's key worthless",
    load: async () => (await import('../commands/person-keys.ts')).remove,
  },
];
