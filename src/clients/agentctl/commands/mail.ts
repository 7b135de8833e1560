// agentctl mail: what is in a person's mailbox, and one mail of it.

import { fault } from '../../../wire/errors.ts';
import type { MailSummary, MailView } from '../../../wire/maild.ts';
import type { Session } from '../command.ts';
import type { Out } from '../out.ts';
import { formatRelative, pluralize } from '../show/amounts.ts';
import { replaceControls, toOneLine } from '../show/plain.ts';
import { wrap } from '../show/width.ts';

const WIDTH_MAX = 100;
const LIST_MAX = 1_000;

export async function mail(session: Session): Promise<void> {
  const { box, n } = readWords(session.args.positionals);
  return n === undefined ? list(session, box) : read(session, box, n);
}

/** Reads `[USER] [read N]`. */
function readWords(words: readonly string[]): { box?: string; n?: number } {
  const at = words.indexOf('read');
  const [user, ...more] = at === -1 ? words : words.slice(0, at);
  if (more.length > 0)
    throw fault('bad_usage', `'${more[0]}' is not expected here`, {
      hint: 'agentctl mail [USER] [read N]',
    });
  const box = user === undefined ? {} : { box: user.replace(/^person:/, '') };
  if (at === -1) return box;
  const n = Number(words[at + 1]);
  if (!Number.isSafeInteger(n) || n < 1 || words.length > at + 2)
    throw fault('bad_usage', 'read needs the number of a mail', {
      hint: 'agentctl mail lists them: agentctl mail read 1',
    });
  return { ...box, n };
}

async function list({ args, out, runtime }: Session, box: string | undefined): Promise<void> {
  const query = { limit: Math.min(args.number('limit') ?? 50, LIST_MAX), box };
  const answer = await runtime().call('maild', 'listMail', { query });
  out.print(answer, () => {
    if (answer.total === 0) return [`No mail for ${answer.box}.`];
    const nowMs = Date.now();
    const shown =
      answer.mails.length < answer.total ? `; the last ${answer.mails.length} are shown` : '';
    return [
      ...answer.mails.map((one) => renderLine(one, out, nowMs)),
      '',
      `${answer.box} has ${pluralize(answer.total, 'mail')}, ${answer.unread} unread${shown}. Read one: agentctl mail ${box === undefined ? '' : `${box} `}read ${answer.total}`,
    ];
  });
}

function renderLine(one: MailSummary, { paint, columns }: Out, nowMs: number): string {
  const from = toOneLine(one.from.replace(/\s*<[^>]*>$/, '').replace(/^"|"$/g, '') || one.from);
  const age = one.date === null ? '' : formatRelative(one.date, nowMs);
  const head = `${one.is_read ? ' ' : 'N'} ${String(one.n).padStart(3)}  ${from.slice(0, 16).padEnd(16)} ${age.padStart(12)}  `;
  const room = Math.max(20, columns - head.length);
  const subject = toOneLine(one.subject || '(no subject)');
  const line = head + (subject.length > room ? `${subject.slice(0, room - 1)}…` : subject);
  return one.is_read ? line : paint('bold', line);
}

async function read({ out, runtime }: Session, box: string | undefined, n: number): Promise<void> {
  const body = { n, box };
  const answer = await runtime().call('maild', 'readMail', { body });
  out.print(answer, () => renderMail(answer.mail, out));
}

function renderMail(one: MailView, { paint, columns }: Out): string[] {
  const field = (name: string, value: string | null): string[] =>
    value === null || value === '' ? [] : [`${paint('dim', `${name}:`)} ${toOneLine(value)}`];
  return [
    ...field('From', one.from),
    ...field('To', one.to),
    ...field('Date', one.date),
    ...field('Subject', one.subject),
    '',
    ...wrap(
      replaceControls(one.text.replaceAll('\r\n', '\n').trimEnd()),
      Math.min(columns, WIDTH_MAX),
    ),
  ];
}
