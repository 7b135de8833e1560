// JSON as it crosses boundaries: strict UTF-8, bounded depth, one canonical form for hashing.
import { hash } from 'node:crypto';
import { fault } from '../wire/errors.ts';

const DEPTH_MAX = 64;
const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

export function decodeUtf8(bytes: Uint8Array): string {
  try {
    return decoder.decode(bytes);
  } catch (cause) {
    throw fault('bad_json', 'the body is not valid UTF-8', { cause });
  }
}

/** Returns the index after the string that starts at `from`, or the end if it is not closed. */
export function skipString(text: string, from: number): number {
  for (let at = from; ; ) {
    const end = text.indexOf('"', at);
    if (end < 0) return text.length;
    let slashes = 0;
    while (text.charCodeAt(end - 1 - slashes) === 92 && end - 1 - slashes >= from) slashes++;
    at = end + 1;
    if (slashes % 2 === 0) return at;
  }
}

/** Counts brackets before parsing, so that a deep body cannot exhaust the stack. */
function assertDepth(text: string, name: string): void {
  let depth = 0;
  for (let i = 0; i < text.length; i++) {
    const c = text.charCodeAt(i);
    if (c === 34) i = skipString(text, i + 1) - 1;
    else if (c === 123 || c === 91) {
      if (++depth > DEPTH_MAX)
        throw fault('too_deep', `${name} nests deeper than ${DEPTH_MAX} levels`);
    } else if (c === 125 || c === 93) depth--;
  }
}

/** `name` describes the text in faults. */
export function parseJson(text: string, name = 'the body'): unknown {
  assertDepth(text, name);
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw fault('bad_json', `${name} is not JSON: ${(cause as Error).message}`, { cause });
  }
}

/** Sorts members and leaves out spaces and `undefined`: equal values give equal text. */
export function canonicalJson(value: unknown): string {
  if (value === null || typeof value !== 'object') return JSON.stringify(value) ?? 'null';
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(',')}]`;
  const members: string[] = [];
  for (const key of Object.keys(value).sort()) {
    const member = (value as Record<string, unknown>)[key];
    if (member !== undefined) members.push(`${JSON.stringify(key)}:${canonicalJson(member)}`);
  }
  return `{${members.join(',')}}`;
}

export function sha256Hex(data: string | Uint8Array): string {
  return hash('sha256', data, 'hex');
}

export function hashJson(value: unknown): string {
  return sha256Hex(canonicalJson(value));
}
