// Recovers a log at open: finds its end, compares it with the newest checkpoint, cuts off a torn
// tail and updates the tree files. Refuses a log that lost or changed signed events. Hashes signed
// events again only if the tree files are wrong; verify.ts always does.
import fs from 'node:fs';
import path from 'node:path';
import type { Fault } from '../../../wire/errors.ts';
import { type ArchivedSegment, archivedEnd, readArchived } from './archived-file.ts';
import type { CompactRange } from './compact-range.ts';
import { damageFault } from './damage.ts';
import { type LogDisk, replaceFile, syncDir } from './disk.ts';
import type { LevelFiles } from './level-files.ts';
import { EMPTY_ROOT, hashLeafAt, type RawHash, type TreeHead } from './merkle.ts';
import { findPart, type LogPart, withFile } from './reader.ts';
import { checkArchived, restoreTree } from './rebuild-tree.ts';
import {
  CURRENT_SEGMENT,
  findOffset,
  LineCursor,
  listSealed,
  NEXT_SEGMENT,
  readLastLine,
  readSeq,
} from './segments.ts';

export type CutTail = { file: string; seq: number; sizeBytes: number };

/** Lists the segments from event `first` on in order, the current one last. Throws on a gap. */
function listParts(dir: string, first: number): LogPart[] {
  fs.rmSync(path.join(dir, NEXT_SEGMENT), { force: true });
  const current = path.join(dir, CURRENT_SEGMENT);
  fs.closeSync(fs.openSync(current, 'a', 0o640));
  const parts: LogPart[] = [];
  let expected = first;
  for (const sealed of listSealed(dir)) {
    if (sealed.firstSeq < first) continue;
    const sizeBytes = fs.statSync(sealed.path).size;
    if (sealed.firstSeq !== expected) throw missingSegmentFault(expected, sealed.name);
    const last = withFile(sealed.path, (fd) => readLastLine(fd, sizeBytes));
    if (last === undefined || last.seq < sealed.firstSeq || last.endOffset !== sizeBytes) {
      throw damageFault(
        'changed',
        `the sealed segment ${sealed.name} does not end with a whole event`,
      );
    }
    if ((fs.statSync(sealed.path).mode & 0o777) !== 0o440) fs.chmodSync(sealed.path, 0o440);
    parts.push({ ...sealed, sizeBytes });
    expected = last.seq + 1;
  }
  const sizeBytes = fs.statSync(current).size;
  const found = withFile(current, readFirstSeq);
  if (found !== undefined && found !== expected)
    throw missingSegmentFault(expected, CURRENT_SEGMENT);
  parts.push({ name: CURRENT_SEGMENT, path: current, firstSeq: expected, sizeBytes });
  return parts;
}

function missingSegmentFault(expected: number, name: string): Fault {
  const message = `event ${expected} should be the first of ${name}, or its segment is missing`;
  return damageFault('segment_missing', message, { seq: expected });
}

/** Returns the seq of the first line if it is whole and has one. */
function readFirstSeq(fd: number): number | undefined {
  const cursor = new LineCursor(fd, { chunkBytes: 1 << 16 });
  if (!cursor.next() || !cursor.isTerminated) return undefined;
  const seq = readSeq(cursor.buf, cursor.start, cursor.end);
  return seq < 0 ? undefined : seq;
}

type SegmentOffset = { part: number; offset: number };

/** Returns where the first unsigned line begins. */
function findUnsigned(parts: readonly LogPart[], signedSize: number): SegmentOffset {
  if (signedSize === parts[0]!.firstSeq) return { part: 0, offset: 0 };
  const index = findPart(parts, signedSize - 1);
  const { path: file, sizeBytes } = parts[index]!;
  const offset = withFile(file, (fd) => {
    const last = findOffset(fd, sizeBytes, signedSize - 1);
    if (last < 0) return -1;
    const cursor = new LineCursor(fd, { from: last, to: sizeBytes, chunkBytes: 1 << 16 });
    cursor.next();
    return cursor.endOffset;
  });
  if (offset >= 0) return { part: index, offset };
  const message = `event ${signedSize - 1} is missing: the log is shorter than its checkpoint`;
  throw damageFault('truncated', `${message} of ${signedSize} events`, { signed_size: signedSize });
}

type Tail = { leaves: RawHash[]; lines: string[]; cutAt: number | undefined };

