// Makes ids: a kind, then 26 base32 characters that sort by creation time (ULID, lowercase).
import { createHash, randomBytes } from 'node:crypto';
import type { Clock } from './clock.ts';

const ALPHABET = '0123456789abcdefghjkmnpqrstvwxyz';

export type Random = (bytes: number) => Uint8Array;
export type NewId = <T extends string>(kind: string) => T;

/**
 * Encodes 16 bytes. They are 128 bits, and 26 characters have 130, so the first character carries
 * only 3 bits.
 */
function encode(bytes: Uint8Array): string {
  let text = ALPHABET[bytes[0]! >> 5]!;
  let bits = 5;
  let rest = bytes[0]! & 31;
  for (let i = 1; ; ) {
    while (bits >= 5) {
      bits -= 5;
      text += ALPHABET[(rest >> bits) & 31];
    }
    if (i === 16) return text;
    rest = ((rest & 31) << 8) | bytes[i++]!;
    bits += 8;
  }
}

/** Adds one to the last ten bytes; the top bit of the first of them is free for the carry. */
function increment(bytes: Uint8Array): void {
  for (let i = 15; i >= 6; i--) {
    bytes[i] = (bytes[i]! + 1) & 255;
    if (bytes[i] !== 0) return;
  }
}

const RANDOM_BYTES = 10;
/** Random bytes are drawn for this many ids at once: the call costs more than the bytes. */
const POOL_IDS = 64;

function poolRandom(random: Random): () => Uint8Array {
  let pool: Uint8Array = new Uint8Array(0);
  let at = 0;
  return () => {
    if (at === pool.length) {
      pool = random(RANDOM_BYTES * POOL_IDS);
      at = 0;
    }
    at += RANDOM_BYTES;
    return pool.subarray(at - RANDOM_BYTES, at);
  };
}

/** The ids of one maker increase strictly, also within a millisecond. */
export function makeIdMaker(clock: Clock, random: Random = randomBytes): NewId {
  const bytes = new Uint8Array(16);
  const nextRandom = poolRandom(random);
  let lastMs = -1;
  return <T extends string>(kind: string): T => {
    const ms = clock.nowMs();
    if (ms > lastMs) {
      lastMs = ms;
      bytes.set(nextRandom(), 6);
      bytes[6]! &= 127; // for the carry of increments
      let head = ms;
      for (let i = 5; i >= 0; i--, head = Math.floor(head / 256)) bytes[i] = head % 256;
    } else increment(bytes);
    return `${kind}_${encode(bytes)}` as T;
  };
}

const TIME_CHARACTERS = 10;

/** Returns when the id was made, in ms; for a derived id, any number. */
export function readIdTime(id: string): number {
  const start = id.indexOf('_') + 1;
  let ms = 0;
  for (const character of id.slice(start, start + TIME_CHARACTERS))
    ms = ms * 32 + ALPHABET.indexOf(character);
  return ms;
}

/** Derives an id from these parts: equal parts give equal ids. */
export function deriveId<T extends string>(kind: string, ...parts: (string | number)[]): T {
  const digest = createHash('sha256').update(parts.join('\n')).digest();
  return `${kind}_${encode(digest.subarray(0, 16))}` as T;
}
