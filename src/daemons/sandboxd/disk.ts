// Keeps a reserve of free disk space from agents. Below the reserve, no command is started in a box
// and running ones are ended, so that the runtime itself can always write its records.
import { isLowOnFiles, readFreeBytes } from '../../platform/free-bytes.ts';
import { fault } from '../../wire/errors.ts';
import type { SandboxCommand } from './adapters/warden.ts';
import { makeDiskGuard } from './disk-guard.ts';

export type Disk = {
  /** Throws when the disk of one of these paths is below its reserve. */
  assertSpace(paths: readonly string[]): void;
  /** Returns the command, which is ended by `disk` when space runs out. */
  guard(command: SandboxCommand, paths: readonly string[]): SandboxCommand;
};

const FULL_NOTE = 'the disk is full, except for the reserve';

export function makeDisk(
  reserveBytes: number,
  free: (path: string) => number = readFreeBytes,
  isShort: (path: string) => boolean = isLowOnFiles,
): Disk {
  const guard = makeDiskGuard();

  const findFull = (paths: readonly string[]): string | undefined =>
    reserveBytes === 0
      ? undefined
      : paths.find((path) => free(path) < reserveBytes || isShort(path));

  const hasSpace = (paths: readonly string[]): boolean => {
    try {
      return findFull(paths) === undefined;
    } catch {
      return false; // Unknown free space counts as none.
    }
  };

  return {
    assertSpace(paths) {
      const full = findFull(paths);
      if (full === undefined) return;
      const freeMib = Math.floor(free(full) / 1_048_576);
      const reservedMib = Math.ceil(reserveBytes / 1_048_576);
      const bytes = `has ${freeMib} MiB left, and ${reservedMib} MiB are reserved`;
      const files = 'has few inodes left, and those are reserved';
      throw fault(
        'storage_full',
        `the disk of ${full} ${free(full) < reserveBytes ? bytes : files}`,
        {
          hint: 'Delete files that are not needed. An operator can lower sandboxd.disk_reserve_bytes.',
        },
      );
    },
    guard: (command, paths) =>
      reserveBytes === 0
        ? command
        : guard(command, () => (hasSpace(paths) ? undefined : FULL_NOTE)),
  };
}
