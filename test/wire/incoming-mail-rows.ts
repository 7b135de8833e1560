// The rows of the routes by which maild hands over mail for agents.
import assert from 'node:assert/strict';
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
