// Reads the keys of individual people, one file per person. A caller with only the operator's key
// may claim any name except one that has a personal key.
import { createHash, timingSafeEqual } from 'node:crypto';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { type Caller, PERSON_ROLES, type PersonRole } from '../wire/caller.ts';

export type PersonKeys = {
  /** Returns the key's owner. */
  find(key: string): Person | undefined;
  /** True if this person has a personal key. */
  has(name: string): boolean;
  /** The names of all people with a personal key. */
  names(): string[];
  /** Returns the role of a person; undefined without a valid key. */
  findRole(name: string): PersonRole | undefined;
};

type Person = { name: string; role: PersonRole };
type PersonKey = { digest: Buffer; role: PersonRole | undefined };

export const PERSON_NAME = /^[A-Za-z0-9][A-Za-z0-9@._-]{0,63}$/;
/** Precedes the name in the key of an OperatorCaller. */
const KEY_PREFIX = 'people/';
const KEY_CHARS_MIN = 32;
/** An added or removed key takes effect within this time. */
const CACHE_MS_MAX = 500;

/** The person whose own key a caller used. */
export function findKeyOwner(caller: Caller): string | undefined {
  const key = caller.kind === 'operator' ? caller.key : undefined;
  return key?.startsWith(KEY_PREFIX) ? key.slice(KEY_PREFIX.length) : undefined;
}

const digest = (text: string) => createHash('sha256').update(text).digest();

export function openPersonKeys(dir: string): PersonKeys {
  let known = new Map<string, PersonKey>();
  let readAt = Number.NEGATIVE_INFINITY;
  const keys = (): Map<string, PersonKey> => {
    if (performance.now() - readAt > CACHE_MS_MAX) {
      known = readKeys(dir);
      readAt = performance.now();
    }
    return known;
  };
  return {
    find(key) {
      const sent = digest(key);
      let found: Person | undefined;
      // All keys are compared, so that the time does not depend on which one matches.
      for (const [name, { digest: expected, role }] of keys())
        if (timingSafeEqual(sent, expected) && role !== undefined) found = { name, role };
      return found;
    },
    has: (name) => keys().has(name),
    names: () => [...keys().keys()].sort(),
    findRole: (name) => keys().get(name)?.role,
  };
}

function readKeys(dir: string): Map<string, PersonKey> {
  const keys = new Map<string, PersonKey>();
  let files: string[];
  try {
    files = readdirSync(dir);
  } catch (error) {
    // There are no personal keys yet. Any other error must not free the names that have one.
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return keys;
    throw error;
  }
  for (const file of files) {
    const name = file.replace(/\.key$/, '');
    if (name === file || !PERSON_NAME.test(name)) continue;
    keys.set(name, readKey(join(dir, file)));
  }
  return keys;
}

/** A file that others can read, or without a key, matches no key; its name stays reserved. */
function readKey(file: string): PersonKey {
  const noKey = { digest: Buffer.alloc(32), role: undefined };
  try {
    if ((statSync(file).mode & 0o077) !== 0) return noKey;
    const { key, role } = parsePersonKey(readFileSync(file, 'utf8'));
    return key.length < KEY_CHARS_MIN ? noKey : { digest: digest(key), role };
  } catch {
    return noKey;
  }
}

/** Parses a key file: the key, then perhaps a line with the role. A damaged line is no role. */
function parsePersonKey(text: string): { key: string; role: PersonRole | undefined } {
  const [key = '', line, ...more] = text.trim().split('\n');
  if (line === undefined) return { key: key.trim(), role: 'operator' };
  const role = PERSON_ROLES.find((known) => line.trim() === `role: ${known}`);
  return { key: key.trim(), role: more.length === 0 ? role : undefined };
}
