// New ids: a kind, then 26 base32 characters that sort by time of making (ULID, lowercase).
import { createHash, randomBytes } from 'node:crypto';
import type { Clock } from './clock.ts';

const ALPHABET = '0123456789abcdefghjkmnpqrstvwxyz';

export type Random = (bytes: number) => Uint8Array;
export type NewId = <T extends string>(kind: string) => T;

function encode(bytes: Uint8Array): string {
  // 16 bytes are 128 bits; 26 characters hold 130, so the first character carries only 3 bits.
  let value = 0n;
  for (const byte of bytes) value = (value << 8n) | BigInt(byte);
  let text = '';
  for (let i = 0; i < 26; i++) {
    text = ALPHABET[Number(value & 31n)] + text;
    value >>= 5n;
  }
  return text;
}

/** Ids of one maker grow strictly, also within a millisecond. */
export function idMaker(clock: Clock, random: Random = randomBytes): NewId {
  let lastMs = -1;
  let tail = 0n;
  return <T extends string>(kind: string): T => {
    const ms = clock.nowMs();
    if (ms > lastMs) {
      lastMs = ms;
      tail = 0n;
      for (const byte of random(10)) tail = (tail << 8n) | BigInt(byte);
      tail &= (1n << 79n) - 1n; // room to count up
    } else {
      tail += 1n;
    }
    const bytes = new Uint8Array(16);
    let head = BigInt(lastMs);
    for (let i = 5; i >= 0; i--, head >>= 8n) bytes[i] = Number(head & 255n);
    let rest = tail;
    for (let i = 15; i >= 6; i--, rest >>= 8n) bytes[i] = Number(rest & 255n);
    return `${kind}_${encode(bytes)}` as T;
  };
}

/** The id that always follows from these words: the same words, the same id. */
export function derivedId<T extends string>(kind: string, ...words: (string | number)[]): T {
  const digest = createHash('sha256').update(words.join('\n')).digest();
  return `${kind}_${encode(digest.subarray(0, 16))}` as T;
}
