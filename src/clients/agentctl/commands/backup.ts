// agentctl backup copies a state directory, of a running runtime or a stopped one, to a directory
// that holds several backups, or as a tar file to standard output; list shows what is there.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { fault } from '../../../wire/errors.ts';
import { type FoundBackup, findBackup, listBackups } from '../backup/backup-dir.ts';
import { type MadeBackup, makeBackup, openState } from '../backup/make-backup.ts';
import { makeProgress } from '../backup/progress.ts';
import { type BackupProblem, verifyBackup } from '../backup/verify-backup.ts';
import type { Session } from '../command.ts';
import { EXIT_INTERRUPTED, onInterrupt } from '../interrupt.ts';
import { formatCount, formatSize, formatSpan, pluralize } from '../show/amounts.ts';
import { toOneLine } from '../show/plain.ts';
import { renderFields, renderTable, type TableColumn } from '../show/table.ts';
import { assertReadable } from '../state.ts';

export async function backup(session: Session): Promise<number> {
  const { args, out, stateDir } = session;
  const [to = ''] = args.positionals;
  const dir = to === '-' ? undefined : resolve(to);
  if (dir !== undefined) assertOutside(dir, stateDir);
  assertReadable(stateDir);
  const startedMs = performance.now();
  const { signal, done } = onInterrupt();
  const state = openState(stateDir);
  try {
    const made = await makeBackup(session, { dir, state, signal });
    const report = describeBackup(made, dir, performance.now() - startedMs);
    if (dir !== undefined) out.print({ backup: report.document }, () => report.lines(out));
    // Standard output is the backup itself.
    else process.stderr.write(formatForStderr(out, report));
    return 0;
  } catch (error) {
    if (signal.aborted) return EXIT_INTERRUPTED;
    throw error;
  } finally {
    done();
    state.close();
  }
}

function assertOutside(dir: string, stateDir: string): void {
  if (dir !== stateDir && !dir.startsWith(`${stateDir}/`)) return;
  throw fault('bad_usage', `${dir} is inside the state directory`, {
    hint: 'Name a directory elsewhere, best on another disk.',
  });
}

type Report = { document: Record<string, unknown>; lines(out: Session['out']): string[] };

function describeBackup(
  { id, source, counts, end }: MadeBackup,
  dir: string | undefined,
  tookMs: number,
): Report {
  const { skipped, changedTrees } = counts;
  const document = {
    id,
    dir: dir ?? null,
    taken_at: new Date(source.takenAtMs).toISOString(),
    running: source.isRunning,
    events: source.checkpoint.size,
    manifest_sha256: end.sha256,
    files: counts.files,
    size_bytes: counts.sizeBytes,
    copied_files: counts.copiedFiles,
    copied_bytes: counts.copiedBytes,
    changed_trees: changedTrees,
    skipped,
  };
  const lines = ({ paint, columns }: Session['out']): string[] => [
    `${paint('green', 'Backup made')}: ${id}`,
    ...renderFields(
      [
        ['as of', `${document.taken_at}, ${pluralize(document.events, 'event')} in the log`],
        ['content', `${pluralize(counts.files, 'file')}, ${formatSize(counts.sizeBytes)}`],
        ['copied', `${pluralize(counts.copiedFiles, 'file')}, ${formatSize(counts.copiedBytes)}`],
        ['took', formatSpan(tookMs)],
        ['manifest', end.sha256],
        [
          'changing',
          changedTrees.length === 0
            ? undefined
            : `${pluralize(changedTrees.length, 'task tree')} changed while it was copied`,
        ],
        [
          'skipped',
          skipped.length === 0 ? undefined : pluralize(skipped.length, 'entry', 'entries'),
        ],
      ],
      paint,
      columns,
    ),
    ...skipped.slice(0, SHOWN_MAX).map(({ path, reason }) => `  ${toOneLine(path)}: ${reason}`),
    'It contains keys and everything agents read and wrote: store it as safely as the runtime.',
    ...(dir === undefined ? [] : [`Check it: agentctl backup verify ${dir}`]),
  ];
  return { document, lines };
}

