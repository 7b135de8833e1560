// Writes the mails that maild itself delivers: plain text, with the fields that keep threads
// together and other programs from answering by themselves. Pure.
import { encodeText } from './headers.ts';

export type Letter = {
  from: { name: string; address: string };
  to: string;
  subject: string;
  text: string;
  /** Without angle brackets, as all ids here. */
  messageId: string;
  inReplyTo?: string | undefined;
  references: readonly string[];
  atMs: number;
  /** Written by a program (RFC 3834). */
  isAutomatic: boolean;
  taskId: string | null;
};

/** A longer line is not allowed in mail. */
const LINE_BYTES_MAX = 990;
/** A line has up to 76 characters; two are for an encoded space at its end. */
const QUOTED_CHARS_MAX = 74;
const REFERENCES_MAX = 20;

export function writeLetter(letter: Letter): Buffer {
  const { from, messageId, inReplyTo, references, taskId } = letter;
  const text = toMailText(letter.text);
  const isLong = text.split('\n').some((line) => Buffer.byteLength(line) > LINE_BYTES_MAX);
  const encoding = isLong ? 'quoted-printable' : isAscii(text) ? '7bit' : '8bit';
  const fields: [string, string | undefined][] = [
    ['Date', new Date(letter.atMs).toUTCString().replace('GMT', '+0000')],
    ['From', `${encodeText(from.name)} <${from.address}>`],
    ['To', letter.to],
    ['Subject', encodeText(letter.subject)],
    ['Message-ID', `<${messageId}>`],
    ['In-Reply-To', inReplyTo && `<${inReplyTo}>`],
    [
      'References',
      references
        .slice(-REFERENCES_MAX)
        .map((id) => `<${id}>`)
        .join('\n '),
    ],
    ['Auto-Submitted', letter.isAutomatic ? 'auto-generated' : undefined],
    ['X-Agentd-Task', taskId ?? undefined],
    ['MIME-Version', '1.0'],
    ['Content-Type', 'text/plain; charset=utf-8'],
    ['Content-Transfer-Encoding', encoding],
  ];
  const head = fields.flatMap(([name, value]) => (value ? [`${name}: ${value}`] : []));
  return Buffer.from(`${head.join('\n')}\n\n${isLong ? encodeQuoted(text) : text}`);
}

const isAscii = (text: string): boolean => /^[\x20-\x7e\n\t]*$/.test(text);

/** Line ends become LF, as in Maildirs; characters that are no text are removed. */
export function toMailText(text: string): string {
  const lines = text
    .toWellFormed()
    .replace(/\r\n?/g, '\n')
    .replace(/(?![\n\t])\p{Cc}/gu, '');
  return lines.endsWith('\n') ? lines : `${lines}\n`;
}

export function encodeQuoted(text: string): string {
  return text
    .split('\n')
    .map((line) => {
      let out = '';
      let width = 0;
      for (const byte of Buffer.from(line)) {
        const isKept = byte >= 32 && byte <= 126 && byte !== 61;
        const part = isKept
          ? String.fromCharCode(byte)
          : `=${byte.toString(16).toUpperCase().padStart(2, '0')}`;
        if (width + part.length > QUOTED_CHARS_MAX - 1) {
          out += '=\n';
          width = 0;
        }
        out += part;
        width += part.length;
      }
      return out.replace(/ $/, '=20');
    })
    .join('\n');
}

export function decodeQuoted(text: string): Buffer {
  return Buffer.from(
    text
      .replace(/=[ \t]*\r?\n/g, '')
      .replace(/=([0-9A-Fa-f]{2})/g, (_, hex: string) => String.fromCharCode(parseInt(hex, 16))),
    'latin1',
  );
}
