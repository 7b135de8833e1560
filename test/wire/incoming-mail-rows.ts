// The rows of the routes by which maild hands over mail for agents.
import assert from 'node:assert/strict';
import { asTool } from './agentd-call-rows.ts';
import { rows, withBody } from './row.ts';

let made = 0;
const unknown = (kind: string): string => `${kind}_${'0'.repeat(26)}`;

export const incomingMailRows = rows({
  takeAttachment: {
    good: async () => ({
      body: {
        key: `mail ${made++}`,
        from: 'person:tester',
        artifact: { name: 'pond.txt', text: 'Deep.' },
      },
    }),
    check: ({ artifact_id }: { artifact_id: string }) => assert.match(artifact_id, /^artifact_/),
    bad: [['no key', (good) => withBody(good, { key: '' }), 'bad_request']],
  },
  takeMail: {
    good: async () => ({
      body: {
        key: `mail ${made++}`,
        from: 'person:tester',
        owner: null,
        to: 'worker',
        text: 'Count the herons.',
        artifacts: [],
        wait_id: null,
        task_id: null,
        context_id: null,
      },
    }),
    check: ({ became }: { became: string }) => assert.equal(became, 'task'),
    bad: [
      ['one from outside', (good) => withBody(good, { from: 'external:mail:smtp' }), 'denied'],
      ['an unknown agent', (good) => withBody(good, { to: 'nobody' }), 'not_found'],
      ['an unknown question', (good) => withBody(good, { wait_id: unknown('wait') }), 'not_found'],
      [
        'an unknown artifact',
        (good) => withBody(good, { artifacts: [unknown('artifact')] }),
        'not_found',
      ],
      ['no text', (good) => withBody(good, { text: '' }), 'bad_request'],
    ],
  },
});

const MAIL_ID = `mail_${'0'.repeat(26)}.1`;

export const outgoingMailRows = rows({
  toolAwaitMail: {
    good: asTool(() => ({ mail_id: MAIL_ID, expires_at: '2030-01-01T00:00:00Z' })),
    check: (response: { wait: { kind: string } }) => assert.equal(response.wait.kind, 'mail'),
  },
  mailEnded: {
    // The call may not have opened its wait yet.
    unknownId: 'fine',
    good: async (world) => ({
      params: { id: MAIL_ID },
      body: {
        run_id: world.someRun.id,
        call_id: world.someRun.callId(78),
        outcome: { status: 'sent', message_id: 'm@example.com', attempts: 1, recipients: [] },
      },
    }),
    check: (response: { ended: boolean }) => assert.equal(response.ended, false),
    bad: [['an unknown run', (good) => withBody(good, { run_id: unknown('run') }), 'not_found']],
  },
});
