// Decodes what a layer stands over, as boxfs finds it (native/boxfs/originals.c): files of the
// lower directory, and the inodes of directories.
import { type Fields, frame, OP, u16, u32 } from './boxfs-wire.ts';

/** A file of the lower directory, in whose place the upper one has a file. */
export type CoveredFile = { path: string; mode: number; sizeBytes: number; changedNs: bigint };

/** `isCut`: there are more. */
export type CoveredFiles = { files: CoveredFile[]; isCut: boolean };

/** By path; only those on the device of the top. */
export type DirectoryInodes = { inodes: Map<string, bigint>; isCut: boolean };

export const encodeCovered = (
  id: number,
  [upper, lower]: readonly [number, number],
  max: number,
): Buffer => frame(OP.covered, id, [u16(upper), u16(lower), u32(max)]);

export const encodeDirectories = (id: number, root: number, max: number): Buffer =>
  frame(OP.directories, id, [u16(root), u32(max)]);

export function decodeCovered(fields: Fields): CoveredFiles {
  const isCut = fields.u8() === 1;
  const files = Array.from({ length: fields.u32() }, () => {
    const mode = fields.u32();
    const sizeBytes = Math.min(fields.u64(), Number.MAX_SAFE_INTEGER);
    const changedNs = fields.bigint();
    return { path: fields.path(), mode, sizeBytes, changedNs };
  });
  return { files, isCut };
}

export function decodeDirectories(fields: Fields): DirectoryInodes {
  const isCut = fields.u8() === 1;
  const inodes = Array.from({ length: fields.u32() }, () => {
    const inode = fields.bigint();
    return [fields.path(), inode] as const;
  });
  return { inodes: new Map(inodes), isCut };
}
