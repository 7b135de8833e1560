// What agents store takes room of the same disk that the runtime writes down what happens on. The
// last of it is not for them.
import { freeBytes, isShortOfFiles } from '../../platform/free-bytes.ts';
import { fault } from '../../wire/errors.ts';

export type ArtifactRoom = {
  /** Throws when so many bytes, beside those that are just being stored, do not fit. */
  during<T>(sizeBytes: number, work: () => Promise<T>): Promise<T>;
};

const inMiB = (bytes: number): number => Math.max(0, Math.floor(bytes / 1_048_576));

export function makeArtifactRoom(options: {
  dir: string;
  /** 0 keeps nothing. */
  reserveBytes: number;
  free?: (path: string) => number;
  isShort?: (path: string) => boolean;
}): ArtifactRoom {
  const { dir, reserveBytes, free = freeBytes, isShort = isShortOfFiles } = options;
  const hint = 'Store less. An operator can make room, or keep less: agentd.disk_reserve_bytes.';
  let storingBytes = 0;
  return {
    async during(sizeBytes, work) {
      const leftBytes = reserveBytes === 0 ? Number.POSITIVE_INFINITY : free(dir) - storingBytes;
      if (leftBytes - sizeBytes < reserveBytes)
        throw fault(
          'storage_full',
          `the disk for artifacts has ${inMiB(leftBytes)} MiB left, and ${inMiB(reserveBytes)} MiB ` +
            'are kept from agents',
          { hint },
        );
      if (reserveBytes > 0 && isShort(dir)) {
        const message =
          'the disk for artifacts takes few more files, and those are kept from agents';
        throw fault('storage_full', message, { hint });
      }
      storingBytes += sizeBytes;
      try {
        return await work();
      } finally {
        storingBytes -= sizeBytes;
      }
    },
  };
}
