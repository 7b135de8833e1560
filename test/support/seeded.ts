// Seeded randomness: the same seed gives the same choices, so that each of a million cases can be
// repeated alone.
import { createHash } from 'node:crypto';

export type Seeded = {
  /** From 0 up to and not including `n`. */
  int(n: number): number;
  chance(probability: number): boolean;
  pick<T>(list: readonly T[]): T;
  bytes(length: number): Buffer;
};

/** xoshiro128**, which passes the usual tests and has a state of four numbers. */
export function seeded(...words: (string | number)[]): Seeded {
  const digest = createHash('sha256').update(words.join('\n')).digest();
  const s = Uint32Array.from([0, 4, 8, 12], (at) => digest.readUInt32LE(at));
  const rotated = (x: number, k: number): number => (x << k) | (x >>> (32 - k));
  const next = (): number => {
    const result = Math.imul(rotated(Math.imul(s[1]!, 5), 7), 9) >>> 0;
    const t = s[1]! << 9;
    s[2]! ^= s[0]!;
    s[3]! ^= s[1]!;
    s[1]! ^= s[2]!;
    s[0]! ^= s[3]!;
    s[2]! ^= t;
    s[3] = rotated(s[3]!, 11);
    return result;
  };
  const int = (n: number): number => next() % Math.max(1, n);
  return {
    int,
    chance: (probability) => next() / 2 ** 32 < probability,
    pick: (list) => list[int(list.length)]!,
    bytes: (length) => Buffer.from(Array.from({ length }, () => next() & 255)),
  };
}
