// Commands for the mail of people.
import type { Command } from '../command.ts';

export const mailCommands: readonly Command[] = [
  {
    path: ['mail'],
    positionals: [
      { name: 'USER', optional: true, completes: 'person' },
      { name: 'read N', optional: true, many: true },
    ],
    options: [
      { name: 'limit', value: 'N', kind: 'count', most: 1_000, help: 'how many (default: 50)' },
    ],
    help: 'list your mail, or that of USER; with read N, show one',
    details: [
      'Results of your tasks, questions and approval requests arrive here. The mailbox is a Maildir,',
      'STATE/mail/USER: mutt -f STATE/mail/USER reads it, too.',
    ],
    load: async () => (await import('../commands/mail.ts')).mail,
  },
  {
    path: ['sendmail'],
    positionals: [{ name: 'ARG', optional: true, many: true }],
    help: 'send the mail on stdin, with the options of sendmail after --',
    details: [
      'For programs that call sendmail: set it to bin/agentctl-sendmail, which is this command.',
      'The sender is the operator, or AGENTD_PERSON with their own key, whatever -f and From say.',
    ],
    load: async () => (await import('../commands/sendmail.ts')).sendmail,
  },
];
