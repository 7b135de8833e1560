// SegmentArchive turns the oldest sealed segments into archives: it makes their content, records
// durably that a copy of that content was verified elsewhere, and only then removes them. A crash
// leaves a segment that is live, or one that is recorded and removed at the next start.
import fs from 'node:fs';
import path from 'node:path';
import { storageFault } from '../../../platform/disk-fault.ts';
import { fault } from '../../../wire/errors.ts';
import {
  describeContent,
  hashContent,
  type LogIdentity,
  readKeptCheckpoint,
  type SegmentContent,
  streamContent,
} from './archive-content.ts';
import { type ArchiveCopy, ArchivedFile, type ArchivedSegment } from './archived-file.ts';
import { type LogDisk, syncDir } from './disk.ts';
import type { KeyRing } from './keys.ts';
import type { NodeSource, TreeHead } from './merkle.ts';
import type { LogPart } from './reader.ts';

/** A caller's claim to have stored the content and read it back, and where it is. */
export type ArchiveClaim = {
  checkpoint: string;
  contentSha256: string;
  archive: ArchiveCopy;
  by: string;
  nowMs: number;
};

type ArchiveParts = {
  dir: string;
  origin: string;
  disk: LogDisk;
  keys: KeyRing;
  tree: NodeSource;
  /** Number of events in the log. */
  size: () => number;
  /** The first event of the current segment, which cannot be archived. */
  currentFirst: () => number;
  /** Oldest first; an archived segment moves from the first list to the second. */
  sealed: LogPart[];
  archived: ArchivedSegment[];
};

export class SegmentArchive {
  readonly #parts: ArchiveParts;
  readonly #file: ArchivedFile;

  constructor(parts: ArchiveParts) {
    this.#parts = parts;
    this.#file = new ArchivedFile(parts.dir, parts.disk);
  }

  /** Returns the tree head of a checkpoint kept elsewhere. Throws if the log does not fit it. */
  readCheckpoint(checkpoint: string): TreeHead {
    return readKeptCheckpoint(checkpoint, this.#identify(), this.#parts.tree);
  }

  /** Yields the content of a sealed segment's archive, linked to the checkpoint. */
  async stream(first: number, checkpoint: string): Promise<AsyncGenerator<Buffer | string>> {
    const { part, content } = await this.#describe(first, checkpoint);
    return streamContent(content.headerLine, part);
  }

  /**
   * Records the oldest sealed segment as archived. The same claim again has no effect. The caller
   * makes one claim at a time, and then removes the file with `remove`.
   */
  async record(first: number, claim: ArchiveClaim): Promise<ArchivedSegment> {
    const { archived, sealed } = this.#parts;
    const known = archived.find((record) => record.first === first);
    if (known !== undefined) return assertSameClaim(known, claim);
    const { part, content } = await this.#describe(first, claim.checkpoint);
    if (part !== sealed[0]) {
      throw fault('conflict', `${sealed[0]!.name} is older and not archived yet`, {
        hint: 'Archive the oldest segment first.',
      });
    }
    if ((await hashContent(content.headerLine, part)) !== claim.contentSha256)
      throw fault('conflict', `the archive does not have the content of ${part.name}`);
    const record = makeRecord(part, content, claim);
    this.#file.append(record);
    sealed.shift();
    archived.push(record);
    return record;
  }

  /** Lists the segments that are recorded as archived and still there. */
  listLeft(): ArchivedSegment[] {
    return this.#parts.archived.filter(({ segment }) => fs.existsSync(this.#pathOf(segment)));
  }

  remove({ segment }: ArchivedSegment): void {
    try {
      fs.rmSync(this.#pathOf(segment), { force: true });
      syncDir(this.#parts.dir);
    } catch (cause) {
      throw storageFault(`removing ${segment}`, cause);
    }
  }

  #pathOf(segment: string): string {
    return path.join(this.#parts.dir, path.basename(segment));
  }

  async #describe(
    first: number,
    checkpoint: string,
  ): Promise<{ part: LogPart; content: SegmentContent }> {
    const { tree, sealed, currentFirst } = this.#parts;
    const index = sealed.findIndex(({ firstSeq }) => firstSeq === first);
    const part = sealed[index];
    if (part === undefined) {
      throw fault('not_found', `the log has no sealed segment that begins with event ${first}`, {
        hint: 'List them: agentctl audit segments.',
      });
    }
    const end = sealed[index + 1]?.firstSeq ?? currentFirst();
    const about = { checkpoint, log: this.#identify(), tree };
    return { part, content: await describeContent(part, end, about) };
  }

  #identify(): LogIdentity {
    const { origin, keys, size } = this.#parts;
    return { origin, keys: keys.publicKeys, size: size() };
  }
}

/** After a lost response the same archive may be claimed again, but no other. */
function assertSameClaim(record: ArchivedSegment, claim: ArchiveClaim): ArchivedSegment {
  if (record.archive.sha256 === claim.archive.sha256) return record;
  const { location, name } = record.archive;
  throw fault('conflict', `${record.segment} is already archived to ${location} (${name})`);
}

function makeRecord(part: LogPart, content: SegmentContent, claim: ArchiveClaim): ArchivedSegment {
  const { header, sources, rotations, forgotten, checkpointSize } = content;
  return {
    segment: part.name,
    first: header.first,
    end: header.end,
    size_bytes: part.sizeBytes,
    hashes: header.hashes,
    sources,
    rotations,
    forgotten,
    content_sha256: claim.contentSha256,
    archive: claim.archive,
    checkpoint_size: checkpointSize,
    archived_at: new Date(claim.nowMs).toISOString(),
    by: claim.by,
  };
}
