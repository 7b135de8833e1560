// Owns verified.json: how far the last verification of this log came, so that the next one hashes
// only what came since. It is not signed: a process that can change the log can change it. It makes
// verification fast, and a verification of everything does not believe it.
import { randomBytes } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import type { ArchivedSegment } from './archived-file.ts';
import { CompactRange, type RangeHashes } from './compact-range.ts';
import { readFileIfExists } from './disk.ts';
import { type FileStamp, isSameFile, isUnchanged } from './file-stamp.ts';
import { parseCheckpoint, parseNote, parseVkey } from './note.ts';
import type { WalkPosition } from './segment-walk.ts';

export const VERIFIED_FILE = 'verified.json';

const FORMAT = 1;

/** A log up to a signed checkpoint, as a verification found it. */
export type VerifiedLog = {
  format: typeof FORMAT;
  verified_at: string;
  /** When every event was last hashed. */
  full_at: string;
  /** The signed checkpoint. */
  note: string;
  /** The subtree hashes of the events it covers: the tree can grow from them. */
  range: RangeHashes;
  /** The keys that signed, in the order they took over. */
  keys: string[];
  /** Where the events after the checkpoint begin. */
  position: WalkPosition;
  /** The segment of that position, and the ones before it. */
  segment: FileStamp;
  earlier_segments: FileStamp[];
  /** checkpoints.log as far as it was checked; null if there was none. */
  checkpoints: FileStamp | null;
};

/** Returns undefined if there is no such file. Throws if it cannot be used. */
export function readVerified(dir: string): VerifiedLog | undefined {
  const text = readFileIfExists(path.join(dir, VERIFIED_FILE));
  if (text === undefined) return undefined;
  const value = JSON.parse(text) as VerifiedLog;
  if (value.format !== FORMAT) throw new Error(`format ${value.format} is unknown`);
  const { size, root } = parseCheckpoint(parseNote(value.note).text);
  const range = CompactRange.parse(value.range);
  if (range.first !== 0 || range.size !== size || !range.root().equals(root))
    throw new Error('its hashes are not those of its checkpoint');
  for (const key of value.keys) parseVkey(key);
  const isPlaced = [value.position.first, value.position.offset].every(Number.isSafeInteger);
  if (!isPlaced || !Array.isArray(value.earlier_segments)) throw new Error('a field is missing');
  return value;
}

/**
 * Creates the file under a name that cannot exist and renames it, so that no link that waits in
 * the directory is followed.
 */
export function writeVerified(dir: string, verified: VerifiedLog): void {
  const file = path.join(dir, VERIFIED_FILE);
  const temporary = `${file}.${randomBytes(8).toString('hex')}`;
  try {
    fs.writeFileSync(temporary, `${JSON.stringify(verified)}\n`, { flag: 'wx', mode: 0o640 });
    fs.renameSync(temporary, file);
  } catch (cause) {
    fs.rmSync(temporary, { force: true });
    throw cause;
  }
}

/** Returns why the segments are not those that were verified, or undefined if they are. */
export function findChangedSegment(
  verified: VerifiedLog,
  walk: { stamps: readonly FileStamp[]; startIndex: number },
  archived: readonly ArchivedSegment[],
): string | undefined {
  const earlier = walk.stamps.slice(0, Math.max(0, walk.startIndex));
  const known = new Map(verified.earlier_segments.map((stamp) => [stamp.name, stamp]));
  for (const stamp of earlier) {
    const before = known.get(stamp.name);
    if (before === undefined || !isUnchanged(stamp, before))
      return `${stamp.name} changed since it was verified`;
    known.delete(stamp.name);
  }
  for (const { segment } of archived) known.delete(segment);
  for (const name of known.keys()) return `${name}, which was verified, is missing`;
  const start = walk.stamps[walk.startIndex];
  if (start === undefined || !isSameFile(start, verified.segment))
    return `${start?.name ?? verified.segment.name} is not the file that was verified`;
  if (start.size_bytes < verified.position.offset) return `${start.name} became shorter`;
  return undefined;
}
