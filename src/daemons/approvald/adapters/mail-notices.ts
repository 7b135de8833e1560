// Notifies by mail: approval requests go to the person who created the root task, or to whom they
// were escalated. As in every notice, arguments and diff are left out, except for a person who may
// reply: they decide on what the mail shows.
import { toTimestamp } from '../../../platform/clock.ts';
import { isFault } from '../../../platform/daemon.ts';
import type { Client } from '../../../platform/link.ts';
import { escapeHidden } from '../../../platform/text/hidden.ts';
import type { agentdRoutes } from '../../../wire/agentd.ts';
import { REPLY_MAILBOX } from '../../../wire/approvald/replies.ts';
import type { ApprovalSummary } from '../../../wire/approvald.ts';
import { MailboxName, type MailNotice, type maildRoutes } from '../../../wire/maild.ts';
import type { SendNotice } from '../delivery.ts';
import type { Notice } from '../notices.ts';
import type { Replies, ReplyOffer } from '../replies.ts';

export const MAIL_TARGET = 'mail';

const PERSON = 'person:';

export function makeMailNotices(deps: {
  maild: Pick<Client<typeof maildRoutes>, 'deliverNotices'>;
  agentd: Pick<Client<typeof agentdRoutes>, 'getTask'>;
  /** Undefined: nobody decides by reply. */
  offerReply: Replies['offer'] | undefined;
}): SendNotice {
  const { maild, agentd, offerReply } = deps;

  const findPerson = async (approval: ApprovalSummary): Promise<string | undefined> => {
    if (approval.escalated_to !== null) return approval.escalated_to;
    if (approval.root_task_id === null) return undefined;
    try {
      const { task } = await agentd.getTask({ params: { id: approval.root_task_id } });
      return task.created_by;
    } catch (error) {
      if (isFault(error, 'not_found') || isFault(error, 'pruned')) return undefined;
      throw error;
    }
  };

  /** For the person who gets the mail, if they may decide by reply. */
  const findOffer = async ({ type, data }: Notice) => {
    if (offerReply === undefined || type === 'approval.expired') return undefined;
    const person = await findPerson(data.approval);
    const name = MailboxName.safeParse(person?.replace(PERSON, '')).data;
    if (name === undefined || person?.startsWith(PERSON) !== true) return undefined;
    const offer = await offerReply(data.approval.id, person);
    return offer === undefined ? undefined : { offer, name };
  };

  return async ({ id, body }) => {
    const notice = JSON.parse(body) as Notice;
    if (notice.type === 'approval.decided') return;
    const found = await findOffer(notice);
    await maild.deliverNotices({ body: { notices: [toMailNotice(id, notice, found)] } });
  };
}

function toMailNotice(
  id: string,
  { type, timestamp, data }: Notice,
  found: { offer: ReplyOffer; name: string } | undefined,
): MailNotice {
  const { approval } = data;
  const isExpired = type === 'approval.expired';
  const person = found?.name ?? approval.escalated_to?.replace(PERSON, '');
  const offer = found?.offer;
  return {
    // Names the approval, so that a reply to this mail decides no other.
    id: `${approval.id}.${id.replace(/^notice_/, '')}`,
    kind: 'approval',
    to: MailboxName.safeParse(person).data ?? null,
    from: approval.memory?.by.startsWith(PERSON) === true ? null : approval.agent,
    title: `${isExpired ? 'expired' : 'approval'}: ${approval.summary}`
      .replace(/\p{Cc}+/gu, ' ')
      .slice(0, 200),
    ...(offer !== undefined && 'code' in offer ? { reply_to: REPLY_MAILBOX } : {}),
    text: [
      escapeHidden(approval.summary),
      '',
      `Why it needs a person: ${escapeHidden(approval.reason)}`,
      `Risk ${approval.risk}, ${approval.reversibility}; ${approval.action} (${approval.class}).`,
      ...writeOffer(offer),
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

/** No line of it is a decision itself, also where a mail program loses the marks of quotes. */
function writeOffer(offer: ReplyOffer | undefined): string[] {
  if (offer === undefined) return [];
  if ('obstacle' in offer) return ['', `A reply cannot decide it: ${offer.obstacle}.`];
  return [
    `To decide, reply to this mail; its first line is: approve ${offer.code}`,
    `                                             or: reject ${offer.code} and why`,
    `The code is for you alone, once, until ${toTimestamp(offer.expiresMs)}.`,
    '',
    offer.text,
  ];
}
