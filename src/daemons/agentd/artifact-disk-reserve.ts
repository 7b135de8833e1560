// Keeps part of the disk free of artifacts, because the runtime records events and state on the
// same disk.
import { isLowOnFiles, readFreeBytes } from '../../platform/free-bytes.ts';
import { fault } from '../../wire/errors.ts';

export type ArtifactDiskReserve = {
  /** Runs `work`. Throws if `sizeBytes`, with all pending writes, would cut into the reserve. */
  reserveWhile<T>(sizeBytes: number, work: () => Promise<T>): Promise<T>;
};

const toMiB = (bytes: number): number => Math.max(0, Math.floor(bytes / 1_048_576));

export function makeArtifactDiskReserve(options: {
  dir: string;
  /** 0 disables the reserve. */
  reserveBytes: number;
  free?: (path: string) => number;
  isShort?: (path: string) => boolean;
}): ArtifactDiskReserve {
  const { dir, reserveBytes, free = readFreeBytes, isShort = isLowOnFiles } = options;
  const hint = 'Store less, free disk space, or lower agentd.disk_reserve_bytes.';
  let pendingBytes = 0;
  return {
    async reserveWhile(sizeBytes, work) {
      const availableBytes =
        reserveBytes === 0 ? Number.POSITIVE_INFINITY : free(dir) - pendingBytes;
      if (availableBytes - sizeBytes < reserveBytes)
        throw fault(
          'storage_full',
          `the artifact disk has ${toMiB(availableBytes)} MiB free, and ${toMiB(reserveBytes)} MiB ` +
            'are reserved for the runtime',
          { hint },
        );
      if (reserveBytes > 0 && isShort(dir)) {
        const message =
          'the artifact disk is short of inodes, and the rest are reserved for the runtime';
        throw fault('storage_full', message, { hint });
      }
      pendingBytes += sizeBytes;
      try {
        return await work();
      } finally {
        pendingBytes -= sizeBytes;
      }
    },
  };
}
