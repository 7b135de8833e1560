// What the file tools share: how long, how often, how much at once, and how they read what was
// refused.
import { Fault } from '../../../../wire/errors.ts';
import type { Box } from '../box.ts';

/** Generous, so that only what runs wild meets them. */
export const LIMITS = { timeoutMs: 20_000, callsPerRunMax: 5_000 } as const;
export const PAGE_BYTES = 100_000;
/** What is changed or compared as a whole. */
export const TEXT_BYTES_MAX = 4 * 1024 * 1024;

/** The short word of a refusal of the box's files. */
export const reasonOf = (error: unknown): unknown =>
  error instanceof Fault ? error.details?.reason : undefined;

/**
 * undefined when there is certainly nothing. What cannot be looked at (a link that leads out, a box
 * that is busy) may well be there for a program in the box, so that is thrown.
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
