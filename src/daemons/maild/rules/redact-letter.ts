// Replaces forgotten texts in a mail: in its subject, and in each of its parts, however these are
// encoded. What has none stays as it is, to the byte. Pure.
import type { Redactor } from '../../../platform/copies/redact.ts';
import { FORGOTTEN } from '../../../wire/copies.ts';
import { decodeQuoted, encodeQuoted } from './compose.ts';
import { decodeText, encodeText, type Fields, readFields } from './headers.ts';

type LetterRedactor = Pick<Redactor, 'redactText' | 'redactBytes'>;

/** As deep as a mail that is taken in. */
const PARTS_DEEP_MAX = 20;
const BASE64_LINE = /.{1,76}/g;
const MULTIPART = 'multipart/';
const MAIL = 'message/rfc822';

/** Undefined: it has none. */
export function redactLetter(content: Buffer, redactor: LetterRedactor): Buffer | undefined {
  // One character per byte, so that other charsets than UTF-8 stay as they are.
  const whole = toRaw(content);
  const redacted = redactMail(whole, redactor, 0);
  return redacted === whole ? undefined : fromRaw(redacted);
}

const toRaw = (bytes: Buffer): string => bytes.toString('latin1');
const fromRaw = (raw: string): Buffer => Buffer.from(raw, 'latin1');

function redactMail(mail: string, redactor: LetterRedactor, deep: number): string {
  const { head, rest } = splitHead(mail);
  const subject = decodeText(fromRaw(readFields(head).get('subject') ?? '').toString('utf8'));
  const shown = redactor.redactText(subject);
  const field = `Subject: ${encodeText(shown).replaceAll('\n', findLineEnd(head))}`;
  const newHead =
    shown === subject ? head : head.replace(/^Subject:.*(\r?\n[ \t].*)*/im, () => field);
  return redactPart(newHead + rest, redactor, deep);
}

const findLineEnd = (text: string): string => (text.includes('\r\n') ? '\r\n' : '\n');

/** A part of a mail, or a whole one: its fields, an empty line, and its body. */
function redactPart(part: string, redactor: LetterRedactor, deep: number): string {
  const { head, rest } = splitHead(part);
  const fields = readFields(head);
  const { type, parameters } = readType(fields);
  const boundary = parameters.get('boundary');
  if (deep > PARTS_DEEP_MAX) return part;
  if (type.startsWith(MULTIPART) && boundary !== undefined)
    return head + redactParts(rest, { boundary, redactor, deep });
  if (type === MAIL && readEncoding(fields) === 'none')
    return head + redactMail(rest, redactor, deep + 1);
  const charset = type.startsWith('text/') ? (parameters.get('charset') ?? 'utf-8') : undefined;
  return head + redactBody(rest, { encoding: readEncoding(fields), charset, redactor });
}

/** `head` ends with the empty line; a part that begins with one has no fields. */
function splitHead(part: string): { head: string; rest: string } {
  const end = /^\r?\n|\r?\n\r?\n/.exec(part);
  const at = end === null ? part.length : end.index + end[0].length;
  return { head: part.slice(0, at), rest: part.slice(at) };
}

function readType(fields: Fields): { type: string; parameters: ReadonlyMap<string, string> } {
  const value = fields.get('content-type') ?? 'text/plain';
  const parameters = new Map<string, string>();
  for (const [, name, quoted, plain] of value.matchAll(
    /;\s*([\w-]+)\s*=\s*(?:"([^"]*)"|([^\s;]*))/g,
  ))
    parameters.set(name!.toLowerCase(), quoted ?? plain ?? '');
  return { type: value.split(';')[0]!.trim().toLowerCase(), parameters };
}

type Encoding = 'base64' | 'quoted-printable' | 'none';

function readEncoding(fields: Fields): Encoding {
  const value = (fields.get('content-transfer-encoding') ?? '').toLowerCase();
  return value === 'base64' || value === 'quoted-printable' ? value : 'none';
}

/** Each part stands between lines with the boundary; what is around them is shown to nobody. */
function redactParts(
  body: string,
  { boundary, redactor, deep }: { boundary: string; redactor: LetterRedactor; deep: number },
): string {
  const escaped = boundary.replace(/[^\w ]/g, '\\$&');
  const lines = [...body.matchAll(new RegExp(`^--${escaped}(--)?[ \\t]*\\r?(?:\\n|$)`, 'gm'))];
  let out = '';
  let from = 0;
  let isPart = false;
  for (const { 0: line, 1: end, index } of lines) {
    out += redactSection(body.slice(from, index), { isPart, redactor, deep }) + line;
    from = index + line.length;
    isPart = end === undefined;
  }
  return out + redactSection(body.slice(from), { isPart, redactor, deep });
}

function redactSection(
  section: string,
  { isPart, redactor, deep }: { isPart: boolean; redactor: LetterRedactor; deep: number },
): string {
  if (isPart) return redactPart(section, redactor, deep + 1);
  return redactBody(section, { encoding: 'none', charset: 'utf-8', redactor });
}

function redactBody(
  body: string,
  about: { encoding: Encoding; charset: string | undefined; redactor: LetterRedactor },
): string {
  const { encoding, charset, redactor } = about;
  const bytes = decode(body, encoding);
  const redacted =
    charset === undefined ? redactor.redactBytes(bytes) : redactInCharset(bytes, charset, redactor);
  return redacted === bytes ? body : encode(redacted, encoding, body);
}

function redactInCharset(bytes: Buffer, charset: string, { redactText }: LetterRedactor): Buffer {
  const text = decodeCharset(bytes, charset);
  const redacted = redactText(text);
  if (redacted === text) return bytes;
  for (const name of ['utf8', 'latin1'] as const)
    if (Buffer.from(text, name).equals(bytes)) return Buffer.from(redacted, name);
  // Written in another charset, it goes as a whole.
  return Buffer.from(FORGOTTEN);
}

function decodeCharset(bytes: Buffer, charset: string): string {
  try {
    return new TextDecoder(charset, { ignoreBOM: true }).decode(bytes);
  } catch {
    return bytes.toString('utf8');
  }
}

function decode(body: string, encoding: Encoding): Buffer {
  if (encoding === 'base64') return Buffer.from(body, 'base64');
  return encoding === 'quoted-printable' ? decodeQuoted(body) : fromRaw(body);
}

/** With the line ends of the body that it replaces. */
function encode(bytes: Buffer, encoding: Encoding, body: string): string {
  if (encoding === 'none') return toRaw(bytes);
  const end = findLineEnd(body);
  if (encoding === 'base64')
    return `${(bytes.toString('base64').match(BASE64_LINE) ?? []).join(end)}${end}`;
  const lines = bytes.toString('utf8').replaceAll('\r\n', '\n');
  return encodeQuoted(lines).replaceAll('\n', end);
}
