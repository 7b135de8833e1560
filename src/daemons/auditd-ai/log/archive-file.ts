// Reads an archive of a segment: decompresses it and gives its first line and its events.
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { gunzipSync } from 'node:zlib';
import type { ArchivedSegment } from './archived-file.ts';
import { isMissing } from './disk.ts';

/** Allows for the first line, which has some hundred hashes and every key of the log. */
const HEADER_BYTES_MAX = 1 << 20;

export type ArchiveContent = {
  /** True if the file is the one that was recorded, bit by bit. */
  isAsRecorded: boolean;
  /** The events, one a line. */
  lines: Buffer;
};

/** Returns undefined if the directory does not have it. Throws if it cannot be decompressed. */
export function readArchiveFile(dir: string, record: ArchivedSegment): ArchiveContent | undefined {
  const compressed = readIfExists(path.join(dir, path.basename(record.archive.name)));
  if (compressed === undefined) return undefined;
  const sha256 = createHash('sha256').update(compressed).digest('hex');
  const maxOutputLength = record.size_bytes + HEADER_BYTES_MAX;
  const content = gunzipSync(compressed, { maxOutputLength });
  const headerEnd = content.indexOf(0x0a) + 1;
  return { isAsRecorded: sha256 === record.archive.sha256, lines: content.subarray(headerEnd) };
}

function readIfExists(file: string): Buffer | undefined {
  try {
    return fs.readFileSync(file);
  } catch (cause) {
    if (isMissing(cause)) return undefined;
    throw cause;
  }
}
