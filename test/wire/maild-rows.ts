// The rows of maild's routes: for each, a request that succeeds and specific ones it must refuse.

import assert from 'node:assert/strict';
import { deriveId } from '../../src/platform/ids.ts';
import { type MailSummary, type MailView, maildRoutes } from '../../src/wire/maild.ts';
import { callSocket, type IdleWorld, socketOf } from '../support/callers.ts';
import { eraseCopiesRow } from './erasure-rows.ts';
import { externalMailRows } from './external-mail-rows.ts';
import { rows, withBody } from './row.ts';

let made = 0;

async function sendOne(world: IdleWorld): Promise<void> {
  const headers = { authorization: `Bearer ${world.operatorKey}`, 'agentd-person': 'tester' };
  const path = socketOf(world, 'maild', 'operator', world.someRun)!;
  const body = { to: 'operator', text: `Heron ${made++} is back.` };
  const outcome = await callSocket(path, maildRoutes.sendMail, { body }, { headers });
  assert.ok(outcome.ok, JSON.stringify(outcome));
}

export const ROWS = rows({
  deliverNotices: {
    good: async ({ someRun }) => ({
      body: {
        notices: [
          {
            id: `${deriveId('task', 'mail', made++)}.result`,
            kind: 'result',
            to: 'operator',
            from: 'worker',
            title: 'completed: count herons',
            text: 'Seven.',
            context_id: null,
            task_id: someRun.taskId,
            at: '2026-01-01T00:00:00Z',
          },
        ],
      },
    }),
    check: ({ delivered }: { delivered: number }) => assert.equal(delivered, 1),
    bad: [['no notice', (g) => withBody(g, { notices: [] }), 'bad_request']],
  },
  eraseCopies: eraseCopiesRow,
  ...externalMailRows,
  sendMail: {
    good: async () => ({ body: { to: 'operator', text: 'The herons are back.' } }),
    check: ({ mail }: { mail: { message_id: string } }) =>
      assert.match(mail.message_id, /^mail_[0-9a-z]{26}@agentd\.localhost$/),
    bad: [
      ['an unknown person', (g) => withBody(g, { to: 'nobody' }), 'not_found'],
      ['a path as a name', (g) => withBody(g, { to: '../ann' }), 'bad_request'],
      [
        'a subject of two lines',
        (g) => withBody(g, { subject: 'Hello\r\nBcc: ann@example.com' }),
        'bad_request',
      ],
    ],
  },
  submitMail: {
    good: async () => ({
      body: {
        to: ['operator'],
        reads_recipients: true,
        raw_base64: Buffer.from(`Cc: worker@localhost\n\nHeron ${made++}.\n`).toString('base64'),
      },
    }),
    check: ({ recipients }: { recipients: string[] }) =>
      assert.deepEqual(recipients, ['operator', 'worker@localhost']),
    bad: [
      ['an unknown name', (g) => withBody(g, { to: ['nobody'] }), 'not_found'],
      ['another host', (g) => withBody(g, { to: ['ann@example.org'] }), 'denied'],
      ['nobody', (g) => withBody(g, { to: [], reads_recipients: false }), 'bad_request'],
      [
        'a header that is none',
        (g) => withBody(g, { raw_base64: Buffer.from('A: b\nc\n\nd\n').toString('base64') }),
        'bad_request',
      ],
    ],
  },
  listMail: {
    good: async (world) => {
      await sendOne(world);
      return { query: { box: 'operator', limit: '1' } };
    },
    check: ({ mails, unread }: { mails: MailSummary[]; unread: number }) => {
      assert.equal(mails.length, 1);
      assert.ok(unread > 0);
    },
    bad: [['a path as a name', (g) => ({ ...g, query: { box: '..' } }), 'bad_request']],
  },
  readMail: {
    good: async (world) => {
      await sendOne(world);
      return { body: { box: 'operator', n: 1 } };
    },
    check: ({ mail }: { mail: MailView }) => {
      assert.equal(mail.n, 1);
      assert.equal(mail.is_read, true);
    },
    bad: [['a number that no mail has', (g) => withBody(g, { n: 100_000 }), 'not_found']],
  },
});
