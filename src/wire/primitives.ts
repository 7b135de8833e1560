// The schema primitives that every contract uses: ids, names, labels, timestamps, file problems.
import * as z from 'zod';

const ID = '[0-9a-hjkmnp-tv-z]{26}';
const id = <B extends string>(kind: string) =>
  z
    .string()
    .regex(new RegExp(`^${kind}_${ID}$`), `must look like ${kind}_ and 26 characters`)
    .brand<B>();

export const TaskId = id<'TaskId'>('task');
export type TaskId = z.infer<typeof TaskId>;
export const RunId = id<'RunId'>('run');
export type RunId = z.infer<typeof RunId>;
export const CallId = id<'CallId'>('call');
export type CallId = z.infer<typeof CallId>;
export const WaitId = id<'WaitId'>('wait');
export type WaitId = z.infer<typeof WaitId>;
export const MessageId = id<'MessageId'>('msg');
export type MessageId = z.infer<typeof MessageId>;
export const ArtifactId = id<'ArtifactId'>('artifact');
export type ArtifactId = z.infer<typeof ArtifactId>;
export const ContextId = id<'ContextId'>('ctx');
export type ContextId = z.infer<typeof ContextId>;
export const ApprovalId = id<'ApprovalId'>('approval');
export type ApprovalId = z.infer<typeof ApprovalId>;
export const PermitId = id<'PermitId'>('permit');
export type PermitId = z.infer<typeof PermitId>;
export const BoxId = id<'BoxId'>('box');
export type BoxId = z.infer<typeof BoxId>;
export const EventId = z.string().min(1).max(128).brand<'EventId'>();
export type EventId = z.infer<typeof EventId>;

export const AgentName = z
  .string()
  .regex(/^[a-z][a-z0-9-]{0,30}$/, 'must be a lowercase name such as coder');
export type AgentName = z.infer<typeof AgentName>;

/** agent:coder, person:alice, service:toold, external:mail:… */
export const Principal = z
  .string()
  .regex(
    /^(agent|person|service|external):[A-Za-z0-9][A-Za-z0-9@._:-]{0,127}$/,
    'must look like agent:coder or person:alice',
  );
export type Principal = z.infer<typeof Principal>;

/** The origin of a piece of text. Daemons set it, and no agent can remove it. */
export const Label = z.enum(['person', 'own', 'agent', 'tool', 'outside', 'secret', 'personal']);
export type Label = z.infer<typeof Label>;
/** The labels that spread to everything derived from the text; the others only name its author. */
export const MARKS = ['outside', 'secret', 'personal'] as const satisfies readonly Label[];

/** Date.parse normalizes or rejects nonexistent days and hours, so they do not round-trip. */
function isExistingTime(text: string): boolean {
  const second = text.slice(0, 19);
  if (second === lastSecond) return true;
  const ms = Date.parse(text);
  const exists = Number.isFinite(ms) && new Date(ms).toISOString().slice(0, 19) === second;
  if (exists) lastSecond = second;
  return exists;
}

/** Timestamps often repeat the same second, and comparing is cheaper than parsing. */
let lastSecond = '';

export const Timestamp = z
  .string()
  .regex(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?Z$/, {
    error: 'must be a UTC time such as 2026-06-29T18:00:00Z',
    abort: true,
  })
  .refine(isExistingTime, 'must be an existing date and time');
export type Timestamp = z.infer<typeof Timestamp>;

export const Sha256 = z.string().regex(/^[0-9a-f]{64}$/, 'must be 64 hex digits');
export const Cursor = z.string().max(200);
/** The pagination parameters of every list. */
export const pageQuery = (limitDefault: number) => ({
  limit: z.coerce.number().int().min(1).max(1000).default(limitDefault),
  cursor: Cursor.optional(),
});

/** A problem in a file that a person wrote, and how to fix it. */
export const FileProblem = z.object({
  file: z.string(),
  line: z.int().nullable(),
  message: z.string(),
  hint: z.string(),
});
export type FileProblem = z.infer<typeof FileProblem>;
