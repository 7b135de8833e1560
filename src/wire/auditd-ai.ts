// auditd-ai's contract: appending for daemons, reading and inclusion proofs for people.
import * as z from 'zod';
import { findCallers } from './daemons.ts';
import { AuditEvent, NewEvent } from './events.ts';
import { pageQuery, Sha256, Timestamp } from './primitives.ts';
import { route, routes } from './route.ts';

export const CheckpointView = z.object({
  size: z.int(),
  root: z.string(),
  note: z.string(),
  vkey: z.string(),
});
export type CheckpointView = z.infer<typeof CheckpointView>;

export const ProofView = z.object({
  event: z.string(),
  index: z.int(),
  size: z.int(),
  root: z.string(),
  hashes: z.array(z.string()),
  checkpoint: z.string(),
  vkey: z.string(),
});
export type ProofView = z.infer<typeof ProofView>;

export const HeldLogView = z.object({
  id: z.string(),
  checkpoint: CheckpointView,
  /** In order, the current one last, with the length that the checkpoint covers. */
  segments: z.array(z.object({ name: z.string(), size_bytes: z.int() })),
});
export type HeldLogView = z.infer<typeof HeldLogView>;

/** A signed checkpoint that was kept elsewhere. */
const CheckpointNote = z.string().min(1).max(100_000);

/** Where the archive of a segment was written to. Size and hash are of the compressed file. */
export const ArchiveCopy = z.strictObject({
  location: z.string().min(1).max(1_000),
  name: z.string().regex(/^[A-Za-z0-9._-]{1,128}$/, 'must be a file name'),
  size_bytes: z.int().positive(),
  sha256: Sha256,
});

export const SegmentView = z.object({
  segment: z.string(),
  first_seq: z.int(),
  events: z.int(),
  size_bytes: z.int(),
  status: z.enum(['current', 'sealed', 'archived']),
  /** Time of its last event; null if it has none, or is archived. */
  last_at: Timestamp.nullable(),
  archive: ArchiveCopy.extend({ archived_at: Timestamp, by: z.string() }).nullable(),
});
export type SegmentView = z.infer<typeof SegmentView>;

/** How the log archives by itself, if the configuration names a directory. */
export const ArchiveScheduleView = z.object({
  location: z.string(),
  /** Segments are archived when their last event is older. */
  age_s: z.int(),
  /** The end of the last pass, and why it failed. */
  last_at: Timestamp.nullable(),
  error: z.string().nullable(),
});
export type ArchiveScheduleView = z.infer<typeof ArchiveScheduleView>;

const SegmentParams = z.strictObject({ first_seq: z.coerce.number().int().nonnegative() });

const EventsQuery = z.strictObject({
  ...pageQuery(100),
  /** Events after this seq; -1 or absent: from the start. */
  after: z.coerce.number().int().min(-1).optional(),
  order: z.enum(['asc', 'desc']).optional(),
  event: z.string().max(64).optional(),
  root_task_id: z.string().max(64).optional(),
  run_id: z.string().max(64).optional(),
  /** 1: keep the connection open and stream new events (SSE, `id:` is the seq). */
  follow: z.enum(['0', '1']).optional(),
});
const ListQuery = z.strictObject({ ...pageQuery(100), order: z.enum(['asc', 'desc']).optional() });
const Page = z.object({
  events: z.array(AuditEvent),
  /** The seqs of matching events that are archived and so not in `events`. */
  archived: z.array(z.int()).optional(),
  cursor: z.string().nullable(),
});

const EVENTS_MAX = 5_000;
const SENDERS = findCallers('auditd-ai');

