// agentctl audit archive moves old segments of the log elsewhere; audit segments lists them all.
import { join } from 'node:path';
import { formatArchiveName } from '../../../platform/audit-archive/choose.ts';
import { type ArchiveTarget, directoryTarget } from '../../../platform/audit-archive/directory.ts';
import type { SegmentView } from '../../../wire/auditd-ai.ts';
import { fault } from '../../../wire/errors.ts';
import { archiveSegments } from '../archive/archive-segments.ts';
import { commandTarget } from '../archive/command-target.ts';
import { listSegments } from '../archive/read-archive.ts';
import type { Args, Session } from '../command.ts';
import { formatCount, formatRelative, formatSize, formatSpan, pluralize } from '../show/amounts.ts';
import { describeArchiveSchedule } from '../show/archive-schedule.ts';
import { renderTable, type TableColumn } from '../show/table.ts';
import { readCheckpointFile } from './audit-files.ts';

const OLDER_THAN_S_DEFAULT = 90 * 86_400;

export async function archive({ args, out, stateDir, runtime }: Session): Promise<void> {
  const target = chooseTarget(args, stateDir);
  const checkpoint = readCheckpointFile(args.text('checkpoint')!);
  const olderThanMs = (args.number('older-than') ?? OLDER_THAN_S_DEFAULT) * 1_000;
  const isDryRun = args.flag('dry-run');
  const { segments, uncovered } = await archiveSegments(runtime(), {
    target,
    checkpoint,
    beforeMs: Date.now() - olderThanMs,
    isDryRun,
    onSegment: (segment) => out.info(describe(segment, target, isDryRun)),
  });
  if (uncovered.length > 0)
    out.info(
      `The checkpoint does not cover ${pluralize(uncovered.length, 'more segment')} of that age: store a newer one.`,
    );
  out.print({ archive: { location: target.location, dry_run: isDryRun, segments } }, () =>
    summarize(segments, { isDryRun, olderThanMs }),
  );
}

function chooseTarget(args: Args, stateDir: string): ArchiveTarget {
  const [to, command] = [args.text('to'), args.text('command')];
  if ((to === undefined) === (command === undefined)) {
    throw fault('bad_usage', 'audit archive needs either --to DIR or --command CMD', {
      hint: 'See: agentctl audit archive --help',
    });
  }
  if (command !== undefined) return commandTarget(command);
  return directoryTarget(to!, join(stateDir, 'audit'));
}

function describe(segment: SegmentView, target: ArchiveTarget, isDryRun: boolean): string {
  const { first_seq, events, size_bytes, archive: stored } = segment;
  const span = `events ${first_seq} to ${first_seq + events - 1}, ${formatSize(size_bytes)}`;
  const name = stored?.name ?? formatArchiveName(segment.segment);
  const packed = stored === null ? '' : ` (${formatSize(stored.size_bytes)})`;
  return `${isDryRun ? 'Would archive' : 'Archived'} ${span} as ${name}${packed} to ${target.location}`;
}

function summarize(
  segments: readonly SegmentView[],
  { isDryRun, olderThanMs }: { isDryRun: boolean; olderThanMs: number },
): string[] {
  if (segments.length === 0)
    return [`No sealed segment under the checkpoint is older than ${formatSpan(olderThanMs)}.`];
  const bytes = segments.reduce((sum, { size_bytes }) => sum + size_bytes, 0);
  const events = segments.reduce((sum, segment) => sum + segment.events, 0);
  const what = `${pluralize(segments.length, 'segment')} with ${formatCount(events)} events`;
  if (isDryRun) return [`Would archive ${what} and free ${formatSize(bytes)}.`];
  return [
    `Archived ${what}; ${formatSize(bytes)} were freed.`,
    'Check them any time: agentctl audit verify --archive DIR',
  ];
}

const SEGMENT_HEADERS: readonly TableColumn[] = [
  { title: 'FIRST', align: 'right' },
  { title: 'EVENTS', align: 'right' },
  { title: 'SIZE', align: 'right' },
  { title: 'STATUS' },
  { title: 'LAST EVENT' },
  { title: 'ARCHIVED TO', minWidth: 20 },
];

export async function segments({ out, runtime }: Session): Promise<void> {
  const all = await listSegments(runtime());
  const { automatic } = await runtime().call('auditd-ai', 'listSegments', { query: { limit: 1 } });
  out.print({ segments: all, ...(automatic === undefined ? {} : { automatic }) }, () => [
    ...renderTable(
      SEGMENT_HEADERS,
      all.map((segment) => [
        String(segment.first_seq),
        formatCount(segment.events),
        formatSize(segment.size_bytes),
        segment.status,
        segment.last_at === null ? '' : formatRelative(segment.last_at, Date.now()),
        segment.archive === null ? '' : `${segment.archive.location} (${segment.archive.name})`,
      ]),
      out,
    ),
    ...(automatic === undefined ? [] : ['', describeArchiveSchedule(automatic)]),
  ]);
}
