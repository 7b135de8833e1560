// The last of a disk is not for agents. Where less than the reserve is free, nothing that writes is
// begun in a box, and what runs there is ended: a full disk must not keep the runtime from writing
// down what happens.
import { freeBytes, isShortOfFiles } from '../../platform/free-bytes.ts';
import { fault } from '../../wire/errors.ts';
import type { SandboxCommand } from './adapters/warden.ts';
import { makeDiskGuard } from './disk-guard.ts';

export type Disk = {
  /** Throws when one of the disks that hold these has no room for agents. */
  assertRoom(paths: readonly string[]): void;
  /** The command, which is ended by `disk` when the room goes while it runs. */
  guard(command: SandboxCommand, paths: readonly string[]): SandboxCommand;
};

const NOTE = 'the disk is full, but for what is kept from agents';

export function makeDisk(
  reserveBytes: number,
  free: (path: string) => number = freeBytes,
  isShort: (path: string) => boolean = isShortOfFiles,
): Disk {
  const guard = makeDiskGuard();

  const findFull = (paths: readonly string[]): string | undefined =>
    reserveBytes === 0
      ? undefined
      : paths.find((path) => free(path) < reserveBytes || isShort(path));

  const isRoomy = (paths: readonly string[]): boolean => {
    try {
      return findFull(paths) === undefined;
    } catch {
      return false; // Nobody knows what is left, so nobody writes there.
    }
  };

  return {
    assertRoom(paths) {
      const full = findFull(paths);
      if (full === undefined) return;
      const left = Math.floor(free(full) / 1_048_576);
      const kept = Math.ceil(reserveBytes / 1_048_576);
      const bytes = `has ${left} MiB left, and ${kept} MiB are kept from agents`;
      const files = 'takes few more files, and those are kept from agents';
      throw fault(
        'storage_full',
        `the disk of ${full} ${free(full) < reserveBytes ? bytes : files}`,
        {
          hint: 'Delete what is not needed. An operator can keep less: sandboxd.disk_reserve_bytes.',
        },
      );
    },
    guard: (command, paths) =>
      reserveBytes === 0 ? command : guard(command, () => (isRoomy(paths) ? undefined : NOTE)),
  };
}
