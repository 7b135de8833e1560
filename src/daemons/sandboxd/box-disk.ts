// The disk as one box sees it: what is kept of it from all agents (disk.ts), and what the files of
// this box may take (quota.ts), around each command and each file that is written.
import type { PlanLimits } from './adapters/plan.ts';
import type { SandboxCommand, Warden } from './adapters/warden.ts';
import type { Disk } from './disk.ts';
import type { Quota, QuotaPlace } from './quota.ts';
import type { SandboxdStore } from './store.ts';

export type BoxDisk = {
  /** Throws when so many bytes more do not fit. */
  assertRoom(bytes: number): Promise<void>;
  /** Begins a command with what it may write, and ends it when it takes more. */
  run(
    limits: PlanLimits,
    start: (limits: PlanLimits) => Promise<SandboxCommand>,
  ): Promise<SandboxCommand>;
  close(): void;
};

export type BoxDisks = {
  /** `limitBytes` 0: as much as there is, but for what is kept. */
  forBox(box: {
    rootTaskId: string;
    writes: readonly string[];
    limitBytes: number;
  }): Promise<BoxDisk>;
};

/** So little that nothing can be written: the kernel's word for none would be "not said". */
const NO_FILE_BYTES = 1;

export function makeBoxDisks(options: {
  disk: Disk;
  quota: Quota;
  store: Pick<SandboxdStore, 'diskBefore' | 'recordDiskBefore'>;
  warden: Pick<Warden, 'measure'>;
  /** Directories that are empty when a task tree comes: all that is in them is its own. */
  ownDirs: readonly string[];
}): BoxDisks {
  const { disk, quota, store, warden, ownDirs } = options;

  const placeOf = async (rootTaskId: string, path: string): Promise<QuotaPlace> => {
    if (ownDirs.some((dir) => path.startsWith(`${dir}/`))) return { path, beforeBytes: 0 };
    const known = await store.diskBefore(rootTaskId, path);
    if (known !== undefined) return { path, beforeBytes: known };
    const { bytes } = await warden.measure(path);
    return { path, beforeBytes: await store.recordDiskBefore(rootTaskId, path, bytes) };
  };

  return {
    async forBox({ rootTaskId, writes, limitBytes }) {
      const places =
        limitBytes === 0 ? [] : await Promise.all(writes.map((path) => placeOf(rootTaskId, path)));
      const allowance = quota.allowanceFor(places, limitBytes);
      const isAllOwn = limitBytes > 0 && places.every(({ beforeBytes }) => beforeBytes === 0);
      // One file can be no larger than all: that much the kernel itself holds.
      const fileBytes = (limits: PlanLimits) =>
        isAllOwn ? Math.min(limits.fsizeBytes, limitBytes) : limits.fsizeBytes;
      return {
        async assertRoom(bytes) {
          disk.assertRoom(writes);
          await allowance.assertRoom(bytes);
        },
        async run(limits, start) {
          disk.assertRoom(writes);
          const begun = await allowance.begin();
          const fsizeBytes = begun.isOver ? NO_FILE_BYTES : fileBytes(limits);
          const command = await start({ ...limits, fsizeBytes });
          const guarded = allowance.guard(disk.guard(command, writes), begun);
          return begun.note === null ? guarded : withNote(guarded, begun.note);
        },
        close: () => allowance.close(),
      };
    },
  };
}

function withNote(command: SandboxCommand, note: string): SandboxCommand {
  const ended = command.ended.then((exit) => (exit === 'gone' ? exit : { note, ...exit }));
  return { ...command, ended };
}
