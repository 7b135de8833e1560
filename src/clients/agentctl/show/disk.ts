// Describes how full the disk of the state directory is, with a warning before it is spent.
import { formatSize } from './amounts.ts';

export type DiskSpace = { size_bytes: number; free_bytes: number };

const FREE_SHARE_WARN = 0.1;
const FREE_BYTES_WARN = 2 * 2 ** 30;

/** `fix`: what to do, when less than a tenth, or less than 2 GiB, is free. */
export function describeDisk({ size_bytes: size, free_bytes: free }: DiskSpace): {
  text: string;
  fix: string | undefined;
} {
  const isLow = free < FREE_SHARE_WARN * size || free < FREE_BYTES_WARN;
  return {
    text: `${formatSize(free)} of ${formatSize(size)} free`,
    fix: isLow ? 'see agentctl du, then lower the ages and sizes of retention' : undefined,
  };
}
