// The rows of maild's routes for mail to others.
import assert from 'node:assert/strict';
import type { IdleWorld } from '../support/callers.ts';
import { type Good, rows, withBody } from './row.ts';

const MAIL = { to: ['ann@example.org'], cc: [], subject: 'Herons', text: 'Seven.' };

let made = 0;

async function sending(world: IdleWorld): Promise<Good> {
  const { id, taskId, callId } = world.someRun;
  const call_id = callId(3_000 + made++);
  const ids = { run_id: id, call_id, task_id: taskId, root_task_id: taskId };
  return { body: { ...ids, agent: 'worker', mail: MAIL } };
}

const withMail = (good: Good, change: Record<string, unknown>) =>
  withBody(good, { mail: { ...MAIL, ...change } });

export const externalMailRows = rows({
  previewExternal: {
    good: async () => ({ body: { agent: 'worker', mail: MAIL } }),
    check: ({ text }: { text: string }) =>
      assert.match(text, /^From: worker <agents@example\.com>$/m),
    bad: [
      [
        'a subject of two lines',
        (g) => withMail(g, { subject: 'A\r\nBcc: eve@example.org' }),
        'bad_request',
      ],
      [
        'an address of two',
        (g) => withMail(g, { to: ['ann@example.org,eve@example.org'] }),
        'bad_request',
      ],
      ['a person here', (g) => withMail(g, { to: ['ann@agentd.localhost'] }), 'bad_request'],
    ],
  },
  sendExternal: {
    good: sending,
    check: ({ mail }: { mail: { id: string } }) => assert.match(mail.id, /^mail_[0-9a-z]{26}\.1$/),
    bad: [
      ['nobody', (g) => withMail(g, { to: [] }), 'bad_request'],
      ['a person here', (g) => withMail(g, { to: ['ann@agentd.localhost'] }), 'bad_request'],
    ],
  },
  findExternal: {
    unknownId: 'fine',
    good: async (world) => ({ params: { call_id: world.someRun.callId(2_999) } }),
    check: ({ mail }: { mail: null }) => assert.equal(mail, null),
  },
  forgetExternal: {
    unknownId: 'fine',
    good: async (world) => ({ params: { call_id: world.someRun.callId(2_999) } }),
    check: ({ forgotten }: { forgotten: boolean }) => assert.equal(forgotten, false),
  },
});
