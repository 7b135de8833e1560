// Archives the old sealed segments of a runtime's audit log, oldest first: auditd-ai streams the
// content, a target stores it, and only after that auditd-ai is asked to remove the segment. Killed
// at any point, the segment is still live or its archive is recorded.
import type { Readable } from 'node:stream';
import { chooseSegments, formatArchiveName } from '../../../platform/audit-archive/choose.ts';
import type { ArchiveTarget } from '../../../platform/audit-archive/directory.ts';
import type { SegmentView } from '../../../wire/auditd-ai.ts';
import { fault } from '../../../wire/errors.ts';
import type { RuntimeClient } from '../runtime.ts';
import { listSegments } from './read-archive.ts';

/** Hashing a large segment on a busy machine takes a while. */
const RECORD_DEADLINE_MS = 600_000;

/** Returns how many events a checkpoint covers; auditd-ai checks whether it is one of its log. */
export function readCheckpointSize(note: string): number {
  const [, size] = note.split('\n');
  if (size !== undefined && /^\d{1,15}$/.test(size)) return Number(size);
  throw fault('bad_usage', 'the checkpoint does not have its size on the second line', {
    hint: 'Store one with: agentctl audit checkpoint > FILE',
  });
}

export type ArchiveJob = {
  target: ArchiveTarget;
  /** The text of a checkpoint kept elsewhere; auditd-ai refuses one that is not of its log. */
  checkpoint: string;
  /** Only segments whose last event is before this time. */
  beforeMs: number;
  isDryRun: boolean;
  /** Called with each segment as it was archived, or would be. */
  onSegment: (segment: SegmentView) => void;
};
export type ArchiveResult = { segments: SegmentView[]; uncovered: SegmentView[] };

/** Archives what is old enough and covered by the checkpoint. */
export async function archiveSegments(
  runtime: RuntimeClient,
  { target, checkpoint, beforeMs, isDryRun, onSegment }: ArchiveJob,
): Promise<ArchiveResult> {
  const checkpointSize = readCheckpointSize(checkpoint);
  const all = await listSegments(runtime);
  const { chosen, uncovered } = chooseSegments(all, { beforeMs, checkpointSize });
  const segments: SegmentView[] = [];
  for (const segment of chosen) {
    const done = isDryRun ? segment : await archiveOne(runtime, segment, { target, checkpoint });
    segments.push(done);
    onSegment(done);
  }
  return { segments, uncovered };
}

async function archiveOne(
  runtime: RuntimeClient,
  { segment, first_seq }: SegmentView,
  { target, checkpoint }: { target: ArchiveTarget; checkpoint: string },
): Promise<SegmentView> {
  const content = await openContent(runtime, first_seq, checkpoint);
  const stored = await target.store(formatArchiveName(segment), content);
  const { content_sha256, ...archive } = stored;
  const request = { params: { first_seq }, body: { checkpoint, content_sha256, archive } };
  const options = { deadlineMs: RECORD_DEADLINE_MS };
  return (await runtime.call('auditd-ai', 'archiveSegment', request, options)).segment;
}

function openContent(runtime: RuntimeClient, first_seq: number, checkpoint: string) {
  const request = { params: { first_seq }, body: { checkpoint } };
  const { signal } = new AbortController();
  return runtime.open('auditd-ai', 'exportSegment', request, signal) as Promise<Readable>;
}
