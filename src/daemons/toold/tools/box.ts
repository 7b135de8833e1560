// The interface through which tools use their run's box, and what they share around it.
import { posix } from 'node:path';
import * as z from 'zod';
import type { Touch } from '../../../policy/request.ts';
import type { DenialReason } from '../../../wire/egressd.ts';
import { Fault, fault } from '../../../wire/errors.ts';
import type { FileRequestInput, FileResponseTo } from '../../../wire/sandboxd/files.ts';
import type { EndedBy } from '../../../wire/sandboxd.ts';

/** Requests to the box's files, by absolute path. Writes and deletes are idempotent. */
export type BoxFiles = {
  perform<R extends FileRequestInput>(request: R): Promise<FileResponseTo<R>>;
};

export type ExecRequest = {
  argv: readonly string[];
  cwd?: string;
  env?: Readonly<Record<string, string>>;
  stdin?: Buffer;
  wallMs?: number;
  /** Limit on stdout and stderr together; a command that prints more is ended. */
  outputBytesMax?: number;
  /** People who watch the task see its output as it comes, as that of this tool. */
  liveAs?: string;
  /** Aborted: the command and everything it started is killed. */
  signal?: AbortSignal;
};

export type ExecResult = {
  exitCode: number | null;
  signal: string | null;
  /** The limit that ended it, or a change of policy; null when it exited by itself. */
  endedBy: EndedBy | 'policy' | null;
  note?: string;
  stdout: Buffer;
  stderr: Buffer;
  stdoutTruncated: boolean;
  stderrTruncated: boolean;
  wallMs: number;
  /** The connections egressd denied while it ran. */
  networkDenied: readonly NetworkDenied[];
};

export type NetworkDenied = {
  code: DenialReason;
  host: string;
  port: number;
  reason: string;
  hint: string;
};

export type Box = {
  /** Paths inside the box. */
  roots: { workspace: string; home: string };
  files: BoxFiles;
  /**
   * Throws a fault only when the command was certainly not started, and another error when it may
   * have been and its end is unknown.
   */
  exec(request: ExecRequest): Promise<ExecResult>;
};

/** Retryable faults that are raised before anything is started. */
const NOT_STARTED: ReadonlySet<string> = new Set(['overloaded', 'halted', 'rate_limited']);

export const notStartedFault = (): Fault =>
  fault('canceled', 'the run was dismissed before anything was done', {
    details: { begun: false },
  });

/**
 * For effects that must not happen twice. A broken link, or a command ended by a dismissal, leaves
 * open what was done by then, so it must not count as "not started". A box that was gone before is
 * safe.
 */
export function rethrowAsUncertain(error: unknown): never {
  if (!(error instanceof Fault)) throw error;
  const isGone = (error.cause as Fault | undefined)?.code === 'not_found';
  const isGivenUp = error.code === 'canceled' && error.details?.begun !== false;
  const isSure = NOT_STARTED.has(error.code) || !(error.retry || isGivenUp);
  if (isSure || isGone) throw error;
  throw new Error('the box ended while a command may have run in it', { cause: error });
}

export const execOnce = (box: Box, request: ExecRequest): Promise<ExecResult> =>
  box.exec(request).catch(rethrowAsUncertain);

/** The workspace inside a box. Relative paths start here. */
export const WORKSPACE = '/workspace';

/**
 * A path from a model, made absolute and normalized before any decision, so that policy decides on
 * the path that is then opened.
 */
export const boxPath = (workspace: string) =>
  z
    .string()
    .min(1)
    .max(4_000)
    .regex(/^[^\0]*$/, 'cannot hold a NUL character')
    .transform((path) => posix.resolve(workspace, path))
    .describe('relative to the workspace, or absolute');

export const reads = (path: string): Touch => ({ action: 'file.read', path });
export const writes = (path: string): Touch => ({ action: 'file.write', path });
export const deletes = (path: string): Touch => ({ action: 'file.delete', path });
export const deletesTree = (path: string): Touch => ({
  action: 'file.delete',
  path,
  recursive: true,
});

/** Shared by tools that change nothing. */
export const READ_ONLY = { risk: 'low', reversibility: 'read-only', idempotent: true } as const;

export const ExecOutput = z.object({
  exit_code: z.int().nullable(),
  signal: z.string().optional(),
  ended_by: z
    .string()
    .optional()
    .describe(
      'the limit that ended it; policy: a change of policy; seal: of a closed file on the host',
    ),
  ended: z.string().optional().describe('the same in words'),
  note: z.string().optional().describe('what else there is to know'),
  stdout: z.string(),
  stderr: z.string(),
  truncated: z.boolean().optional(),
  duration_ms: z.int(),
  network_denied: z
    .array(z.object({ host: z.string(), port: z.int(), reason: z.string(), hint: z.string() }))
    .optional()
    .describe('hosts that the way out refused while it ran'),
});

export const describeEnd = (endedBy: NonNullable<ExecResult['endedBy']>): string =>
  END_TEXTS[endedBy] ?? `by its limit of ${endedBy}`;

const END_TEXTS: Partial<Record<NonNullable<ExecResult['endedBy']>, string>> = {
  policy: 'because the policy changed while it ran and no longer allows its box',
  seal: 'because a file on the host that is closed or protected in its box was replaced',
  box: 'because its box was closed',
};

export function toExecOutput(done: ExecResult): z.input<typeof ExecOutput> {
  const { exitCode, signal, endedBy, note, stdout, stderr } = done;
  const { stdoutTruncated, stderrTruncated } = done;
  return {
    exit_code: exitCode,
    ...(signal === null ? {} : { signal }),
    ...(endedBy === null
      ? {}
      : { ended_by: endedBy, ended: `it was ended ${describeEnd(endedBy)}` }),
    ...(note === undefined ? {} : { note }),
    stdout: stdout.toString('utf8'),
    stderr: stderr.toString('utf8'),
    ...(stdoutTruncated || stderrTruncated ? { truncated: true } : {}),
    duration_ms: Math.round(done.wallMs),
    ...(done.networkDenied.length === 0
      ? {}
      : { network_denied: done.networkDenied.map(({ code: _, ...denied }) => denied) }),
  };
}
