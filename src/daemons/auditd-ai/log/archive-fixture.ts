// Test helper: archives segments of a log to a directory, as agentctl does.
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { gzipSync } from 'node:zlib';
import type { ArchivedSegment } from './archived-file.ts';
import type { AuditLog } from './log.ts';
import type { ArchiveClaim } from './segment-archive.ts';

const sha256 = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex');

export async function readContent(
  log: AuditLog,
  first: number,
  checkpoint = log.checkpoint.note,
): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of await log.archive.stream(first, checkpoint))
    chunks.push(Buffer.from(chunk));
  return Buffer.concat(chunks);
}

/** Writes the archive of a segment and returns what a caller claims about it. */
export async function writeArchive(
  log: AuditLog,
  first: number,
  to: string,
): Promise<ArchiveClaim> {
  const checkpoint = log.checkpoint.note;
  const content = await readContent(log, first, checkpoint);
  const bytes = gzipSync(content);
  const { segment } = JSON.parse(content.subarray(0, content.indexOf(10)).toString());
  const name = `${segment}.gz`;
  fs.mkdirSync(to, { recursive: true });
  fs.writeFileSync(path.join(to, name), bytes);
  const archive = { location: to, name, size_bytes: bytes.length, sha256: sha256(bytes) };
  const contentSha256 = sha256(content);
  return { checkpoint, contentSha256, archive, by: 'person:alice', nowMs: Date.UTC(2026, 6, 1) };
}

/** Archives and removes the oldest `count` segments. */
export async function archiveOldest(
  log: AuditLog,
  to: string,
  count = 1,
): Promise<ArchivedSegment[]> {
  const records: ArchivedSegment[] = [];
  for (let n = 0; n < count; n += 1) {
    const first = log.listSegments()[0]!.firstSeq;
    const record = await log.archive.record(first, await writeArchive(log, first, to));
    log.archive.remove(record);
    records.push(record);
  }
  return records;
}
