// Lets calls wait until their mail to others was sent: toold opens the wait, maild ends it.
import type { Handlers } from '../../platform/dispatch.ts';
import type { outgoingMailRoutes } from '../../wire/agentd/mail.ts';
import { toRunCall } from './calls.ts';
import { toWaitView } from './store/rows.ts';
import type { AgentdStore } from './store/store.ts';

/** A fallback: maild normally ends the wait before this. */
const SLACK_MS = 3_600_000;

export function makeOutgoingMailHandlers({
  store,
}: {
  store: Pick<AgentdStore, 'openWait' | 'endMailWait'>;
}): Handlers<typeof outgoingMailRoutes> {
  return {
    async toolAwaitMail({ body }) {
      const wait = await store.openWait(toRunCall(body, body.mail_id), {
        kind: 'mail',
        by: ['service:maild'],
        from: 'service:maild',
        question: body.mail_id,
        expiresMs: Date.parse(body.expires_at) + SLACK_MS,
      });
      return { wait: toWaitView(wait) };
    },
    mailEnded: async ({ params, body }) => ({
      ended: await store.endMailWait({ mailId: params.id, ...body }),
    }),
  };
}
