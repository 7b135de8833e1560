// Delivers mails into people's Maildirs, once each: first the synced files, whose names follow from
// the ids, then the rows. A crash in between is found by the names when the sender repeats it.
import type { Clock } from '../../platform/clock.ts';
import { makeMutex } from '../../platform/mutex.ts';
import { type Maildirs, type MailFile, toFileName } from './maildir.ts';
import { writeLetter } from './rules/compose.ts';
import type { MailRow } from './store/schema.ts';
import type { MaildStore } from './store/store.ts';

export type NewMail = {
  id: string;
  box: string;
  kind: string;
  from: { name: string; address: string };
  /** The subject, unless its thread has one. */
  title: string;
  text: string;
  contextId: string | null;
  taskId: string | null;
  atMs: number;
  isAutomatic: boolean;
  /** Who had it delivered. */
  by: string;
};

export type RawMail = Pick<NewMail, 'id' | 'box' | 'atMs' | 'by'> & {
  messageId: string;
  subject: string;
  content: Uint8Array;
};

export type Delivery = {
  /** Returns how many were new. */
  deliver(mails: readonly NewMail[]): Promise<number>;
  /** Delivers mails of others as they came. */
  deliverRaw(mails: readonly RawMail[]): Promise<number>;
  /** Records what a person sent, so that what comes of it continues its thread. */
  addSent(row: MailRow): Promise<void>;
  addressOf(person: string): string;
};

export type DeliveryDeps = {
  store: MaildStore;
  maildirs: Maildirs;
  domain: string;
  clock: Clock;
  failpoint(name: string): void;
};

type Written = MailRow & { sizeBytes: number; by: string; file: MailFile };

export function makeDelivery(deps: DeliveryDeps): Delivery {
  const { store, maildirs, domain, clock, failpoint } = deps;
  const startedMs = clock.nowMs();
  const withLock = makeMutex();
  const addressOf = (person: string): string =>
    person.includes('@') ? person : `${person}@${domain}`;

  /** A mail continues the thread of its context in the same mailbox, also one of this batch. */
  const findThread = async (mail: NewMail, batch: readonly Written[]) => {
    if (mail.contextId === null) return undefined;
    const thread = await store.findThread(mail.box, mail.contextId);
    const ofBatch = batch.filter(
      ({ box, context_id }) => box === mail.box && context_id === mail.contextId,
    );
    const first = thread?.first ?? ofBatch[0];
    const last = ofBatch.at(-1) ?? thread?.last;
    return first === undefined || last === undefined ? undefined : { first, last };
  };

  const write = async (mail: NewMail, batch: readonly Written[]): Promise<Written> => {
    const thread = await findThread(mail, batch);
    const messageId = `${mail.id}@${domain}`;
    const subject = thread === undefined ? mail.title : addRe(thread.first.subject);
    const content = writeLetter({
      ...mail,
      to: addressOf(mail.box),
      subject,
      messageId,
      inReplyTo: thread?.last.message_id,
      references:
        thread === undefined ? [] : [...new Set([thread.first.message_id, thread.last.message_id])],
    });
    return toWritten({
      row: {
        id: mail.id,
        box: mail.box,
        kind: mail.kind,
        message_id: messageId,
        context_id: mail.contextId,
        task_id: mail.taskId,
        subject,
        at_ms: mail.atMs,
      },
      content,
      by: mail.by,
    });
  };

  const toWritten = (mail: { row: MailRow; content: Uint8Array; by: string }): Written => {
    const { row, content, by } = mail;
    return {
      ...row,
      sizeBytes: content.length,
      by,
      file: {
        name: toFileName(row),
        content,
        // A process before this one may have written it without its row.
        isRepeat: row.at_ms < startedMs,
      },
    };
  };

  const save = async (written: readonly Written[]): Promise<number> => {
    if (written.length === 0) return 0;
    failpoint('maild.before-file');
    const boxes = new Set(written.map(({ box }) => box));
    await Promise.all(
      [...boxes].map((box) => {
        const own = written.filter((mail) => mail.box === box);
        return maildirs.deliver(
          box,
          own.map(({ file }) => file),
        );
      }),
    );
    failpoint('maild.after-file');
    await store.addDelivered(written.map(({ file: _, ...row }) => row));
    failpoint('maild.after-row');
    return written.length;
  };

  return {
    addressOf,
    deliver: (mails) =>
      withLock(async () => {
        const written: Written[] = [];
        for (const mail of mails)
          if (
            (await store.find(mail.id)) === undefined &&
            !written.some(({ id }) => id === mail.id)
          )
            written.push(await write(mail, written));
        return save(written);
      }),
    deliverRaw: (mails) =>
      withLock(async () => {
        const written: Written[] = [];
        for (const { content, by, id, box, atMs, messageId, subject } of mails) {
          if ((await store.find(id)) !== undefined) continue;
          const row = { id, box, kind: 'mail', context_id: null, task_id: null, subject };
          written.push(
            toWritten({ row: { ...row, message_id: messageId, at_ms: atMs }, content, by }),
          );
        }
        return save(written);
      }),
    addSent: store.addSent,
  };
}

const addRe = (subject: string): string => (/^re:/i.test(subject) ? subject : `Re: ${subject}`);
