// Rebuilds the tree files from the segments and the records of archived ones, and checks that these
// fit each other.
import {
  ARCHIVED_FILE,
  type ArchivedSegment,
  archivedEnd,
  joinRanges,
  toRange,
} from './archived-file.ts';
import { CompactRange } from './compact-range.ts';
import { damageFault } from './damage.ts';
import type { LevelFiles } from './level-files.ts';
import { computeRoot, hashLeafAt, type NodeSink, type RawHash, type TreeHead } from './merkle.ts';
import { type LogPart, withFile } from './reader.ts';
import { LineCursor, readSeq } from './segments.ts';

/** Hashes the lines after `edge` again, up to the first `size` events. */
function hashLines(
  parts: readonly LogPart[],
  { edge, size, sink }: { edge: CompactRange; size: number; sink?: NodeSink },
): CompactRange {
  for (const part of parts) {
    withFile(part.path, (fd) => {
      const cursor = new LineCursor(fd, { to: part.sizeBytes });
      while (edge.size < size && cursor.next()) {
        if (readSeq(cursor.buf, cursor.start, cursor.end) !== edge.size) {
          const message = `event ${edge.size} in ${part.name} is missing or not in its place`;
          throw damageFault('changed', message, { seq: edge.size });
        }
        edge.add(hashLeafAt(cursor.buf, cursor.start, cursor.end), sink);
      }
    });
  }
  return edge;
}

type LogEvents = { parts: readonly LogPart[]; archived: readonly ArchivedSegment[] };

/**
 * Rebuilds the tree files from the segments and the recorded hashes of archived ones. Throws if
 * these lack the expected root.
 */
export function rebuildLevels(
  { parts, archived }: LogEvents,
  levels: LevelFiles,
  signed: TreeHead,
): CompactRange {
  const { size } = signed;
  // Check before writing: the old files may be the only evidence of which event changed.
  if (
    !hashLines(parts, { edge: joinRanges(archived), size })
      .root()
      .equals(signed.root)
  ) {
    const message = `the first ${size} events do not have the root their checkpoint signs`;
    throw damageFault(
      'root_differs',
      `${message}: run 'agentctl audit verify' to see which changed`,
      {
        signed_size: size,
      },
    );
  }
  const edge = restartLevels(archived, levels);
  let pending = 0;
  const sink: NodeSink = (level, node) => {
    levels.push(level, node);
    pending += 1;
    if (pending % 20_000 === 0) levels.flush();
  };
  hashLines(parts, { edge, size, sink });
  levels.flush();
  return edge;
}

/** Keeps the nodes of archived events, which cannot be made again, if they fit the records. */
function restartLevels(archived: readonly ArchivedSegment[], levels: LevelFiles): CompactRange {
  if (hasRecordedHashes(archived, levels)) {
    const end = archivedEnd(archived);
    levels.reset(end);
    return CompactRange.read(levels, 0, end);
  }
  const edge = new CompactRange();
  const nodes: { level: number; index: number; node: RawHash }[] = [];
  for (const record of archived)
    edge.append(toRange(record), (level, node, index) => nodes.push({ level, index, node }));
  levels.restart(edge.size, nodes);
  return edge;
}

function hasRecordedHashes(archived: readonly ArchivedSegment[], levels: LevelFiles): boolean {
  const recorded = joinRanges(archived).format();
  if (!levels.covers(recorded.end)) return false;
  const { hashes } = CompactRange.read(levels, 0, recorded.end).format();
  return hashes.join() === recorded.hashes.join();
}

/** Returns the edge of the signed tree. Hashes events only if the tree files are wrong. */
export function restoreTree(events: LogEvents, levels: LevelFiles, signed: TreeHead): CompactRange {
  if (levels.covers(signed.size) && computeRoot(levels, signed.size).equals(signed.root)) {
    const edge = CompactRange.read(levels, 0, signed.size);
    levels.reset(signed.size);
    return edge;
  }
  return rebuildLevels(events, levels, signed);
}

/** A record that does not fit the tree must not let its segment be removed. */
export function checkArchived(archived: readonly ArchivedSegment[], levels: LevelFiles): void {
  if (hasRecordedHashes(archived, levels)) return;
  throw damageFault('changed', `${ARCHIVED_FILE} does not have the hashes of the archived events`);
}
