// Lists a mailbox, and reads one mail of it. People's mail programs may change it at any time.
import { toTimestamp } from '../../platform/clock.ts';
import { fault } from '../../wire/errors.ts';
import type { MailSummary, MailView } from '../../wire/maild.ts';
import { isNoMail, type MaildirEntry, type Maildirs } from './maildir.ts';
import { decodeQuoted } from './rules/compose.ts';
import { decodeText, type Fields, readFields } from './rules/headers.ts';

export type Mailbox = {
  list(
    box: string,
    limit: number,
  ): Promise<{ mails: MailSummary[]; total: number; unread: number }>;
  read(box: string, n: number): Promise<MailView>;
};

const HEAD_BYTES_MAX = 32_768;
const SHOWN_BYTES_MAX = 1_000_000;
const TEXT_CHARS_MAX = 200_000;

export function makeMailbox(maildirs: Maildirs): Mailbox {
  const summarize = async (entry: MaildirEntry, n: number): Promise<MailSummary | undefined> => {
    try {
      const { content, sizeBytes } = await maildirs.read(entry, HEAD_BYTES_MAX);
      return toSummary({ n, entry, fields: readFields(content.toString('utf8')), sizeBytes });
    } catch (error) {
      // It was moved or removed meanwhile, or never was a mail.
      if (isNoMail(error)) return undefined;
      throw error;
    }
  };
  return {
    async list(box, limit) {
      const entries = await maildirs.list(box);
      const from = Math.max(0, entries.length - limit);
      const found = await Promise.all(
        entries.slice(from).map((entry, i) => summarize(entry, from + i + 1)),
      );
      return {
        mails: found.filter((mail) => mail !== undefined),
        total: entries.length,
        unread: entries.filter(({ isRead }) => !isRead).length,
      };
    },
    async read(box, n) {
      const entries = await maildirs.list(box);
      const entry = entries[n - 1];
      if (entry === undefined)
        throw fault('not_found', `mail ${n} of ${box} not found`, {
          hint: `There ${entries.length === 1 ? 'is 1 mail' : `are ${entries.length} mails`}; list them with agentctl mail.`,
        });
      const { content, sizeBytes } = await maildirs
        .read(entry, SHOWN_BYTES_MAX)
        .catch((error: unknown) => {
          if (!isNoMail(error)) throw error;
          throw fault('not_found', `${n} of ${box} is no mail that can be read`, {
            hint: 'List the mails again: agentctl mail.',
          });
        });
      await maildirs.markRead(entry);
      const text = content.toString('utf8');
      const end = /\r?\n\r?\n/.exec(text);
      const fields = readFields(text);
      const body = end === null ? '' : text.slice(end.index + end[0].length);
      return {
        ...toSummary({ n, entry: { ...entry, isRead: true }, fields, sizeBytes }),
        message_id: fields.get('message-id') ?? null,
        task_id: fields.get('x-agentd-task') ?? null,
        text: decodeBody(body, fields).slice(0, TEXT_CHARS_MAX),
      };
    },
  };
}

function toSummary(mail: {
  n: number;
  entry: MaildirEntry;
  fields: Fields;
  sizeBytes: number;
}): MailSummary {
  const { n, entry, fields, sizeBytes } = mail;
  const show = (name: string): string => decodeText(fields.get(name) ?? '').slice(0, 500);
  const ms = Date.parse(fields.get('date') ?? '');
  return {
    n,
    from: show('from'),
    to: show('to'),
    subject: show('subject'),
    date: Number.isNaN(ms) ? null : toTimestamp(ms),
    is_read: entry.isRead,
    size_bytes: sizeBytes,
  };
}

const decodeBody = (body: string, fields: Fields): string =>
  fields.get('content-transfer-encoding')?.toLowerCase() === 'quoted-printable'
    ? decodeQuoted(body).toString('utf8')
    : body;
