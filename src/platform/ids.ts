// New ids: a kind, then 26 base32 characters that sort by time of making (ULID, lowercase).
import { createHash, randomBytes } from 'node:crypto';
import type { Clock } from './clock.ts';

const ALPHABET = '0123456789abcdefghjkmnpqrstvwxyz';

export type Random = (bytes: number) => Uint8Array;
export type NewId = <T extends string>(kind: string) => T;

/**
 * 16 bytes are 128 bits; 26 characters hold 130, so the first character carries only 3 bits. Five
 * bytes at a time are eight characters.
 */
function encode(bytes: Uint8Array): string {
  let text = ALPHABET[bytes[0]! >> 5]!;
  let bits = 5;
  let left = bytes[0]! & 31;
  for (let i = 1; ; ) {
    while (bits >= 5) {
      bits -= 5;
      text += ALPHABET[(left >> bits) & 31];
    }
    if (i === 16) return text;
    left = ((left & 31) << 8) | bytes[i++]!;
    bits += 8;
  }
}

/** Counts the last ten bytes up by one; the first of them has room for it. */
function countUp(bytes: Uint8Array): void {
  for (let i = 15; i >= 6; i--) {
    bytes[i] = (bytes[i]! + 1) & 255;
    if (bytes[i] !== 0) return;
  }
}

const RANDOM_BYTES = 10;
/** So many are asked for at once: asking costs more than the bytes. */
const ASKED_TIMES = 64;

function inPortions(random: Random): () => Uint8Array {
  let pool: Uint8Array = new Uint8Array(0);
  let at = 0;
  return () => {
    if (at === pool.length) {
      pool = random(RANDOM_BYTES * ASKED_TIMES);
      at = 0;
    }
    at += RANDOM_BYTES;
    return pool.subarray(at - RANDOM_BYTES, at);
  };
}

/** Ids of one maker grow strictly, also within a millisecond. */
export function idMaker(clock: Clock, random: Random = randomBytes): NewId {
  const bytes = new Uint8Array(16);
  const nextRandom = inPortions(random);
  let lastMs = -1;
  return <T extends string>(kind: string): T => {
    const ms = clock.nowMs();
    if (ms > lastMs) {
      lastMs = ms;
      bytes.set(nextRandom(), 6);
      bytes[6]! &= 127; // room to count up
      let head = ms;
      for (let i = 5; i >= 0; i--, head = Math.floor(head / 256)) bytes[i] = head % 256;
    } else countUp(bytes);
    return `${kind}_${encode(bytes)}` as T;
  };
}

/** The id that always follows from these words: the same words, the same id. */
export function derivedId<T extends string>(kind: string, ...words: (string | number)[]): T {
  const digest = createHash('sha256').update(words.join('\n')).digest();
  return `${kind}_${encode(digest.subarray(0, 16))}` as T;
}
