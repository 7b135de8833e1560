// Encodes pages of a copy of a directory, and decodes what was copied (native/boxfs/copy.c); gives
// files to the owner of a directory (native/boxfs/give.c).
import { type Fields, frame, OP, pathField, type RootedPath, u16, u32, u64 } from './boxfs-wire.ts';

/** `after`: the last path of the page before; the limits are for this page. */
export type CopyPage = { after: string; bytesMax: number; entriesMax: number };

export type CopiedPage = {
  /** The `after` of the next page; null: this was the last one. */
  next: string | null;
  /** It has more than the limits allow, and is not whole. */
  isOver: boolean;
  entries: number;
  /** Could not be read, or are neither files, directories nor links. */
  leftOut: number;
  /** Files that share their blocks with the original. */
  cloned: number;
  bytes: number;
};

/** Roots of the original, the copy, and the record. */
export const encodeCopy = (
  id: number,
  roots: readonly [number, number, number],
  { after, bytesMax, entriesMax }: CopyPage,
): Buffer =>
  frame(OP.copy, id, [...roots.map(u16), u64(bytesMax), u32(entriesMax), pathField(after)]);

export const encodeGive = (id: number, { root, path }: RootedPath): Buffer =>
  frame(OP.give, id, [u16(root), pathField(path)]);

export function decodeCopied(fields: Fields): CopiedPage {
  const [more, over] = [fields.u8() === 1, fields.u8() === 1];
  const [entries, leftOut, cloned] = [fields.u32(), fields.u32(), fields.u32()];
  const bytes = fields.u64();
  const last = fields.path();
  return { next: more ? last : null, isOver: over, entries, leftOut, cloned, bytes };
}
