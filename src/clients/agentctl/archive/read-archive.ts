// Lists the segments of a runtime's audit log, and reads single events from their archives.
import { existsSync } from 'node:fs';
import { basename, join } from 'node:path';
import { readLines } from '../../../platform/audit-archive/read.ts';
import type { SegmentView } from '../../../wire/auditd-ai.ts';
import { fault } from '../../../wire/errors.ts';
import type { RuntimeClient } from '../runtime.ts';

/** Lists all segments of the log, the archived ones first. */
export async function listSegments(runtime: RuntimeClient): Promise<SegmentView[]> {
  const segments: SegmentView[] = [];
  let cursor: string | undefined;
  do {
    const query = { limit: 1_000, cursor };
    const page = await runtime.call('auditd-ai', 'listSegments', { query });
    segments.push(...page.segments);
    cursor = page.cursor ?? undefined;
  } while (cursor !== undefined);
  return segments;
}

/** Reads the lines of these events, in order, from the archives in a directory. */
export async function readArchivedLines(
  dir: string,
  segments: readonly SegmentView[],
  seqs: readonly number[],
): Promise<string[]> {
  const found: string[] = [];
  for (const { archive, first_seq, events } of segments) {
    const end = first_seq + events;
    const wanted = new Set(seqs.filter((seq) => seq >= first_seq && seq < end));
    if (archive === null || wanted.size === 0) continue;
    const file = join(dir, basename(archive.name));
    if (!existsSync(file)) {
      throw fault('not_found', `the archive ${archive.name} is not in ${dir}`, {
        hint: `It was written to ${archive.location}.`,
      });
    }
    const lines = await readWanted(file, first_seq, wanted);
    if (lines.length < wanted.size) throw damagedFault(file);
    found.push(...lines);
  }
  return found;
}

async function readWanted(file: string, first: number, wanted: Set<number>): Promise<string[]> {
  const found: string[] = [];
  // The events follow the first line, one each.
  let seq = first - 1;
  try {
    for await (const line of readLines(file)) {
      if (wanted.has(seq)) found.push(line);
      if (found.length === wanted.size) return found;
      seq += 1;
    }
  } catch (cause) {
    throw damagedFault(file, cause);
  }
  return found;
}

const damagedFault = (file: string, cause?: unknown) =>
  fault('log_damaged', `${file} cannot be read as an archive`, {
    hint: 'Verify it: agentctl audit verify --archive DIR.',
    cause,
  });
