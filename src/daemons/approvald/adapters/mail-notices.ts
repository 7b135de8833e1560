// Notifies by mail: approval requests go to the person who created the root task, or to whom they
// were escalated. As in every notice, arguments and diff are left out.
import type { Client } from '../../../platform/link.ts';
import { MailboxName, type MailNotice, type maildRoutes } from '../../../wire/maild.ts';
import type { SendNotice } from '../delivery.ts';
import type { Notice } from '../notices.ts';

export const MAIL_TARGET = 'mail';

export const makeMailNotices =
  (maild: Pick<Client<typeof maildRoutes>, 'deliverNotices'>): SendNotice =>
  async ({ id, body }) => {
    const notice = toMailNotice(id, JSON.parse(body) as Notice);
    if (notice !== undefined) await maild.deliverNotices({ body: { notices: [notice] } });
  };

/** Returns undefined for what needs nobody's attention. */
function toMailNotice(id: string, { type, timestamp, data }: Notice): MailNotice | undefined {
  const { approval } = data;
  if (type === 'approval.decided') return undefined;
  const isExpired = type === 'approval.expired';
  const person = approval.escalated_to?.replace(/^person:/, '');
  return {
    id: `${id}.approval`,
    kind: 'approval',
    to: MailboxName.safeParse(person).data ?? null,
    from: approval.memory?.by.startsWith('person:') === true ? null : approval.agent,
    title: `${isExpired ? 'expired' : 'approval'}: ${approval.summary}`
      .replace(/\p{Cc}+/gu, ' ')
      .slice(0, 200),
    text: [
      approval.summary,
      '',
      `Why it needs a person: ${approval.reason}`,
      `Risk ${approval.risk}, ${approval.reversibility}; ${approval.action} (${approval.class}).`,
      '',
      '-- ',
      ...(isExpired
        ? [`${approval.id} expired without a decision, so it was not done.`]
        : [
            `It expires at ${approval.expires_at}, which denies it.`,
            `See it whole: agentctl approvals ${approval.id}`,
            `Then: agentctl approve ${approval.id}, or agentctl reject ${approval.id}`,
          ]),
      approval.memory === null
        ? `The task: agentctl task show ${approval.task_id}`
        : `The memory: agentctl memory show ${approval.memory.memory_id}`,
    ].join('\n'),
    context_id: null,
    task_id: approval.root_task_id,
    at: timestamp,
  };
}
