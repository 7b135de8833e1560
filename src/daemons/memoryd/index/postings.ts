// Encodes postings: for each record its ordinal, as the distance from the one before, and a byte
// that says how often the term occurs in the text and the caption, and how long the record is.

export type Posting = { ordinal: number; weight: number };

/** The first three bits of a weight: occurrences in the text, and in the caption. */
const FREQUENCIES = [1, 2, 3, 5, 0.7, 1.4, 1.7, 2.9] as const;
const LENGTH_CLASSES = 32;
const CLASSES_PER_DOUBLING = 4;

export function weightOf(inText: number, inCaption: number, length: number): number {
  return frequencyClass(inText, inCaption) * LENGTH_CLASSES + lengthClass(length);
}

function frequencyClass(inText: number, inCaption: number): number {
  if (inText === 0) return inCaption > 1 ? 5 : 4;
  if (inCaption > 0) return inText > 1 ? 7 : 6;
  return Math.min(inText, 4) - 1;
}

function lengthClass(length: number): number {
  const exact = Math.log2(Math.max(length, 1)) * CLASSES_PER_DOUBLING;
  return Math.min(Math.round(exact), LENGTH_CLASSES - 1);
}

export const frequencyOf = (weight: number): number => FREQUENCIES[weight >> 5]!;
export const lengthOf = (weight: number): number =>
  2 ** ((weight & (LENGTH_CLASSES - 1)) / CLASSES_PER_DOUBLING);

/** Encodes postings in ascending order; distances count from `from`. */
export function encode(postings: readonly Posting[], from: number): Uint8Array {
  const bytes: number[] = [];
  let before = from;
  for (const { ordinal, weight } of postings) {
    let distance = ordinal - before;
    before = ordinal;
    while (distance > 127) {
      bytes.push((distance & 127) | 128);
      distance >>>= 7;
    }
    bytes.push(distance, weight);
  }
  return Uint8Array.from(bytes);
}

export function decode(bytes: Uint8Array, from: number): Posting[] {
  const postings: Posting[] = [];
  eachPosting(bytes, from, (ordinal, weight) => void postings.push({ ordinal, weight }));
  return postings;
}

export function eachPosting(
  bytes: Uint8Array,
  from: number,
  use: (ordinal: number, weight: number) => void,
): void {
  let ordinal = from;
  for (let at = 0; at < bytes.length; ) {
    let byte = bytes[at++]!;
    let distance = byte & 127;
    for (let shift = 7; byte > 127; shift += 7) {
      byte = bytes[at++]!;
      distance |= (byte & 127) << shift;
    }
    ordinal += distance;
    use(ordinal, bytes[at++]!);
  }
}
