// Turns notices of other daemons into mails to people.
import { isFault } from '../../platform/daemon.ts';
import type { Client } from '../../platform/link.ts';
import type { agentdRoutes } from '../../wire/agentd.ts';
import { MailboxName, type MailNotice } from '../../wire/maild.ts';
import type { ContextId, TaskId } from '../../wire/primitives.ts';
import type { MaildConfig } from './config.ts';
import type { Delivery, NewMail } from './delivery.ts';

export type DeliverNotices = (notices: readonly MailNotice[], by: string) => Promise<number>;

const PERSON = 'person:';

export type FindTaskOwner = (id: TaskId) => Promise<{ box?: string; contextId?: ContextId }>;

/** The person who created the task, and its thread; neither if the task was pruned. */
export function makeFindTaskOwner(
  agentd: Pick<Client<typeof agentdRoutes>, 'getTask'>,
): FindTaskOwner {
  return async (id) => {
    try {
      const { task } = await agentd.getTask({ params: { id } });
      const { created_by: creator, context_id: contextId } = task;
      const name = creator.slice(PERSON.length);
      const isPerson = creator.startsWith(PERSON) && MailboxName.safeParse(name).success;
      return isPerson ? { box: name, contextId } : { contextId };
    } catch (error) {
      if (isFault(error, 'not_found') || isFault(error, 'pruned')) return {};
      throw error;
    }
  };
}

export function makeDeliverNotices(deps: {
  findTaskOwner: FindTaskOwner;
  delivery: Delivery;
  config: Pick<MaildConfig, 'postmaster' | 'notices' | 'domain'>;
}): DeliverNotices {
  const { findTaskOwner, delivery, config } = deps;

  const toMail = async (notice: MailNotice, by: string): Promise<NewMail> => {
    const isWhole = notice.to !== null && notice.context_id !== null;
    const found = isWhole || notice.task_id === null ? {} : await findTaskOwner(notice.task_id);
    const name = notice.from ?? 'agentd';
    return {
      id: notice.id,
      box: notice.to ?? found.box ?? config.postmaster,
      kind: notice.kind,
      // Not a Reply-To: not every mail program goes by it.
      from: { name, address: `${notice.reply_to ?? name}@${config.domain}` },
      title: notice.title,
      text: notice.text,
      contextId: notice.context_id ?? found.contextId ?? null,
      taskId: notice.task_id,
      atMs: Date.parse(notice.at),
      isAutomatic: true,
      by,
    };
  };

  return async (notices, by) => {
    const wanted = notices.filter(({ kind }) => kind === 'digest' || config.notices.includes(kind));
    return delivery.deliver(await Promise.all(wanted.map((notice) => toMail(notice, by))));
  };
}
