// The route by which agentd has a daemon remove the copies of forgotten memories, in steps. Each
// request may be repeated: after a crash agentd begins again.
import * as z from 'zod';
import { ErasureView, MemoryId } from './memoryd/records.ts';
import { RunId } from './primitives.ts';
import { type CallerKind, route } from './route.ts';

/** Stands where a forgotten text was. */
export const FORGOTTEN = '[forgotten]';

/** This much of a longer text is looked for, and what follows a copy of it goes with it. */
export const FORGOTTEN_CHARS_MAX = 8_192;
/** Memories in a request; the texts of one are those of all its versions. */
export const FORGOTTEN_MEMORIES_MAX = 20;
const TEXTS_MAX = 200;

export const ForgottenMemory = z.strictObject({
  memory_id: MemoryId,
  texts: z
    .array(z.strictObject({ text: z.string().max(FORGOTTEN_CHARS_MAX), is_cut: z.boolean() }))
    .max(TEXTS_MAX),
});
export type ForgottenMemory = z.infer<typeof ForgottenMemory>;

/** A memory may have had more texts than a request takes: then the newest count. */
export const toForgottenMemory = (memoryId: string, texts: readonly string[]): ForgottenMemory => ({
  memory_id: memoryId as MemoryId,
  texts: [...new Set(texts)].slice(-TEXTS_MAX).map((text) => ({
    text: text.slice(0, FORGOTTEN_CHARS_MAX),
    is_cut: text.length > FORGOTTEN_CHARS_MAX,
  })),
});

const BODY_BYTES_MAX = 64_000_000;
const forgotten = z.array(ForgottenMemory).min(1).max(FORGOTTEN_MEMORIES_MAX);

export const EraseCopies = z.strictObject({
  forgotten,
  /** The one of the answer before; absent for the first step. */
  cursor: z.string().max(4_096).optional(),
});
export type EraseCopies = z.infer<typeof EraseCopies>;

export const ErasedCopies = z.object({
  /** Null: everything has been looked through, and the files have no traces. */
  cursor: z.string().nullable(),
  /** The records that had a copy. */
  found: z.int(),
  /** The runs that may have it in their process. */
  run_ids: z.array(RunId),
});
export type ErasedCopies = z.infer<typeof ErasedCopies>;

export const eraseCopiesRoute = (path: string, callers: readonly CallerKind[] = ['agentd']) =>
  route({
    method: 'POST',
    path,
    callers,
    body: EraseCopies,
    output: ErasedCopies,
    bodySizeBytesMax: BODY_BYTES_MAX,
    streams: true,
  });

/** memoryd calls these of agentd. */
export const erasureRoutes = {
  /** Answers when the order is durable; the copies are removed in the background. */
  startErasure: route({
    method: 'POST',
    path: '/v1/erasures',
    callers: ['memoryd'],
    body: z.strictObject({ forgotten }),
    output: z.object({ accepted: z.int() }),
    bodySizeBytesMax: BODY_BYTES_MAX,
  }),
  getErasure: route({
    method: 'GET',
    path: '/v1/erasures/{id}',
    callers: ['memoryd'],
    params: z.strictObject({ id: MemoryId }),
    output: z.object({ erasure: ErasureView.nullable() }),
  }),
};
