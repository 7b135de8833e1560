// Rows as people and runs see them. Pure.
import { toTimestamp } from '../../../platform/clock.ts';
import type {
  MemoryId,
  MemoryLink,
  MemorySnapshot,
  MemoryVersion,
  MemoryView,
  RecalledMemory,
} from '../../../wire/memoryd/records.ts';
import type { Label } from '../../../wire/primitives.ts';
import type { About, EntryRun } from '../journal/entry.ts';
import type { LinkRow, MemoryRow, SnapshotRow, VersionRow } from '../store/schema.ts';

const toTime = (ms: number | null): string | null => (ms === null ? null : toTimestamp(Number(ms)));

export const readLabels = ({ labels }: Pick<VersionRow, 'labels'>): Label[] =>
  JSON.parse(labels) as Label[];
export const readAbout = ({ about }: Pick<VersionRow, 'about'>): About =>
  JSON.parse(about) as About;

const toLink = (kind: string, id: string, version: number): MemoryLink => ({
  kind: kind as MemoryLink['kind'],
  id: id as MemoryId,
  version: Number(version),
});

export type VersionParts = {
  row: VersionRow;
  /** Null when it was forgotten. */
  text: string | null;
  /** The links of this version. */
  links: readonly LinkRow[];
};

const NO_RUN = { run_id: null, task_id: null, root_task_id: null, call_id: null };

export function toVersionView({ row, text, links }: VersionParts): MemoryVersion {
  const about = readAbout(row);
  return {
    version: Number(row.version),
    text,
    occurred_at: about.occurred_at ?? null,
    speaker: about.speaker ?? null,
    ref: about.ref ?? null,
    thread: about.thread ?? null,
    seq: about.seq ?? null,
    caption: about.caption ?? null,
    valid_from: about.valid_from ?? null,
    valid_to: about.valid_to ?? null,
    importance: about.importance ?? null,
    labels: readLabels(row),
    size_bytes: Number(row.size_bytes),
    recorded_at: toTimestamp(Number(row.recorded_ms)),
    ended_at: toTime(row.ended_ms),
    by: row.author as MemoryVersion['by'],
    ...NO_RUN,
    ...(JSON.parse(row.run ?? '{}') as Partial<EntryRun>),
    links: links.map(({ kind, to_id, to_version }) => toLink(kind, to_id, to_version)),
  };
}

export function toMemoryView(
  memory: MemoryRow,
  parts: VersionParts,
  /** The links that others have to it. */
  usedBy: readonly LinkRow[],
): MemoryView {
  return {
    id: memory.id as MemoryId,
    class: memory.class as MemoryView['class'],
    scope: memory.scope,
    status: memory.status as MemoryView['status'],
    created_at: toTimestamp(Number(memory.created_ms)),
    expires_at: toTime(memory.expires_ms),
    ...toVersionView(parts),
    used_by: usedBy.map(({ kind, from_id, from_version }) => toLink(kind, from_id, from_version)),
  };
}

export function toRecalled(
  memory: Pick<MemoryRow, 'id' | 'class' | 'scope'>,
  { row, text }: { row: VersionRow; text: string },
  explained: Pick<RecalledMemory, 'score' | 'words' | 'reasons'>,
): RecalledMemory {
  const about = readAbout(row);
  return {
    id: memory.id as MemoryId,
    class: memory.class as RecalledMemory['class'],
    scope: memory.scope,
    text,
    ref: about.ref ?? null,
    labels: readLabels(row),
    occurred_at: about.occurred_at ?? null,
    speaker: about.speaker ?? null,
    thread: about.thread ?? null,
    seq: about.seq ?? null,
    caption: about.caption ?? null,
    version: Number(row.version),
    recorded_at: toTimestamp(Number(row.recorded_ms)),
    ...explained,
  };
}

export const toSnapshot = ({ id, name, scope, at_ms, author }: SnapshotRow): MemorySnapshot => ({
  id: id as MemorySnapshot['id'],
  name,
  scope,
  taken_at: toTimestamp(Number(at_ms)),
  by: author as MemorySnapshot['by'],
});
