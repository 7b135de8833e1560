// Makes a result safe to show to a model: removes secrets of known shapes, and escapes control and
// bidirectional characters that could hide text or steer a terminal.
import { mayHoldSecret, redact } from '../../../platform/secrets/shapes.ts';

/**
 * C0 but tab and line ends, DEL, C1, bidirectional marks and overrides, line separators, tag
 * characters.
 */
const BEYOND_C0 =
  '\\u007f-\\u009f\\u061c\\u200e\\u200f\\u2028-\\u202e\\u2066-\\u2069\\u{e0000}-\\u{e007f}';
const UNSAFE = new RegExp(`[\\u0000-\\u0008\\v\\f\\u000e-\\u001f${BEYOND_C0}]`, 'gu');
const UNSAFE_ONE = new RegExp(UNSAFE, 'u');
const UNSAFE_RUN = new RegExp(`${UNSAFE.source}+`, 'gu');

const showCodePoint = (c: string): string =>
  `[U+${c.codePointAt(0)!.toString(16).toUpperCase().padStart(4, '0')}]`;

export function neutralise(text: string): string {
  return text.replace(UNSAFE, showCodePoint);
}

/** Characters shown by name, which is eight times as long; with more it is not readable text. */
const SHOWN_MAX = 65_536;

/** Like neutralise, but past the limit each run of hidden characters becomes one U+FFFD. */
function neutraliseMany(text: string): string {
  if (text.length <= SHOWN_MAX) return neutralise(text);
  let count = 0;
  let end = text.length;
  for (const { index } of text.matchAll(UNSAFE))
    if (++count > SHOWN_MAX) {
      end = index;
      break;
    }
  return neutralise(text.slice(0, end)) + text.slice(end).replace(UNSAFE_RUN, '\ufffd');
}

/** Removes secrets before escaping, while their shape is intact. */
export const makeSafe = (text: string, found?: Set<string>): string =>
  neutraliseMany(redact(text, found));

/** Searches the values: as JSON, hidden characters would be six times as long. */
function mayBeUnsafe(value: unknown): boolean {
  if (typeof value === 'string') return UNSAFE_ONE.test(value);
  if (value === null || typeof value !== 'object') return false;
  return Object.entries(value).some(([key, member]) => UNSAFE_ONE.test(key) || mayBeUnsafe(member));
}

function makeAllSafe(value: unknown, found: Set<string>): unknown {
  if (typeof value === 'string') return makeSafe(value, found);
  if (Array.isArray(value)) return value.map((member) => makeAllSafe(member, found));
  if (value === null || typeof value !== 'object') return value;
  // fromEntries defines members, so a key such as __proto__ stays a key.
  return Object.fromEntries(
    Object.entries(value).map(([key, member]) => [
      makeSafe(key, found),
      makeAllSafe(member, found),
    ]),
  );
}

export type ShownResult = {
  value: Record<string, unknown>;
  text: string;
  /** The kinds of secrets that were removed. */
  redacted: string[];
};

/** Returns the result as the model sees it, with its JSON text. */
export function showResult(value: Record<string, unknown>): ShownResult {
  if (!mayBeUnsafe(value)) {
    const text = JSON.stringify(value);
    if (!mayHoldSecret(text)) return { value, text, redacted: [] };
  }
  const found = new Set<string>();
  const clean = makeAllSafe(value, found) as Record<string, unknown>;
  return { value: clean, text: JSON.stringify(clean), redacted: [...found].sort() };
}

const PREVIEW_CHARS_MAX = 2_000;

/** Cuts a long text, never inside a surrogate pair. */
export function truncateText(text: string, charsMax: number = PREVIEW_CHARS_MAX): string {
  if (text.length <= charsMax) return text;
  const cut = text.slice(0, charsMax);
  return `${/[\ud800-\udbff]$/.test(cut) ? cut.slice(0, -1) : cut}…`;
}
