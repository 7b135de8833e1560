// Chooses which segments of the audit log to archive, and names their archives.
import type { SegmentView } from '../../wire/auditd-ai.ts';

export type SegmentChoice = {
  /** Segments to archive, oldest first. */
  chosen: SegmentView[];
  /** Old enough too, but not covered by the checkpoint. */
  uncovered: SegmentView[];
};

/** Chooses the sealed segments whose last event is before `beforeMs`. */
export function chooseSegments(
  segments: readonly SegmentView[],
  { beforeMs, checkpointSize }: { beforeMs: number; checkpointSize: number },
): SegmentChoice {
  const sealed = segments.filter(({ status }) => status === 'sealed');
  const isOld = ({ last_at }: SegmentView): boolean => Date.parse(last_at ?? '') < beforeMs;
  const youngest = sealed.findIndex((segment) => !isOld(segment));
  const old = youngest < 0 ? sealed : sealed.slice(0, youngest);
  const isCovered = ({ first_seq, events }: SegmentView): boolean =>
    first_seq + events <= checkpointSize;
  return { chosen: old.filter(isCovered), uncovered: old.filter((one) => !isCovered(one)) };
}

export const formatArchiveName = (segment: string): string => `${segment}.gz`;