export const auditRoutes = routes({
  append: route({
    method: 'POST',
    path: '/v1/audit/append',
    callers: SENDERS,
    body: z.strictObject({ events: z.array(NewEvent).min(1).max(EVENTS_MAX) }),
    output: z.object({ size: z.int(), accepted: z.int() }),
    bodySizeBytesMax: 16_000_000,
  }),
  /**
   * Returns a page of the events of one of the caller's own stores after a source_seq, in order, so
   * that the caller can restore what its store lost in a power failure.
   */
  own: route({
    method: 'GET',
    path: '/v1/audit/own/{store}',
    callers: SENDERS,
    params: z.strictObject({ store: z.string().min(1).max(256) }),
    query: z.strictObject({ after: z.coerce.number().int().nonnegative() }),
    output: z.object({ events: z.array(AuditEvent) }),
  }),
  /**
   * Returns a page of the events of forgotten memories, newest first, the archived ones too, so
   * that memoryd can forget again what an older copy of its journal brings back.
   */
  forgotten: route({
    method: 'GET',
    path: '/v1/audit/forgotten',
    callers: ['memoryd'],
    query: z.strictObject({ before: z.coerce.number().int().nonnegative().optional() }),
    output: z.object({
      events: z.array(z.object({ seq: z.int(), id: z.string() })),
      /** The `before` of the next page; null after the last. */
      next: z.int().nullable(),
    }),
  }),
  events: route({
    method: 'GET',
    path: '/v1/audit/events',
    callers: ['operator', 'agentd'],
    query: EventsQuery,
    output: Page,
    streams: true,
  }),
  task: route({
    method: 'GET',
    path: '/v1/audit/tasks/{task_id}',
    callers: ['operator'],
    params: z.strictObject({ task_id: z.string().max(64) }),
    query: ListQuery,
    output: Page,
  }),
  agent: route({
    method: 'GET',
    path: '/v1/audit/agents/{agent}',
    callers: ['operator'],
    params: z.strictObject({ agent: z.string().max(64) }),
    query: ListQuery,
    output: Page,
  }),
  tool: route({
    method: 'GET',
    path: '/v1/audit/tools/{tool}',
    callers: ['operator'],
    params: z.strictObject({ tool: z.string().max(64) }),
    query: ListQuery,
    output: Page,
  }),
  checkpoint: route({
    method: 'GET',
    path: '/v1/audit/checkpoint',
    callers: ['operator'],
    output: CheckpointView,
  }),
  /**
   * Signs the log as it is now, and lets appends wait until releaseLog or for `hold_ms`, so that a
   * backup can copy the log and every database as of one instant.
   */
  holdLog: route({
    method: 'POST',
    path: '/v1/audit/hold',
    callers: ['operator'],
    body: z.strictObject({ hold_ms: z.int().min(1).max(2_000) }),
    output: z.object({ hold: HeldLogView }),
  }),
  /** `held` is false if the hold had ended by itself. */
  releaseLog: route({
    method: 'POST',
    path: '/v1/audit/hold/{id}/release',
    callers: ['operator'],
    params: z.strictObject({ id: z.uuid() }),
    output: z.object({ held: z.boolean() }),
  }),
  prove: route({
    method: 'GET',
    path: '/v1/audit/proofs/{id}',
    callers: ['operator'],
    params: z.strictObject({ id: z.string().min(1).max(128) }),
    output: ProofView,
  }),
  /** Proves that the log has this line, which may be read from an archive. */
  proveLine: route({
    method: 'POST',
    role: 'reader',
    path: '/v1/audit/proofs',
    callers: ['operator'],
    body: z.strictObject({ event: z.string().min(1).max(1_000_000) }),
    output: ProofView,
  }),
  listSegments: route({
    method: 'GET',
    path: '/v1/audit/segments',
    callers: ['operator'],
    query: z.strictObject(pageQuery(100)),
    output: z.object({
      segments: z.array(SegmentView),
      cursor: z.string().nullable(),
      automatic: ArchiveScheduleView.optional(),
    }),
  }),
  /**
   * Streams the content of a sealed segment's archive: a line that links the segment to a
   * checkpoint kept elsewhere, then its events.
   */
  exportSegment: route({
    method: 'POST',
    path: '/v1/audit/segments/{first_seq}/export',
    callers: ['operator'],
    params: SegmentParams,
    body: z.strictObject({ checkpoint: CheckpointNote }),
    output: z.unknown(),
    streams: true,
  }),
  /**
   * Removes the oldest sealed segment, whose exported content was stored and read back. The same
   * request again has no effect.
   */
  archiveSegment: route({
    method: 'POST',
    path: '/v1/audit/segments/{first_seq}/archive',
    callers: ['operator'],
    params: SegmentParams,
    body: z.strictObject({
      checkpoint: CheckpointNote,
      /** SHA-256 of the exported content, before compression. */
      content_sha256: Sha256,
      archive: ArchiveCopy,
    }),
    output: z.object({ segment: SegmentView }),
    // Hashing a large segment takes longer than a document may.
    streams: true,
  }),
  rotateKey: route({
    method: 'POST',
    path: '/v1/audit/rotate-key',
    callers: ['operator'],
    output: z.object({ vkey: z.string(), previous: z.string() }),
  }),
});
