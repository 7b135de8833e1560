// Replaces the copies of forgotten texts in what a daemon has recorded. A copy is recognized by its
// text, however its white space is written and however often it was escaped as JSON, and by the id
// of the memory beside it. Pure.
import { FORGOTTEN, type ForgottenMemory } from '../../wire/copies.ts';

export type Redactor = {
  /** Returns the same text if it has no copy. */
  redactText(text: string): string;
  /** The same for a column, whose JSON stays JSON. */
  redactColumn(column: string): string;
  /** Bytes that are no text are replaced as a whole. */
  redactBytes(bytes: Buffer): Buffer;
  /** Pieces of the texts that no other record has, for looking through files. */
  listTraces(): Buffer[];
  memoryIds: ReadonlySet<string>;
};

/** A shorter text occurs by chance; its copies are found only by the id of the memory. */
export const COPY_BYTES_MIN = 16;

const SPACE = String.raw`(?:\s|\\+[nrt])+`;
const SPECIAL = /\s+|\\*"|\\+/g;

const escapePattern = (text: string): string => text.replace(/[.*+?^${}()|[\]/\\-]/g, '\\$&');

/** A pattern that takes each quote, backslash and space as it is, or as JSON in JSON writes it. */
function writePattern(text: string): string {
  let pattern = '';
  let from = 0;
  for (const { 0: found, index } of text.matchAll(SPECIAL)) {
    pattern += escapePattern(text.slice(from, index));
    pattern += found.endsWith('"') ? String.raw`\\*"` : found.startsWith('\\') ? '\\\\+' : SPACE;
    from = index + found.length;
  }
  return pattern + escapePattern(text.slice(from));
}

/** The longest piece that is written the same everywhere. */
const findAnchor = (text: string): string =>
  text.split(SPECIAL).reduce((longest, piece) => (piece.length > longest.length ? piece : longest));

/** `head`: the shortest beginning that counts as a copy, where a text was cut. */
type TextCopy = { text: string; head: string; anchor: string; pattern: RegExp };

function findHead(text: string): string {
  let head = '';
  for (const character of text) {
    head += character;
    if (Buffer.byteLength(head) >= COPY_BYTES_MIN) break;
  }
  return head;
}

const CUT_END = /\s*(?:…|\.{3})?\s*$/;

/** Replaces a beginning of the text at the end of another, as in a title. */
function redactEnd(text: string, { text: forgotten, head }: TextCopy): string {
  const at = text.lastIndexOf(head);
  if (at < 0) return text;
  const end = text.slice(at).replace(CUT_END, '');
  return forgotten.startsWith(end) ? `${text.slice(0, at)}${FORGOTTEN}` : text;
}

function toCopies({ texts }: ForgottenMemory): TextCopy[] {
  return texts.flatMap(({ text: given, is_cut }) => {
    const text = is_cut ? given.trimStart() : given.trim();
    if (Buffer.byteLength(text) < COPY_BYTES_MIN) return [];
    const rest = is_cut ? '[^]*' : '';
    const pattern = new RegExp(writePattern(text) + rest, 'g');
    return [{ text, head: findHead(text), anchor: findAnchor(text), pattern }];
  });
}

type ById = { id: string; cut: RegExp };

/** A cut answer of memory.recall has the beginning of the text, and is no JSON any more. */
const toById = ({ memory_id: id }: ForgottenMemory): ById => ({
  id,
  cut: new RegExp(String.raw`(${id}\\*"[^{}]*?\\*"text\\*":\\*")((?:[^"\\\n]|\\.)*)`, 'g'),
});

const TRACE_CHARS = 32;
const TRACES_MAX = 8;

function listPieces(text: string): string[] {
  const pieces: string[] = [];
  const step = Math.max(TRACE_CHARS, Math.ceil(text.length / TRACES_MAX));
  for (let from = 0; from < text.length; from += step) {
    const piece = text.slice(from, from + TRACE_CHARS);
    if (Buffer.byteLength(piece) >= COPY_BYTES_MIN && !/["\\\p{Cc}\p{Cs}]/u.test(piece))
      pieces.push(piece);
  }
  return pieces;
}

export function makeRedactor(forgotten: readonly ForgottenMemory[]): Redactor {
  const copies = forgotten.flatMap(toCopies);
  const byId = forgotten.map(toById);
  const memoryIds = new Set<string>(forgotten.map(({ memory_id }) => memory_id));

  const mayHave = (text: string): boolean =>
    copies.some(({ anchor, head }) => text.includes(anchor) || text.includes(head)) ||
    byId.some(({ id }) => text.includes(id));

  const redactText = (text: string): string => {
    let redacted = text;
    for (const copy of copies) {
      if (redacted.includes(copy.anchor)) redacted = redacted.replace(copy.pattern, FORGOTTEN);
      redacted = redactEnd(redacted, copy);
    }
    return redacted;
  };

  /** A text in JSON may be JSON itself: the result of a tool in the context of a model. */
  const redactString = (text: string): string => {
    if (!mayHave(text)) return text;
    const named = byId.filter(({ id }) => text.includes(id));
    if (named.length === 0) return redactText(text);
    const parsed = parseObject(text);
    if (parsed !== undefined) {
      const redacted = redactValue(parsed);
      return redacted === parsed ? text : JSON.stringify(redacted);
    }
    const cut = named.reduce((left, one) => left.replace(one.cut, `$1${FORGOTTEN}`), text);
    return redactText(cut);
  };

  /** Returns the same value if nothing in it was replaced. */
  const redactValue = (value: unknown): unknown => {
    if (typeof value === 'string') return redactString(value);
    if (Array.isArray(value)) {
      const list = value.map(redactValue);
      return list.some((item, i) => item !== value[i]) ? list : value;
    }
    if (typeof value !== 'object' || value === null) return value;
    const entries = Object.entries(value).map(([key, member]): [string, unknown] => [
      redactText(key),
      redactValue(member),
    ]);
    const before = value as Record<string, unknown>;
    const redacted = { ...Object.fromEntries(entries), ...redactMemory(before) };
    const keys = Object.keys(redacted);
    const isSame =
      keys.length === Object.keys(before).length &&
      keys.every((key) => redacted[key] === before[key]);
    return isSame ? value : redacted;
  };

  /** A memory as it is recalled and briefed: whatever its text, it goes. */
  const redactMemory = (value: Record<string, unknown>): Record<string, string> => {
    if (typeof value.id !== 'string' || !memoryIds.has(value.id)) return {};
    const texts = ['text', 'caption'].filter((name) => typeof value[name] === 'string');
    return Object.fromEntries(texts.map((name) => [name, FORGOTTEN]));
  };

  return {
    memoryIds,
    redactText,
    redactColumn(column) {
      if (!mayHave(column)) return column;
      const parsed = parseObject(column);
      if (parsed === undefined) return redactString(column);
      const redacted = redactValue(parsed);
      return redacted === parsed ? column : JSON.stringify(redacted);
    },
    redactBytes(bytes) {
      const text = bytes.toString('utf8');
      const redacted = redactText(text);
      if (redacted === text) return bytes;
      return Buffer.from(Buffer.from(text).equals(bytes) ? redacted : FORGOTTEN);
    },
    listTraces: () =>
      forgotten
        .flatMap(({ texts }) => texts.flatMap(({ text }) => listPieces(text)))
        .map((piece) => Buffer.from(piece)),
  };
}

/** JSON that is more than a number or a word. */
function parseObject(text: string): unknown {
  if (!/^\s*["[{]/.test(text)) return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