/** Reads the unsigned lines: about a second's worth, unless signing failed. */
function readTail(parts: readonly LogPart[], start: SegmentOffset, firstSeq: number): Tail {
  const tail: Tail = { leaves: [], lines: [], cutAt: undefined };
  for (let at = start.part; at < parts.length; at += 1) {
    const part = parts[at]!;
    const isLast = at === parts.length - 1;
    withFile(part.path, (fd) => {
      const cursor = new LineCursor(fd, { from: at === start.part ? start.offset : 0 });
      while (tail.cutAt === undefined && cursor.next()) {
        const seq = firstSeq + tail.leaves.length;
        const text = cursor.line();
        if (isWholeLine(cursor, text, seq)) {
          tail.leaves.push(hashLeafAt(cursor.buf, cursor.start, cursor.end));
          tail.lines.push(text);
        } else if (isLast && (!cursor.isTerminated || text.includes('\0'))) {
          // An interrupted write leaves half a line or blocks that never reached the disk.
          tail.cutAt = cursor.offset;
        } else {
          throw damageFault('changed', `event ${seq} in ${part.name} is not as it was written`, {
            seq,
          });
        }
      }
    });
  }
  return tail;
}

function isWholeLine(cursor: LineCursor, text: string, seq: number): boolean {
  if (!cursor.isTerminated || readSeq(cursor.buf, cursor.start, cursor.end) !== seq) return false;
  try {
    return typeof JSON.parse(text) === 'object';
  } catch {
    return false;
  }
}

/** Leaf hashes are written only after their events are durable, so extra ones prove a loss. */
function checkLeafHashes(levels: LevelFiles, size: number): void {
  const known = levels.count(0);
  if (known <= size || !levels.fits(known) || !levels.isConsistent()) return;
  const message = `tree/L00 knows ${known} acknowledged events and the log has ${size}`;
  throw damageFault('truncated', message, { size, known_size: known });
}

function cutOff(dir: string, part: LogPart, at: { offset: number; seq: number }, disk: LogDisk) {
  const bytes = fs.readFileSync(part.path).subarray(at.offset);
  const kept = path.join(dir, 'recovered');
  fs.mkdirSync(kept, { recursive: true, mode: 0o700 });
  const stem = `audit-${String(at.seq).padStart(12, '0')}`;
  let file = path.join(kept, `${stem}.cut`);
  for (let n = 1; fs.existsSync(file); n += 1) file = path.join(kept, `${stem}-${n}.cut`);
  replaceFile(disk, { path: file, contents: bytes, mode: 0o600 });
  syncDir(dir);
  fs.truncateSync(part.path, at.offset);
  part.sizeBytes = at.offset;
  return { file, seq: at.seq, sizeBytes: bytes.length };
}

export type RecoveredLog = {
  parts: LogPart[];
  archived: ArchivedSegment[];
  edge: CompactRange;
  cut: CutTail | undefined;
  /** The lines that no checkpoint covered. */
  unsignedLines: string[];
};

export function recoverLog(
  dir: string,
  {
    levels,
    checkpoint,
    disk,
  }: { levels: LevelFiles; checkpoint: TreeHead | undefined; disk: LogDisk },
): RecoveredLog {
  const archived = readArchived(dir);
  const first = archivedEnd(archived);
  const parts = listParts(dir, first);
  if (checkpoint === undefined && parts.some(({ sizeBytes }) => sizeBytes > 0)) {
    throw damageFault('no_checkpoint', `the log in ${dir} has events and no checkpoint`);
  }
  const signed = checkpoint ?? { size: 0, root: EMPTY_ROOT };
  if (first > signed.size) {
    const message = `${first} events are archived, and the checkpoint covers ${signed.size}`;
    throw damageFault('truncated', message, { signed_size: signed.size });
  }
  const start = findUnsigned(parts, signed.size);
  const tail = readTail(parts, start, signed.size);
  const size = signed.size + tail.leaves.length;
  checkLeafHashes(levels, size);
  const edge = restoreTree({ parts, archived }, levels, signed);
  checkArchived(archived, levels);
  const current = parts.at(-1)!;
  const offset = tail.cutAt;
  const cut = offset === undefined ? undefined : cutOff(dir, current, { offset, seq: size }, disk);
  // Whole lines that were never acknowledged are kept, so they must be durable from here on.
  const fd = fs.openSync(current.path, 'r+');
  disk.datasync(fd);
  fs.closeSync(fd);
  for (const leaf of tail.leaves) edge.add(leaf, levels.push);
  return { parts, archived, edge, cut, unsignedLines: tail.lines };
}
