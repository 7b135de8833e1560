// Changes top-level members in a JSON object's text and leaves every other byte unchanged: numbers
// keep their digits, unknown members their order and spelling. The text must be valid JSON.
import { skipString } from '../../../platform/json.ts';
import type { JsonObject } from './reading.ts';

const QUOTE = 34;
const COMMA = 44;

type Member = { key: string; from: number; to: number };

/** Returns the index after the value that starts at `at`. */
function skipValue(text: string, at: number): number {
  let depth = 0;
  for (let i = at; i < text.length; i++) {
    const c = text.charCodeAt(i);
    if (c === QUOTE) i = skipString(text, i + 1) - 1;
    else if (c === 123 || c === 91) depth++;
    else if (c === 125 || c === 93) {
      if (depth === 0) return i;
      depth--;
    } else if (c === COMMA && depth === 0) return i;
  }
  return text.length;
}

const isSpace = (c: number): boolean => c === 32 || c === 10 || c === 13 || c === 9;

function skipSpace(text: string, at: number): number {
  let i = at;
  while (isSpace(text.charCodeAt(i))) i++;
  return i;
}

/** Returns the ranges of the members' values in order. A key may occur twice. */
function findMembers(text: string): { members: Member[]; open: number } {
  const open = text.indexOf('{');
  const members: Member[] = [];
  let at = skipSpace(text, open + 1);
  while (text.charCodeAt(at) === QUOTE) {
    const keyEnd = skipString(text, at + 1);
    // A key may be spelled with escapes, which the provider would decode.
    const key = JSON.parse(text.slice(at, keyEnd)) as string;
    const from = skipSpace(text, text.indexOf(':', keyEnd) + 1);
    const end = skipValue(text, from);
    let to = end;
    while (isSpace(text.charCodeAt(to - 1))) to--;
    members.push({ key, from, to });
    if (text.charCodeAt(end) !== COMMA) break;
    at = skipSpace(text, end + 1);
  }
  return { members, open };
}

/** Sets these members. Every occurrence of a key is changed; new keys go first. */
export function spliceJson(text: string, changes: JsonObject): string {
  const { members, open } = findMembers(text);
  const missing = new Set(Object.keys(changes));
  let out = '';
  let kept = 0;
  for (const { key, from, to } of members) {
    if (!Object.hasOwn(changes, key)) continue;
    out += text.slice(kept, from) + JSON.stringify(changes[key]);
    kept = to;
    missing.delete(key);
  }
  out += text.slice(kept);
  if (missing.size === 0) return out;
  const added = [...missing].map((key) => `${JSON.stringify(key)}:${JSON.stringify(changes[key])}`);
  const comma = members.length > 0 ? ',' : '';
  return `${out.slice(0, open + 1)}${added.join(',')}${comma}${out.slice(open + 1)}`;
}
