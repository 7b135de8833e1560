// What a model may be shown of a result: no secrets of a known shape, no control or bidirectional
// characters that could hide text or steer a terminal, and no more bytes than the limit. Storing
// what is too large is left to the service.
import { mayHoldSecret, redact } from './secrets.ts';

/**
 * C0 but tab and line ends, DEL, C1, bidirectional marks and overrides, line separators, tag
 * characters.
 */
const BEYOND_C0 =
  '\\u007f-\\u009f\\u061c\\u200e\\u200f\\u2028-\\u202e\\u2066-\\u2069\\u{e0000}-\\u{e007f}';
const UNSAFE = new RegExp(`[\\u0000-\\u0008\\v\\f\\u000e-\\u001f${BEYOND_C0}]`, 'gu');
/** The same as it shows in JSON text, where C0 is written as an escape. */
const MAY_BE_UNSAFE = new RegExp(`\\\\[bfu]|[${BEYOND_C0}]`, 'u');

const shown = (c: string): string =>
  `[U+${c.codePointAt(0)!.toString(16).toUpperCase().padStart(4, '0')}]`;

export function neutralise(text: string): string {
  return text.replace(UNSAFE, shown);
}

/** A text from anywhere as it may be shown. Secrets go first, while their shape is whole. */
export const makeSafe = (text: string, found?: Set<string>): string =>
  neutralise(redact(text, found));

function makeAllSafe(value: unknown, found: Set<string>): unknown {
  if (typeof value === 'string') return makeSafe(value, found);
  if (Array.isArray(value)) return value.map((one) => makeAllSafe(one, found));
  if (value === null || typeof value !== 'object') return value;
  // fromEntries defines members, so a key such as __proto__ stays a key.
  return Object.fromEntries(
    Object.entries(value).map(([key, member]) => [makeSafe(key), makeAllSafe(member, found)]),
  );
}

export type Shown = {
  value: Record<string, unknown>;
  text: string;
  /** The kinds of secrets that were taken out. */
  redacted: string[];
};

/** A result as the model will see it, with its JSON text. */
export function showResult(value: Record<string, unknown>): Shown {
  const text = JSON.stringify(value);
  if (!MAY_BE_UNSAFE.test(text) && !mayHoldSecret(text)) return { value, text, redacted: [] };
  const found = new Set<string>();
  const clean = makeAllSafe(value, found) as Record<string, unknown>;
  return { value: clean, text: JSON.stringify(clean), redacted: [...found].sort() };
}

const PREVIEW_CHARS_MAX = 2_000;

/** The first part of a long text, never half a character. */
export function previewOf(text: string, charsMax: number = PREVIEW_CHARS_MAX): string {
  if (text.length <= charsMax) return text;
  const cut = text.slice(0, charsMax);
  return `${/[\ud800-\udbff]$/.test(cut) ? cut.slice(0, -1) : cut}…`;
}
