// Archives segments: lists them, streams the content of their archives, and removes a segment whose
// archive was stored. auditd-ai writes nothing outside of its directory: agentctl stores the copy
// and claims to have read it back, and the log records the claim.
import type { Clock } from '../../platform/clock.ts';
import type { Log } from '../../platform/log.ts';
import { makeKeyedMutex } from '../../platform/mutex.ts';
import { cutPage, readNumberCursor } from '../../platform/page.ts';
import type { ProofView, SegmentView } from '../../wire/auditd-ai.ts';
import { fault } from '../../wire/errors.ts';
import type { NewEvent } from '../../wire/events.ts';
import type { ArchiveCopy, ArchivedSegment } from './log/archived-file.ts';
import type { AuditLog } from './log/log.ts';
import { proveLine } from './log/prove.ts';
import type { AuditIndex } from './store/store.ts';

export type Archiving = {
  listSegments(page: { limit: number; cursor?: string | undefined }): {
    segments: SegmentView[];
    cursor: string | null;
  };
  /** Yields the content of a sealed segment's archive. */
  exportSegment(first: number, checkpoint: string): Promise<AsyncGenerator<Buffer | string>>;
  archiveSegment(
    first: number,
    claim: { checkpoint: string; content_sha256: string; archive: ArchiveCopy },
    by: string,
  ): Promise<SegmentView>;
  /** Completes what a crash interrupted. */
  resume(): Promise<void>;
  proveLine(line: string): Promise<ProofView>;
};

export function makeArchiving(deps: {
  log: AuditLog;
  index: AuditIndex;
  clock: Pick<Clock, 'nowMs'>;
  logger: Log;
  failpoint: (name: string) => void;
  /** Appends an event of auditd-ai itself. */
  appendOwn: (event: Pick<NewEvent, 'id' | 'event' | 'principal' | 'data'>) => Promise<void>;
}): Archiving {
  const { log, index, clock, logger, failpoint, appendOwn } = deps;
  const withLock = makeKeyedMutex();
  /** Times of the last events; a sealed segment does not change. */
  const lastTimes = new Map<number, string>();

  const readLastTime = (first: number, end: number, isSealed: boolean): string | null => {
    if (end === first) return null;
    const known = lastTimes.get(first);
    if (known !== undefined) return known;
    const { ts } = JSON.parse(log.readRange(end - 1, 1)[0]!) as NewEvent;
    if (isSealed) lastTimes.set(first, ts);
    return ts;
  };

  /** Lists up to `limit` segments that begin after a seq, without the times of their events. */
  const list = (after: number, limit: number): SegmentView[] => {
    const archived = log.archived.filter(({ first }) => first > after).map(viewArchived);
    const parts = log.listSegments();
    const live = parts.flatMap(({ name, firstSeq, sizeBytes }, i): SegmentView[] => {
      if (firstSeq <= after) return [];
      const next = parts[i + 1];
      const end = next?.firstSeq ?? log.size;
      const events = end - firstSeq;
      const status = next === undefined ? 'current' : 'sealed';
      const about = { segment: name, first_seq: firstSeq, size_bytes: sizeBytes };
      return [{ ...about, events, status, last_at: null, archive: null }];
    });
    return [...archived, ...live].slice(0, limit);
  };

  const addLastTime = (view: SegmentView): SegmentView => {
    const { status, first_seq, events } = view;
    if (status === 'archived') return view;
    const last_at = readLastTime(first_seq, first_seq + events, status === 'sealed');
    return { ...view, last_at };
  };

  /** Appends the event first: while the segment exists, a restart sees that work is unfinished. */
  const finish = async (record: ArchivedSegment): Promise<void> => {
    const event = describeArchived(record);
    if ((await index.findId(event.id)) === undefined) await appendOwn(event);
    failpoint('auditd-ai.after-archive-event');
    log.archive.remove(record);
    failpoint('auditd-ai.after-archive-remove');
    lastTimes.delete(record.first);
    logger.info('segment archived', { segment: record.segment, ...record.archive });
  };

  return {
    listSegments({ limit, cursor }) {
      const found = list(readNumberCursor(cursor) ?? -1, limit + 1);
      const page = cutPage(found, limit, ({ first_seq }) => first_seq);
      return { segments: page.rows.map(addLastTime), cursor: page.cursor };
    },
    exportSegment: (first, checkpoint) => log.archive.stream(first, checkpoint),
    archiveSegment(first, { checkpoint, content_sha256, archive }, by) {
      return withLock('', async () => {
        await index.flush();
        failpoint('auditd-ai.before-archive-record');
        const nowMs = clock.nowMs();
        const claim = { checkpoint, contentSha256: content_sha256, archive, by, nowMs };
        const record = await log.archive.record(first, claim);
        failpoint('auditd-ai.after-archive-record');
        if (log.archive.listLeft().some((left) => left.first === first)) await finish(record);
        return viewArchived(record);
      });
    },
    async resume() {
      for (const record of log.archive.listLeft()) await finish(record);
    },
    async proveLine(line) {
      const { seq } = parseLine(line);
      if (typeof seq !== 'number' || !Number.isSafeInteger(seq) || seq < 0 || seq >= log.size)
        throw fault('bad_request', 'event: must be a line of the log, which begins with its seq');
      return proveLine(log, seq, line);
    },
  };
}

function parseLine(line: string): { seq?: unknown } {
  try {
    return (JSON.parse(line) ?? {}) as { seq?: unknown };
  } catch {
    return {};
  }
}

const viewArchived = (record: ArchivedSegment): SegmentView => ({
  segment: record.segment,
  first_seq: record.first,
  events: record.end - record.first,
  size_bytes: record.size_bytes,
  status: 'archived',
  last_at: null,
  archive: { ...record.archive, archived_at: record.archived_at, by: record.by },
});

function describeArchived(record: ArchivedSegment) {
  const { segment, first, end, archive, checkpoint_size, content_sha256, by } = record;
  return {
    id: `audit.archived:${first}`,
    event: 'audit.archived' as const,
    principal: by,
    data: {
      segment,
      first_seq: first,
      events: end - first,
      content_sha256,
      location: archive.location,
      name: archive.name,
      size_bytes: archive.size_bytes,
      sha256: archive.sha256,
      checkpoint_size,
    },
  };
}
