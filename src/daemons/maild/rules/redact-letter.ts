// Replaces forgotten texts in a mail, whose lines may be encoded. Pure.
import type { Redactor } from '../../../platform/copies/redact.ts';
import { decodeQuoted, encodeQuoted } from './compose.ts';
import { decodeText, encodeText, readFields } from './headers.ts';

/** Undefined: it has none. */
export function redactLetter(
  content: Buffer,
  { redactText }: Pick<Redactor, 'redactText'>,
): Buffer | undefined {
  const whole = content.toString('utf8');
  const end = /\r?\n\r?\n/.exec(whole);
  const bodyAt = end === null ? whole.length : end.index + end[0].length;
  const [head, body] = [whole.slice(0, bodyAt), whole.slice(bodyAt)];
  const fields = readFields(head);
  const subject = decodeText(fields.get('subject') ?? '');
  const shown = redactText(subject);
  const newHead =
    shown === subject
      ? head
      : head.replace(/^Subject:.*(\r?\n[ \t].*)*/im, () => `Subject: ${encodeText(shown)}`);
  const isQuoted = fields.get('content-transfer-encoding')?.toLowerCase() === 'quoted-printable';
  const text = isQuoted ? decodeQuoted(body).toString('utf8') : body;
  const redacted = redactText(text);
  if (redacted === text && newHead === head) return undefined;
  const newBody = redacted === text ? body : isQuoted ? encodeQuoted(redacted) : redacted;
  return Buffer.from(`${newHead}${newBody}`);
}