const SHOWN_MAX = 10;

const formatForStderr = (out: Session['out'], { document, lines }: Report): string =>
  out.json ? `${JSON.stringify({ backup: document })}\n` : `${lines(out).join('\n')}\n`;

const HEADERS: readonly TableColumn[] = [
  { title: 'ID' },
  { title: 'AS OF' },
  { title: 'EVENTS', align: 'right' },
  { title: 'FILES', align: 'right' },
  { title: 'SIZE', align: 'right' },
  { title: 'STATE' },
];

export async function list({ args, out }: Session): Promise<void> {
  const found = listBackups(resolve(args.positionals[0]!));
  const document = found.map((backup) =>
    backup.isFinished
      ? {
          id: backup.id,
          finished: true,
          taken_at: backup.header.taken_at,
          events: backup.header.checkpoint.size,
          entries: backup.end.entries,
          size_bytes: backup.end.size_bytes,
          manifest_sha256: backup.end.sha256,
        }
      : { id: backup.id, finished: false, problem: backup.why },
  );
  out.print({ backups: document }, () => {
    if (found.length === 0) return ['No backups yet.'];
    const rows = found.map((backup) =>
      backup.isFinished
        ? [
            backup.id,
            backup.header.taken_at,
            formatCount(backup.header.checkpoint.size),
            formatCount(backup.end.entries),
            formatSize(backup.end.size_bytes),
            'finished',
          ]
        : [backup.id, '', '', '', '', backup.why],
    );
    return renderTable(HEADERS, rows, out);
  });
}

export async function verify({ args, out }: Session): Promise<number> {
  const dir = resolve(args.positionals[0]!);
  const id = args.text('backup');
  const chosen =
    id !== undefined
      ? [findBackup(dir, id)]
      : listBackups(dir).filter(({ file }) => !file.endsWith('.unfinished'));
  if (chosen.length === 0) findBackup(dir, undefined);
  const pinned = args.text('manifest');
  const { signal, done } = onInterrupt();
  const scratchDir = mkdtempSync(join(tmpdir(), 'agentctl-backup-'));
  const progress = makeProgress(out);
  try {
    const results: VerifyResult[] = [];
    for (const backup of chosen) {
      const onProgress = ({ files, sizeBytes }: { files: number; sizeBytes: number }) =>
        progress.show(`${backup.id}: ${pluralize(files, 'file')}, ${formatSize(sizeBytes)}`);
      const problems = await verifyBackup(backup, { dir, scratchDir, onProgress, signal });
      problems.push(...checkPinned(backup, pinned));
      results.push({ id: backup.id, ok: problems.length === 0, problems });
    }
    progress.clear();
    out.print({ backups: results }, () => results.flatMap((result) => renderResult(result, out)));
    return results.every(({ ok }) => ok) ? 0 : 1;
  } catch (error) {
    if (signal.aborted) return EXIT_INTERRUPTED;
    throw error;
  } finally {
    progress.clear();
    done();
    rmSync(scratchDir, { recursive: true, force: true });
  }
}

/** Only a hash kept elsewhere reveals a backup that was changed as a whole. */
function checkPinned(backup: FoundBackup, pinned: string | undefined): BackupProblem[] {
  if (pinned === undefined || !backup.isFinished || backup.end.sha256 === pinned) return [];
  const message = `its hash is ${backup.end.sha256}, not ${pinned}`;
  return [{ kind: 'manifest', path: backup.file, message }];
}

type VerifyResult = { id: string; ok: boolean; problems: readonly BackupProblem[] };

function renderResult({ id, ok, problems }: VerifyResult, { paint }: Session['out']): string[] {
  if (ok) return [`${paint('green', 'ok')}  ${id}`];
  return [
    `${paint('red', 'DAMAGED')}  ${id}: ${pluralize(problems.length, 'problem')}`,
    ...problems
      .slice(0, PROBLEMS_SHOWN_MAX)
      .map(({ kind, path, message }) => `  ${kind} ${toOneLine(path)}: ${toOneLine(message)}`),
  ];
}

const PROBLEMS_SHOWN_MAX = 50;
