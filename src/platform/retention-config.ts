// The section `retention` of agentd.yaml: how long each kind of data is kept, and how much of it.
import * as z from 'zod';

const UNIT_MS: Readonly<Record<string, number>> = { h: 3_600_000, d: 86_400_000 };
const NEVER = 'never';
const UNLIMITED = 'unlimited';
const AGE_MS_MAX = 36_500 * UNIT_MS.d!;
const SIZE_BYTES_MIN = 1_048_576;

/** '90d' or '12h' in ms; null for 'never'. */
export function parseAge(text: string): number | null {
  if (text === NEVER) return null;
  return Number.parseInt(text, 10) * UNIT_MS[text.at(-1)!]!;
}

/** Units are powers of 1024, as in manifests; null for 'unlimited'. */
export function parseSize(text: string): number | null {
  if (text === UNLIMITED) return null;
  const power = 'KMGT'.indexOf(/[KMGT]/.exec(text)![0]) + 1;
  return Number.parseInt(text, 10) * 1024 ** power;
}

const age = (byDefault: string) =>
  z
    .string()
    .max(16)
    .regex(/^(never|[1-9]\d{0,6}[hd])$/, 'must be an age such as 90d or 12h, or never')
    .refine((text) => (parseAge(text) ?? 0) <= AGE_MS_MAX, 'must be at most 36500d, or never')
    .prefault(byDefault)
    .transform(parseAge);

const size = (byDefault: string) =>
  z
    .string()
    .max(16)
    .regex(/^(unlimited|[1-9]\d{0,8}[KMGT]i?B?)$/, 'must be a size such as 20GB, or unlimited')
    .refine((text) => (parseSize(text) ?? SIZE_BYTES_MIN) >= SIZE_BYTES_MIN, 'must be 1M or more')
    .prefault(byDefault)
    .transform(parseSize);

/** `age` in ms, `size` in bytes; null: without limit. */
export type RetentionRule = { age: number | null; size: number | null };

const rule = (limits: { age: string; size: string }) =>
  z.strictObject({ age: age(limits.age), size: size(limits.size) }).prefault({});

export const retentionConfig = z.strictObject({
  /** Ended task trees: tasks, runs, waits, messages, calls, approvals. */
  tasks: rule({ age: '365d', size: '50GB' }),
  artifacts: rule({ age: '365d', size: '50GB' }),
  /** Files of ended task trees; an operator's directory that is used in place is never removed. */
  workspaces: rule({ age: '90d', size: '50GB' }),
  /** Trees with changes of a directory that nobody has applied or discarded stay this long. */
  unapplied: z.strictObject({ age: age('never') }).prefault({}),
  homes: rule({ age: '30d', size: '20GB' }),
  /** The texts sent to models and their responses. */
  model_contexts: rule({ age: '90d', size: '20GB' }),
  /** Memories that tasks leave by rule, unless a person edits them; `per_scope` in each scope. */
  memories: z
    .strictObject({
      age: age('365d'),
      size: size('10GB'),
      per_scope: z.int().min(10).max(10_000_000).default(50_000),
    })
    .prefault({}),
  /** The daemons' diagnostic logs: `size` of each file before it is rotated, and old ones kept. */
  logs: z
    .strictObject({ size: size('16MB'), files: z.int().min(1).max(100).default(4) })
    .prefault({}),
  /** Segments of the audit log are never removed, only moved to the archive directory. */
  audit: z
    .strictObject({
      age: age('90d'),
      archive_dir: z.string().max(1_000).regex(/^\//, 'must be an absolute path').optional(),
    })
    .prefault({}),
  /** How long the ids of what was pruned still answer `pruned`. */
  tombstones: z.strictObject({ age: age('3650d') }).prefault({}),
});
export type RetentionConfig = z.output<typeof retentionConfig>;
