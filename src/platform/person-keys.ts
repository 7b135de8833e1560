// Keys of single people: one file per person, so that two people can be told apart. Whoever holds
// only the operator's key may call themselves what they like, but not by the name of one of these.
import { createHash, timingSafeEqual } from 'node:crypto';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';

export type PersonKeys = {
  /** Whose key this is. */
  nameOf(key: string): string | undefined;
  /** Whether this person has a key of their own. */
  has(name: string): boolean;
  /** Everybody who has a key of their own. */
  names(): string[];
};

export const PERSON_NAME = /^[A-Za-z0-9][A-Za-z0-9@._-]{0,63}$/;
const KEY_CHARS_MIN = 32;
/** A key that was added or removed counts at the latest after this time. */
const KNOWN_FOR_MS = 500;

const digest = (text: string) => createHash('sha256').update(text).digest();

export function peopleIn(dir: string): PersonKeys {
  let known = new Map<string, Buffer>();
  let readAt = Number.NEGATIVE_INFINITY;
  const keys = (): Map<string, Buffer> => {
    if (performance.now() - readAt > KNOWN_FOR_MS) {
      known = readKeys(dir);
      readAt = performance.now();
    }
    return known;
  };
  return {
    nameOf(key) {
      const given = digest(key);
      let found: string | undefined;
      // All are compared, so that the time taken says nothing.
      for (const [name, expected] of keys()) if (timingSafeEqual(given, expected)) found = name;
      return found;
    },
    has: (name) => keys().has(name),
    names: () => [...keys().keys()].sort(),
  };
}

function readKeys(dir: string): Map<string, Buffer> {
  const keys = new Map<string, Buffer>();
  let files: string[];
  try {
    files = readdirSync(dir);
  } catch (error) {
    // Nobody has a key of their own yet. Any other failure must not free the names of those who do.
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

/** What others can read, or what is no key, belongs to nobody; the name stays taken. */
function readKey(file: string): Buffer {
  const nobody = Buffer.alloc(32);
  try {
    if ((statSync(file).mode & 0o077) !== 0) return nobody;
    const text = readFileSync(file, 'utf8').trim();
    return text.length < KEY_CHARS_MIN ? nobody : digest(text);
  } catch {
    return nobody;
  }
}
