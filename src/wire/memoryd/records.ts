// memoryd's records: what a memory is, how one is written and imported, and how it is shown.
import * as z from 'zod';
import { CallId, Label, Principal, RunId, TaskId, Timestamp } from '../primitives.ts';

export const MemoryId = z
  .string()
  .regex(/^memory_[0-9a-hjkmnp-tv-z]{26}$/, 'must look like memory_ and 26 characters')
  .brand<'MemoryId'>();
export type MemoryId = z.infer<typeof MemoryId>;
export const MemorySnapshotId = z
  .string()
  .regex(/^memsnap_[0-9a-hjkmnp-tv-z]{26}$/, 'must look like memsnap_ and 26 characters')
  .brand<'MemorySnapshotId'>();
export type MemorySnapshotId = z.infer<typeof MemorySnapshotId>;

export const MemoryClass = z.enum(['episodic', 'semantic', 'procedural', 'preference']);
export type MemoryClass = z.infer<typeof MemoryClass>;

/** `team`, `project:app`, `project:app/coder`, `agent:coder`, `person:alice`. */
export const MemoryScope = z
  .string()
  .max(200)
  .regex(
    /^[a-z][a-z0-9_-]*(:[A-Za-z0-9._-]+(\/[A-Za-z0-9._-]+)*)?$/,
    'must look like team, project:app or agent:coder',
  )
  .refine((scope) => !/(^|[:/])\.\.?($|\/)/.test(scope), 'must not have the parts . and ..');
export type MemoryScope = z.infer<typeof MemoryScope>;

/** The length of a text, in characters; its size is limited by the configuration. */
export const MEMORY_TEXT_CHARS_MAX = 12_000_000;
/** Bodies of requests that carry such a text. */
export const MEMORY_BODY_BYTES_MAX = 32_000_000;
export const MEMORY_BATCH_MAX = 1_000;

const word = z.string().min(1).max(256);
const text = z.string().min(1).max(MEMORY_TEXT_CHARS_MAX);
/** A person can add marks, and take none away. */
const marks = z.array(Label).max(16);

const described = {
  /** When it happened, for what happened at a time. */
  occurred_at: Timestamp.optional(),
  /** Who said it. */
  speaker: word.optional(),
  /** The message, document or result that it came from. */
  ref: z.string().min(1).max(1_024).optional(),
  /** The conversation that it is a part of, and its place there. */
  thread: word.optional(),
  seq: z.int().nonnegative().optional(),
  /** Describes a picture that belongs to it. */
  caption: z.string().min(1).max(16_384).optional(),
};

/** One line of an import, and one memory to remember. */
export const NewMemory = z.strictObject({
  class: MemoryClass,
  scope: MemoryScope,
  text,
  ...described,
  /** When it begins and ceases to be true. */
  valid_from: Timestamp.optional(),
  valid_to: Timestamp.optional(),
  /** From 0 to 1. */
  importance: z.number().min(0).max(1).optional(),
  expires_at: Timestamp.optional(),
  labels: marks.optional(),
  /** The memories that it contradicts and replaces. */
  supersedes: z.array(MemoryId).max(100).optional(),
});
export type NewMemory = z.infer<typeof NewMemory>;

export const MEMORY_STATUSES = [
  'active',
  /** Waits for a person; nobody recalls it. */
  'proposed',
  'rejected',
  /** Contradicted by a newer one. */
  'superseded',
  /** Part of a merged one. */
  'merged',
  'expired',
  /** A rollback took it away. */
  'rolled_back',
  'forgotten',
] as const;
export const MemoryStatus = z.enum(MEMORY_STATUSES);
export type MemoryStatus = z.infer<typeof MemoryStatus>;

/** Tells where a version came from. */
export const MemoryLinkKind = z.enum([
  'supersedes',
  'merges',
  'summarizes',
  'edits',
  'vouches',
  'restores',
]);
export type MemoryLinkKind = z.infer<typeof MemoryLinkKind>;

export const MemoryLink = z.object({
  kind: MemoryLinkKind,
  id: MemoryId,
  version: z.int().positive(),
});
export type MemoryLink = z.infer<typeof MemoryLink>;

const nullable = {
  text: z.string().nullable(),
  occurred_at: Timestamp.nullable(),
  speaker: z.string().nullable(),
  ref: z.string().nullable(),
  thread: z.string().nullable(),
  seq: z.int().nullable(),
  caption: z.string().nullable(),
  valid_from: Timestamp.nullable(),
  valid_to: Timestamp.nullable(),
};

/** One version of a memory. */
export const MemoryVersion = z.object({
  version: z.int().positive(),
  ...nullable,
  importance: z.number().nullable(),
  labels: z.array(Label),
  size_bytes: z.int(),
  recorded_at: Timestamp,
  /** When it ceased to be the current version of a memory that holds. */
  ended_at: Timestamp.nullable(),
  /** Who wrote it, and for which run and call. */
  by: Principal,
  run_id: RunId.nullable(),
  task_id: TaskId.nullable(),
  root_task_id: TaskId.nullable(),
  call_id: CallId.nullable(),
  links: z.array(MemoryLink),
});
export type MemoryVersion = z.infer<typeof MemoryVersion>;

/** How far the removal of a forgotten memory's copies is. */
export const ErasureView = z.object({
  /** `waiting`: agentd has not been reached. `running`: some daemon has not confirmed yet. */
  status: z.enum(['waiting', 'running', 'done']),
  /** The records of each daemon that had a copy. */
  copies: z.record(z.string(), z.int()),
  done_at: Timestamp.nullable(),
});
export type ErasureView = z.infer<typeof ErasureView>;

export const MemoryView = MemoryVersion.extend({
  id: MemoryId,
  class: MemoryClass,
  scope: z.string(),
  status: MemoryStatus,
  created_at: Timestamp,
  expires_at: Timestamp.nullable(),
  /** The memories that contradict it, are merged from it or summarize it. */
  used_by: z.array(MemoryLink),
  /** How far a forgotten one is, where it is asked for. */
  erasure: ErasureView.nullable().optional(),
});
export type MemoryView = z.infer<typeof MemoryView>;

/** A memory as recalled. */
export const RecalledMemory = z.object({
  id: MemoryId,
  class: MemoryClass,
  scope: z.string(),
  text: z.string(),
  ref: z.string().nullable(),
  labels: z.array(Label),
  score: z.number(),
  occurred_at: Timestamp.nullable(),
  speaker: z.string().nullable(),
  thread: z.string().nullable(),
  seq: z.int().nullable(),
  caption: z.string().nullable(),
  version: z.int(),
  recorded_at: Timestamp,
  /**
   * Only with `explain`: the words of the query that it has, and the parts of its score: the sum of
   * `own`, `neighbours` and `conversation`, times each of the others.
   */
  words: z.array(z.string()).optional(),
  reasons: z.record(z.string(), z.number()).optional(),
});
export type RecalledMemory = z.infer<typeof RecalledMemory>;

export const MemorySnapshot = z.object({
  id: MemorySnapshotId,
  name: z.string(),
  scope: z.string(),
  taken_at: Timestamp,
  by: Principal,
});
export type MemorySnapshot = z.infer<typeof MemorySnapshot>;
