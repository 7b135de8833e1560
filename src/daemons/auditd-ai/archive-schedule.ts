// Archives old segments to the directory of retention.audit, once an hour. Each pass leaves a
// checkpoint there; the next one archives only what that checkpoint covers, and nothing if the log
// does not fit it.
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { chooseSegments, formatArchiveName } from '../../platform/audit-archive/choose.ts';
import { type ArchiveTarget, directoryTarget } from '../../platform/audit-archive/directory.ts';
import { type Clock, type Timer, toTimestamp } from '../../platform/clock.ts';
import type { Log } from '../../platform/log.ts';
import type { RetentionConfig } from '../../platform/retention-config.ts';
import type { ArchiveScheduleView, SegmentView } from '../../wire/auditd-ai.ts';
import { fault } from '../../wire/errors.ts';
import type { Archiving } from './archiving.ts';
import { readFileIfExists, replaceFile, systemDisk } from './log/disk.ts';
import type { AuditLog } from './log/log.ts';

/** After a start, other work comes first. */
const FIRST_DELAY_MS = 5 * 60_000;
const INTERVAL_MS = 60 * 60_000;
const PAGE = 1_000;
const BY = 'service:auditd-ai';

export type ArchiveSchedule = {
  /** Undefined if no directory is configured. */
  view(): ArchiveScheduleView | undefined;
  /** Resolves when the segment that is being archived is done. */
  stop(): Promise<void>;
};

export function startArchiveSchedule(deps: {
  log: AuditLog;
  /** The log's own directory. */
  logDir: string;
  archiving: Archiving;
  rule: RetentionConfig['audit'];
  clock: Clock;
  logger: Log;
}): ArchiveSchedule {
  const { log, logDir, archiving, clock, logger } = deps;
  const { age, archive_dir: dir } = deps.rule;
  if (dir === undefined || age === null) return { view: () => undefined, stop: async () => {} };
  let timer: Timer | undefined;
  let running: Promise<void> | undefined;
  let isStopped = false;
  let last: { at: string; error: string | null } | undefined;
  const keptFile = join(dir, 'checkpoint');

  /** Returns the checkpoint of an earlier pass; undefined before the first. */
  const readKept = (): string | undefined => {
    const kept = readFileIfExists(keptFile);
    if (kept === undefined && log.archived.some(({ archive }) => archive.location === dir))
      throw fault('not_found', `${keptFile} not found, although ${dir} had archives`, {
        hint: 'Mount the disk with the archives, or store a checkpoint there.',
      });
    return kept;
  };

  const archiveOne = async (target: ArchiveTarget, segment: SegmentView, checkpoint: string) => {
    const { first_seq } = segment;
    const content = Readable.from(await archiving.exportSegment(first_seq, checkpoint));
    const stored = await target.store(formatArchiveName(segment.segment), content);
    const { content_sha256, ...archive } = stored;
    await archiving.archiveSegment(first_seq, { checkpoint, content_sha256, archive }, BY);
  };

  const runPass = async (): Promise<void> => {
    const target = directoryTarget(dir, logDir);
    const kept = readKept();
    if (kept !== undefined) {
      const { size: checkpointSize } = log.archive.readCheckpoint(kept);
      const beforeMs = clock.nowMs() - age;
      const { chosen } = chooseSegments(listAll(archiving), { beforeMs, checkpointSize });
      for (const segment of chosen) if (!isStopped) await archiveOne(target, segment, kept);
    }
    replaceFile(systemDisk, { path: keptFile, contents: log.checkpoint.note, mode: 0o640 });
  };

  const runAndReport = async (): Promise<void> => {
    let error: string | null = null;
    try {
      await runPass();
    } catch (cause) {
      error = (cause as Error).message;
      logger.error('archiving the audit log failed', { dir, error: cause });
    }
    last = { at: toTimestamp(clock.nowMs()), error };
  };

  const schedule = (delayMs: number): void => {
    timer = clock.at(clock.nowMs() + delayMs, () => {
      running ??= runAndReport().finally(() => {
        running = undefined;
      });
      schedule(INTERVAL_MS);
    });
  };
  schedule(FIRST_DELAY_MS);

  return {
    view: () => ({
      location: dir,
      age_s: age / 1_000,
      last_at: last?.at ?? null,
      error: last?.error ?? null,
    }),
    async stop() {
      isStopped = true;
      timer?.cancel();
      await running;
    },
  };
}

function listAll(archiving: Archiving): SegmentView[] {
  const all: SegmentView[] = [];
  let cursor: string | undefined;
  do {
    const page = archiving.listSegments({ limit: PAGE, cursor });
    all.push(...page.segments);
    cursor = page.cursor ?? undefined;
  } while (cursor !== undefined);
  return all;
}
