// Parses one mail with limits: text, attachments with harmless names, and the fields that threads
// and loops are recognized by.
import PostalMime, { type Attachment, type Email } from 'postal-mime';
import { htmlToText, readNewText } from '../rules/reply-text.ts';
import type { ParsedAttachment, ParsedMail } from './messages.ts';

const PARTS_DEEP_MAX = 20;
const ATTACHMENTS_MAX = 32;
/** Longer texts are cut: a goal has a limit, too. */
const TEXT_CHARS_MAX = 60_000;
const HTML_CHARS_MAX = 1_000_000;
const NAME_CHARS_MAX = 120;

export async function parseMail(raw: Uint8Array, withContent: boolean): Promise<ParsedMail> {
  const email = await PostalMime.parse(raw, {
    maxNestingDepth: PARTS_DEEP_MAX,
    maxHeadersSize: 512 * 1024,
    forceRfc822Attachments: true,
  });
  if (email.attachments.length > ATTACHMENTS_MAX)
    throw new Error(`it has more than ${ATTACHMENTS_MAX} attachments`);
  const names = new Set<string>();
  return {
    messageId: readIds(email.messageId)[0] ?? null,
    answers: [...readIds(email.inReplyTo), ...readIds(email.references).reverse()].slice(0, 50),
    subject: toLine(email.subject ?? ''),
    from: readFrom(email),
    text: readText(email),
    firstLine: readFirstLine(email),
    attachments: email.attachments.map((part) => readAttachment(part, names, withContent)),
    isAutomatic: isAutomatic(email),
  };
}

function readText({ text, html }: Email): string {
  const plain =
    text !== undefined && text.trim() !== ''
      ? text
      : htmlToText((html ?? '').slice(0, HTML_CHARS_MAX));
  const fresh = readNewText(plain);
  // A mail of nothing but quotes is taken as it is.
  const kept = (fresh === '' ? plain.trim() : fresh)
    .toWellFormed()
    .replace(/(?![\n\t])\p{Cc}/gu, '');
  return kept.length > TEXT_CHARS_MAX ? `${kept.slice(0, TEXT_CHARS_MAX)}\n…` : kept;
}

const FIRST_LINE_CHARS_MAX = 3_000;

/** The sender's own: not a line that they quote, and no text that only HTML shows. */
function readFirstLine({ text = '' }: Email): string | null {
  const line = readNewText(text).split('\n', 1)[0]!.trim();
  return line === '' ? null : line.slice(0, FIRST_LINE_CHARS_MAX);
}

const toLine = (text: string): string =>
  text
    .toWellFormed()
    .replace(/[\p{Cc}\p{Zl}\p{Zp}]+/gu, ' ')
    .trim()
    .slice(0, 300);

const readIds = (value: string | undefined): string[] =>
  [...(value ?? '').matchAll(/<([^<>\s]{1,250})>/g)].map(([, id]) => id!);

function readFrom({ from }: Email): string | null {
  const address = from === undefined || from.group !== undefined ? '' : from.address;
  return address === '' ? null : address.toLowerCase();
}

function readAttachment(
  part: Attachment,
  names: Set<string>,
  withContent: boolean,
): ParsedAttachment {
  const { content } = part;
  const bytes =
    typeof content === 'string' ? Buffer.from(content) : new Uint8Array(content as ArrayBuffer);
  return {
    name: makeName(part.filename ?? '', names),
    mimeType: /^[\w.+-]+\/[\w.+-]+$/.test(part.mimeType)
      ? part.mimeType.slice(0, 100)
      : 'application/octet-stream',
    sizeBytes: bytes.length,
    ...(withContent ? { content: bytes } : {}),
  };
}

/** A plain file name: no directories, nothing hidden, no control characters, none twice. */
function makeName(given: string, names: Set<string>): string {
  const base = given
    .toWellFormed()
    .split(/[/\\]/)
    .at(-1)!
    .replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}:*?"<>|]+/gu, '_')
    .replace(/^[.\s]+/, '')
    .trim()
    .slice(-NAME_CHARS_MAX);
  const name = base === '' ? 'attachment' : base;
  let free = name;
  for (let n = 2; names.has(free); n++) free = `${n}-${name}`;
  names.add(free);
  return free;
}

function isAutomatic({ headers }: Email): boolean {
  const find = (key: string) =>
    headers
      .find((header) => header.key === key)
      ?.value.trim()
      .toLowerCase();
  const auto = find('auto-submitted');
  return (
    (auto !== undefined && auto.split(';')[0]!.trim() !== 'no') ||
    find('list-id') !== undefined ||
    /^(bulk|list|junk)$/.test(find('precedence') ?? '')
  );
}
