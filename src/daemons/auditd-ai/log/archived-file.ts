// Owns archived.jsonl: one line for each segment that was archived and removed from the directory.
// It has what the log still needs of these events: their subtree hashes, so that the tree and every
// later checkpoint can be checked without them; the highest number of each source; the key
// rotations among them; and which memories were forgotten. Archived segments are always the oldest.
import fs from 'node:fs';
import path from 'node:path';
import { storageFault } from '../../../platform/disk-fault.ts';
import { type Fault, fault } from '../../../wire/errors.ts';
import { CompactRange } from './compact-range.ts';
import { damageFault } from './damage.ts';
import { type LogDisk, readFileIfExists, syncDir, writeAll } from './disk.ts';

export const ARCHIVED_FILE = 'archived.jsonl';

/** Where an archive was written to. The name and the hash are those of the compressed file. */
export type ArchiveCopy = { location: string; name: string; size_bytes: number; sha256: string };

export type ArchivedSegment = {
  /** The name the segment had in the directory. */
  segment: string;
  /** The events [first, end). */
  first: number;
  end: number;
  size_bytes: number;
  /** Subtree hashes of the events: a compact range. */
  hashes: string[];
  /** The highest number of each source among the events. */
  sources: Record<string, number>;
  rotations: { seq: number; old_key: string; new_key: string }[];
  /** The events of forgotten memories. Records of earlier versions do not have it. */
  forgotten?: { seq: number; id: string }[];
  /** SHA-256 of the archive before compression. */
  content_sha256: string;
  archive: ArchiveCopy;
  /** Size of the checkpoint kept elsewhere against which it was archived. */
  checkpoint_size: number;
  archived_at: string;
  by: string;
};

/** Reads the records. A torn last line was never acted on, and is left out. */
export function readArchived(dir: string): ArchivedSegment[] {
  const text = readFileIfExists(path.join(dir, ARCHIVED_FILE)) ?? '';
  const lines = text.split('\n').slice(0, -1);
  let expected = 0;
  return lines.map((line, index) => {
    const record = parseRecord(line, index + 1);
    if (record.first !== expected) {
      const message = `${ARCHIVED_FILE} line ${index + 1} begins with event ${record.first}`;
      throw damageFault('changed', `${message} instead of ${expected}`);
    }
    expected = record.end;
    return record;
  });
}

function parseRecord(line: string, number: number): ArchivedSegment {
  try {
    const record = JSON.parse(line) as ArchivedSegment;
    if (record.end <= record.first) throw new Error('it has no events');
    toRange(record);
    const { segment, content_sha256, archived_at } = record;
    const { location, name, sha256 } = record.archive;
    const texts = [segment, content_sha256, archived_at, location, name, sha256];
    if (!texts.every((text) => typeof text === 'string')) throw new Error('a field is missing');
    return { ...record, sources: { ...record.sources }, rotations: [...record.rotations] };
  } catch (cause) {
    const message = `${ARCHIVED_FILE} line ${number} cannot be read: ${(cause as Error).message}`;
    throw damageFault('changed', message);
  }
}

export const toRange = ({ first, end, hashes }: ArchivedSegment): CompactRange =>
  CompactRange.parse({ first, end, hashes });

export const archivedEnd = (records: readonly ArchivedSegment[]): number =>
  records.at(-1)?.end ?? 0;

export function joinRanges(records: readonly ArchivedSegment[]): CompactRange {
  const joined = new CompactRange();
  for (const record of records) joined.append(toRange(record));
  return joined;
}

/** The fault for an event that is no longer in the directory; it is one of `seqs`. */
export function archivedFault(
  records: readonly ArchivedSegment[],
  ...seqs: readonly [number, ...number[]]
): Fault {
  const { segment, archive, archived_at } = records.find(({ end }) => seqs[0] < end)!;
  const { location, name } = archive;
  const message = `event ${seqs.join(' or ')} was archived on ${archived_at.slice(0, 10)}`;
  return fault('archived', `${message} to ${location} (${name})`, {
    details: { seqs, segment, location, name, archived_at },
  });
}

/** Appends records, each durable before its segment may be removed. */
export class ArchivedFile {
  readonly #file: string;
  readonly #disk: LogDisk;

  constructor(dir: string, disk: LogDisk) {
    this.#file = path.join(dir, ARCHIVED_FILE);
    this.#disk = disk;
  }

  append(record: ArchivedSegment): void {
    const fd = fs.openSync(this.#file, 'a+', 0o640);
    const wholeBytes = measureWhole(this.#file);
    try {
      // A crash or a failed write may have left half a record.
      this.#disk.truncate(fd, wholeBytes);
      writeAll(this.#disk, fd, Buffer.from(`${JSON.stringify(record)}\n`), null);
      this.#disk.datasync(fd);
      syncDir(path.dirname(this.#file));
    } catch (cause) {
      fs.ftruncateSync(fd, wholeBytes);
      throw storageFault(`writing ${this.#file}`, cause);
    } finally {
      fs.closeSync(fd);
    }
  }
}

const measureWhole = (file: string): number => fs.readFileSync(file).lastIndexOf(0x0a) + 1;
