// Limits that the file tools share, and how they read the faults of a box's files.
import { Fault } from '../../../../wire/errors.ts';
import { FileFaultReason } from '../../../../wire/sandboxd/files.ts';
import type { Box } from '../box.ts';

export const LIMITS = { timeoutMs: 20_000, callsPerRunMax: 5_000 } as const;
export const PAGE_BYTES = 100_000;
/** The largest text that is edited or compared. */
export const TEXT_BYTES_MAX = 4 * 1024 * 1024;

/** Undefined when the fault is not about a file in the box. */
export const reasonOf = (error: unknown): FileFaultReason | undefined =>
  error instanceof Fault ? FileFaultReason.safeParse(error.details?.reason).data : undefined;

/**
 * Returns undefined only when the path certainly does not exist. Throws when it cannot be read (a
 * link that leads out, a busy box), because it may exist for a program in the box.
 */
export async function statIfThere({ files }: Pick<Box, 'files'>, path: string) {
  try {
    return await files.perform({ op: 'stat', path });
  } catch (error) {
    const reason = reasonOf(error);
    if (reason === 'not_found' || reason === 'not_directory') return undefined;
    throw error;
  }
}
