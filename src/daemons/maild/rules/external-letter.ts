// Writes mail to others, as bytes for the wire and as the text that a person approves. Pure.
import type { ExternalMail } from '../../../wire/maild/external.ts';
import { encodeQuoted, toMailText } from './compose.ts';
import { encodeText } from './headers.ts';

export type MailSenderAddress = { name: string; address: string };

/** More does not fit into a line of a mail that nobody on the way may change. */
const LINE_CHARS_MAX = 900;

/** Seven bits only: what is changed on the way would break the signature. */
export function writeExternalLetter(
  mail: ExternalMail,
  facts: { from: MailSenderAddress; messageId: string; atMs: number },
): string {
  const { from, messageId, atMs } = facts;
  const text = toMailText(mail.text);
  const isPlain =
    /^[\x20-\x7e\n\t]*$/.test(text) && text.split('\n').every((l) => l.length <= LINE_CHARS_MAX);
  const fields = [
    `Date: ${new Date(atMs).toUTCString().replace('GMT', '+0000')}`,
    `From: ${encodeText(from.name)} <${from.address}>`,
    `To: ${mail.to.join(',\n ')}`,
    ...(mail.cc.length === 0 ? [] : [`Cc: ${mail.cc.join(',\n ')}`]),
    `Subject: ${encodeText(mail.subject)}`,
    `Message-ID: <${messageId}>`,
    'Auto-Submitted: auto-generated',
    'MIME-Version: 1.0',
    'Content-Type: text/plain; charset=utf-8',
    `Content-Transfer-Encoding: ${isPlain ? '7bit' : 'quoted-printable'}`,
  ];
  const letter = `${fields.join('\n')}\n\n${isPlain ? text : encodeQuoted(text)}`;
  return letter.replaceAll('\n', '\r\n');
}

/** The same for the same mail and configuration, so that what was approved is what is sent. */
export function describeExternalMail(
  mail: ExternalMail,
  facts: { from: MailSenderAddress; through: string; signedFor: string | undefined },
): string {
  const { from, through, signedFor } = facts;
  return [
    `From: ${from.name} <${from.address}>`,
    `To: ${mail.to.join(', ')}`,
    ...(mail.cc.length === 0 ? [] : [`Cc: ${mail.cc.join(', ')}`]),
    `Subject: ${mail.subject}`,
    `(through ${through}, ${signedFor === undefined ? 'not signed' : `signed for ${signedFor}`})`,
    '',
    toMailText(mail.text),
  ].join('\n');
}

/** To and Cc without repeats, which would be told apart by nobody. */
export function listRecipients({ to, cc }: Pick<ExternalMail, 'to' | 'cc'>): string[] {
  const byKey = new Map([...to, ...cc].map((address) => [toKey(address), address] as const));
  return [...byKey.values()];
}

/** Domains do not distinguish case; what is before the @ may. */
function toKey(address: string): string {
  const at = address.lastIndexOf('@');
  return `${address.slice(0, at)}${address.slice(at).toLowerCase()}`;
}
