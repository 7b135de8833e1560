// The entries of the journal and their lines. An entry is one operation: its changes are made
// together or not at all. The line ends with a checksum, so that a damaged one is recognized.
import { sha256Hex } from '../../../platform/json.ts';
import type { IdempotencyKey } from '../../../platform/sql/idempotency.ts';
import type {
  MemoryClass,
  MemoryId,
  MemoryLink,
  MemorySnapshotId,
} from '../../../wire/memoryd/records.ts';
import type { ApprovalId, CallId, Label, RunId, TaskId } from '../../../wire/primitives.ts';

/** Describes a text, as it was sent. */
export type About = {
  occurred_at?: string | undefined;
  speaker?: string | undefined;
  ref?: string | undefined;
  thread?: string | undefined;
  seq?: number | undefined;
  caption?: string | undefined;
  valid_from?: string | undefined;
  valid_to?: string | undefined;
  importance?: number | undefined;
};

/** A version of a memory. Its text stands here, or in the object of this hash. */
export type VersionContent = {
  text?: string | undefined;
  object?: string | undefined;
  size: number;
  about: About;
  labels: Label[];
  links?: MemoryLink[] | undefined;
  /** The text was removed. */
  forgotten?: true;
};

/** Why a version is no longer current, without a newer one. */
export type EndStatus = 'rejected' | 'superseded' | 'merged' | 'expired' | 'rolled_back';

export type Change =
  | {
      do: 'add';
      id: MemoryId;
      class: MemoryClass;
      scope: string;
      status: 'active' | 'proposed';
      expires_at?: string | undefined;
      content: VersionContent;
    }
  | { do: 'revise'; id: MemoryId; content: VersionContent }
  | { do: 'accept'; id: MemoryId }
  | { do: 'end'; id: MemoryId; status: EndStatus }
  | { do: 'expire-at'; id: MemoryId; at: string | null }
  | { do: 'forget'; id: MemoryId }
  /** The memory goes as a whole: its rows now, its other changes when their day is compacted. */
  | { do: 'prune'; id: MemoryId; cause: string }
  /** Stood for a change of a pruned memory. */
  | { do: 'gone'; id: MemoryId }
  | { do: 'snapshot'; id: MemorySnapshotId; name: string; scope: string };

/** The run that an entry was written for; without a call, by rule. */
export type EntryRun = { run_id: RunId; task_id: TaskId; root_task_id: TaskId; call_id?: CallId };

export const OPERATIONS = [
  'remember',
  'propose',
  'approve',
  'reject',
  'edit',
  'merge',
  'summarize',
  'expire',
  'forget',
  'snapshot',
  'rollback',
  'prune',
] as const;
export type Operation = (typeof OPERATIONS)[number];

export type JournalEntry = {
  v: 1;
  /** The number of the first change; the others follow it. */
  n: number;
  at: string;
  op: Operation;
  by: string;
  run?: EntryRun | undefined;
  once?: IdempotencyKey | undefined;
  /** The approval that decided on a proposal. */
  approval_id?: ApprovalId | undefined;
  changes: Change[];
};

const SUM_CHARS = 16;
const SUM = /,"sum":"([0-9a-f]{16})"}$/;

export function encodeEntry(entry: JournalEntry): string {
  const body = JSON.stringify(entry).slice(0, -1);
  return `${body},"sum":"${sha256Hex(body).slice(0, SUM_CHARS)}"}\n`;
}

/** Takes a line without its end. Returns undefined for a damaged one. */
export function decodeEntry(line: string): JournalEntry | undefined {
  const found = SUM.exec(line);
  if (found === null) return undefined;
  const body = line.slice(0, found.index);
  if (sha256Hex(body).slice(0, SUM_CHARS) !== found[1]) return undefined;
  try {
    const entry = JSON.parse(`${body}}`) as JournalEntry;
    return entry.v === 1 ? entry : undefined;
  } catch {
    return undefined;
  }
}

/** The number after the entry's last change. */
export const nextNumber = ({ n, changes }: JournalEntry): number => n + changes.length;
