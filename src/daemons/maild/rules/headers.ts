// Writes and reads the header fields of mail (RFC 5322, RFC 2047). Pure.

/** Longer texts are split: an encoded word has up to 75 characters. */
const WORD_BYTES_MAX = 42;
const FOLDED_CHARS_MAX = 900;

const isPlain = (text: string): boolean => /^[\x20-\x7e]*$/.test(text) && !text.includes('=?');

/** Removes what could end the field, or is no text: a value is always one line. */
const removeControls = (text: string): string => text.replace(/[\p{Cc}\p{Zl}\p{Zp}]+/gu, ' ');
const toOneLine = (text: string): string => removeControls(text).trim();

/** Encodes a value of free text, such as a subject. */
export function encodeText(text: string): string {
  const line = toOneLine(text).slice(0, FOLDED_CHARS_MAX);
  if (isPlain(line)) return line;
  const words: string[] = [];
  let word = '';
  for (const character of line.toWellFormed()) {
    if (Buffer.byteLength(word + character) > WORD_BYTES_MAX) {
      words.push(word);
      word = '';
    }
    word += character;
  }
  if (word !== '') words.push(word);
  return words.map((part) => `=?UTF-8?B?${Buffer.from(part).toString('base64')}?=`).join('\n ');
}

export type Fields = ReadonlyMap<string, string>;

/** Returns the first field of each name, in lower case, unfolded but not decoded. */
export function readFields(head: string): Fields {
  const fields = new Map<string, string>();
  for (const line of head.replace(/\r?\n[ \t]+/g, ' ').split(/\r?\n/)) {
    if (line === '') break;
    const at = line.indexOf(':');
    const name = line.slice(0, Math.max(0, at)).trim().toLowerCase();
    if (name !== '' && !fields.has(name)) fields.set(name, line.slice(at + 1).trim());
  }
  return fields;
}

const ENCODED = /=\?([\w-]{1,40})\?([bBqQ])\?([^?\s]*)\?=/g;

/** Decodes encoded words; one in an unknown charset stays as it is. */
export function decodeText(value: string): string {
  return value
    .replace(/(=\?[^?]+\?[bBqQ]\?[^?\s]*\?=)\s+(?==\?)/g, '$1')
    .replace(ENCODED, (word, charset: string, encoding: string, text: string) => {
      try {
        const bytes = encoding.toLowerCase() === 'b' ? Buffer.from(text, 'base64') : decodeQ(text);
        // Not trimmed: a word may be split at a space.
        return removeControls(new TextDecoder(charset).decode(bytes));
      } catch {
        return word;
      }
    });
}

const decodeQ = (text: string): Buffer =>
  Buffer.from(
    text
      .replaceAll('_', ' ')
      .replace(/=([0-9A-Fa-f]{2})/g, (_, hex: string) => String.fromCharCode(parseInt(hex, 16))),
    'latin1',
  );
