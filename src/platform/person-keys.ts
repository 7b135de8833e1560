// Reads the keys of individual people, one file per person. A caller with only the operator's key
// may claim any name except one that has a personal key.
import { createHash, timingSafeEqual } from 'node:crypto';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';

export type PersonKeys = {
  /** Returns the name of the key's owner. */
  findName(key: string): string | undefined;
  /** True if this person has a personal key. */
  has(name: string): boolean;
  /** The names of all people with a personal key. */
  names(): string[];
};

export const PERSON_NAME = /^[A-Za-z0-9][A-Za-z0-9@._-]{0,63}$/;
const KEY_CHARS_MIN = 32;
/** An added or removed key takes effect within this time. */
const CACHE_MS_MAX = 500;

const digest = (text: string) => createHash('sha256').update(text).digest();

export function openPersonKeys(dir: string): PersonKeys {
  let known = new Map<string, Buffer>();
  let readAt = Number.NEGATIVE_INFINITY;
  const keys = (): Map<string, Buffer> => {
    if (performance.now() - readAt > CACHE_MS_MAX) {
      known = readKeys(dir);
      readAt = performance.now();
    }
    return known;
  };
  return {
    findName(key) {
      const sent = digest(key);
      let found: string | undefined;
      // All keys are compared, so that the time does not depend on which one matches.
      for (const [name, expected] of keys()) if (timingSafeEqual(sent, expected)) found = name;
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
function readKey(file: string): Buffer {
  const noKey = Buffer.alloc(32);
  try {
    if ((statSync(file).mode & 0o077) !== 0) return noKey;
    const text = readFileSync(file, 'utf8').trim();
    return text.length < KEY_CHARS_MIN ? noKey : digest(text);
  } catch {
    return noKey;
  }
}
