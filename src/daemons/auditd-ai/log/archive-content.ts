// Makes the content of a segment's archive: a first line that links its events to a checkpoint kept
// elsewhere, then the segment as it is. With the checkpoint the archive can be verified alone.
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import { setImmediate } from 'node:timers/promises';
import { fault } from '../../../wire/errors.ts';
import type { NewEvent } from '../../../wire/events.ts';
import { formatOrigin, isForgotten } from '../rules.ts';
import type { ArchivedSegment } from './archived-file.ts';
import { CompactRange } from './compact-range.ts';
import { damageFault } from './damage.ts';
import { hashLeafAt, type NodeSource, type TreeHead } from './merkle.ts';
import * as notes from './note.ts';
import type { LogPart } from './reader.ts';
import { parseRotation, type Rotation } from './rotation.ts';
import { LineCursor, readSeq } from './segments.ts';

export const ARCHIVE_FORMAT = 'agentd-audit-archive/1';

/**
 * The first line of an archive. The subtree hashes `left`, of the archived events, and `right` are
 * together the tree that `checkpoint` signs; `keys` are the log's public keys, oldest first.
 */
export type ArchiveHeader = {
  format: typeof ARCHIVE_FORMAT;
  origin: string;
  segment: string;
  first: number;
  end: number;
  size_bytes: number;
  left: string[];
  hashes: string[];
  right: string[];
  checkpoint: string;
  keys: string[];
};

/** The log still needs it when a segment is archived. */
type Gathered = Required<Pick<ArchivedSegment, 'sources' | 'rotations' | 'forgotten'>>;

export type SegmentContent = {
  header: ArchiveHeader;
  headerLine: string;
  checkpointSize: number;
} & Gathered;

/** Lines that are hashed between two turns of the event loop: about 5 ms. */
const SLICE_LINES = 1_000;

export type LogIdentity = { origin: string; keys: readonly notes.Verifier[]; size: number };

/** Returns the tree head of a checkpoint kept elsewhere. Throws if it is not one of this log. */
export function readKeptCheckpoint(text: string, log: LogIdentity, tree: NodeSource): TreeHead {
  const note = notes.parseNote(text);
  const { origin, size, root } = notes.parseCheckpoint(note.text);
  if (origin !== log.origin)
    throw fault('bad_request', `the checkpoint is of the log ${origin}, not of ${log.origin}`);
  const { valid, wrong } = notes.checkNote(note, log.keys);
  if (valid.length === 0 || wrong.length > 0)
    throw fault('bad_request', 'the checkpoint is not signed by a key of this log');
  if (size > log.size)
    throw damageFault('truncated', `the checkpoint covers ${size} events, the log has ${log.size}`);
  if (!CompactRange.read(tree, 0, size).root().equals(root)) {
    const message = `the log's first ${size} events are not those that the checkpoint signs`;
    throw damageFault('root_differs', message, { signed_size: size });
  }
  return { size, root };
}

/** Hashes a sealed segment and links it to the checkpoint. Throws if it is not as signed. */
export async function describeContent(
  part: LogPart,
  end: number,
  about: { checkpoint: string; log: LogIdentity; tree: NodeSource },
): Promise<SegmentContent> {
  const { checkpoint, log, tree } = about;
  const kept = readKeptCheckpoint(checkpoint, log, tree);
  if (kept.size < end) {
    const message = `the checkpoint covers ${kept.size} events, and ${part.name} ends with event`;
    throw fault('conflict', `${message} ${end - 1}`, {
      hint: 'Store a newer one elsewhere: agentctl audit checkpoint > FILE.',
    });
  }
  const { range, ...gathered } = await hashSegment(part, end);
  const left = CompactRange.read(tree, 0, part.firstSeq);
  const right = CompactRange.read(tree, end, kept.size);
  const header: ArchiveHeader = {
    format: ARCHIVE_FORMAT,
    origin: log.origin,
    segment: part.name,
    first: part.firstSeq,
    end,
    size_bytes: part.sizeBytes,
    left: left.format().hashes,
    hashes: range.format().hashes,
    right: right.format().hashes,
    checkpoint,
    keys: log.keys.map(({ vkey }) => vkey),
  };
  left.append(range);
  left.append(right);
  if (!left.root().equals(kept.root)) {
    const message = `${part.name} does not have the events that were signed`;
    throw damageFault('root_differs', message, { seq: part.firstSeq });
  }
  const headerLine = `${JSON.stringify(header)}\n`;
  return { header, headerLine, checkpointSize: kept.size, ...gathered };
}

async function hashSegment(part: LogPart, end: number) {
  const range = new CompactRange(part.firstSeq);
  const gathered: Gathered = { sources: {}, rotations: [], forgotten: [] };
  const fd = fs.openSync(part.path, 'r');
  try {
    const cursor = new LineCursor(fd, { to: part.sizeBytes });
    while (cursor.next()) {
      const seq = range.end;
      if (readSeq(cursor.buf, cursor.start, cursor.end) !== seq || !cursor.isTerminated)
        throw damageFault('changed', `event ${seq} in ${part.name} is not in its place`, { seq });
      addEvent(cursor.line(), seq, gathered);
      range.add(hashLeafAt(cursor.buf, cursor.start, cursor.end));
      if (range.size % SLICE_LINES === 0) await setImmediate();
    }
  } finally {
    fs.closeSync(fd);
  }
  if (range.end !== end)
    throw damageFault('truncated', `${part.name} ends with event ${range.end - 1}`);
  return { range, ...gathered };
}

function addEvent(line: string, seq: number, { sources, rotations, forgotten }: Gathered): void {
  const event = JSON.parse(line) as Record<string, unknown>;
  const { source, source_store, source_seq } = event as Partial<NewEvent>;
  if (source !== undefined && source_store !== undefined && source_seq !== undefined) {
    const origin = formatOrigin({ source, source_store });
    sources[origin] = Math.max(sources[origin] ?? 0, source_seq);
  }
  const rotation: Rotation | undefined =
    event.event === 'audit.key_rotated' ? parseRotation(line) : undefined;
  if (rotation !== undefined)
    rotations.push({ seq, old_key: rotation.oldKey, new_key: rotation.newKey });
  if (isForgotten(event as NewEvent)) forgotten.push({ seq, id: String(event.id) });
}

/** Yields the content: the header's line, then the bytes of the segment. */
export async function* streamContent(
  headerLine: string,
  part: LogPart,
): AsyncGenerator<Buffer | string> {
  yield headerLine;
  yield* fs.createReadStream(part.path, { end: part.sizeBytes - 1 }) as AsyncIterable<Buffer>;
}

export async function hashContent(headerLine: string, part: LogPart): Promise<string> {
  const hash = createHash('sha256');
  for await (const chunk of streamContent(headerLine, part)) hash.update(chunk);
  return hash.digest('hex');
}
