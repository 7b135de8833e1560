// Texts of a layer: which files count as one, and how one is merged with a person's. Pure.
import { mergeLines } from '../../platform/merge-lines.ts';

export const TEXT_BYTES_MAX = 1_048_576;

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

function decodeText(bytes: Buffer): string | undefined {
  if (bytes.length > TEXT_BYTES_MAX || bytes.includes(0)) return undefined;
  try {
    return decoder.decode(bytes);
  } catch {
    return undefined;
  }
}

/** UTF-8 of a bounded size, without NUL. */
export const isText = (bytes: Buffer): boolean => decodeText(bytes) !== undefined;

/** Returns undefined if one of them is no text, or if both sides have changed the same lines. */
export function mergeTexts(base: Buffer, ours: Buffer, theirs: Buffer): Buffer | undefined {
  const [x, y, z] = [base, ours, theirs].map(decodeText);
  if (x === undefined || y === undefined || z === undefined) return undefined;
  const merged = mergeLines(x, y, z);
  if (merged === null) return undefined;
  const bytes = Buffer.from(merged);
  return bytes.length > TEXT_BYTES_MAX ? undefined : bytes;
}
