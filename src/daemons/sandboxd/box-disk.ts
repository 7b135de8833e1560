// The disk limits of one box: applies the reserve of the disk (disk.ts) and the box's quota
// (quota.ts) to each command and each written file.
import type { PlanLimits } from './adapters/plan.ts';
import type { SandboxCommand, Warden } from './adapters/warden.ts';
import type { Disk } from './disk.ts';
import type { Quota, QuotaPath } from './quota.ts';
import type { SandboxdStore } from './store.ts';

export type BoxDisk = {
  /** Throws when this many more bytes do not fit. */
  assertSpace(bytes: number): Promise<void>;
  /** Starts a command with a file size limit, and ends it when it exceeds its quota. */
  run(
    limits: PlanLimits,
    start: (limits: PlanLimits) => Promise<SandboxCommand>,
  ): Promise<SandboxCommand>;
  close(): void;
};

export type BoxDisks = {
  /** `limitBytes` 0: no quota, only the disk's reserve. */
  forBox(box: {
    rootTaskId: string;
    writes: readonly string[];
    limitBytes: number;
  }): Promise<BoxDisk>;
};

/** In effect no writes; 0 would mean "no limit given". */
const NO_FILE_BYTES = 1;

export function makeBoxDisks(options: {
  disk: Disk;
  quota: Quota;
  store: Pick<SandboxdStore, 'diskBefore' | 'recordDiskBefore'>;
  warden: Pick<Warden, 'measure'>;
  /** Directories that are empty when a task tree starts: all content is its own. */
  ownDirs: readonly string[];
}): BoxDisks {
  const { disk, quota, store, warden, ownDirs } = options;

  const toQuotaPath = async (rootTaskId: string, path: string): Promise<QuotaPath> => {
    const known = await store.diskBefore(rootTaskId, path);
    if (known !== undefined) return { path, beforeBytes: known };
    if (ownDirs.some((dir) => path.startsWith(`${dir}/`))) return { path, beforeBytes: 0 };
    const { bytes } = await warden.measure(path);
    return { path, beforeBytes: await store.recordDiskBefore(rootTaskId, path, bytes) };
  };

  return {
    async forBox({ rootTaskId, writes, limitBytes }) {
      const places =
        limitBytes === 0
          ? []
          : await Promise.all(writes.map((path) => toQuotaPath(rootTaskId, path)));
      const allowance = quota.allowanceFor(places, limitBytes);
      const isAllOwn = limitBytes > 0 && places.every(({ beforeBytes }) => beforeBytes === 0);
      // One file can be no larger than the quota: that much the kernel enforces.
      const fileBytes = (limits: PlanLimits) =>
        isAllOwn ? Math.min(limits.fsizeBytes, limitBytes) : limits.fsizeBytes;
      return {
        async assertSpace(bytes) {
          disk.assertSpace(writes);
          await allowance.assertSpace(bytes);
        },
        async run(limits, start) {
          disk.assertSpace(writes);
          const allowed = await allowance.begin();
          const fsizeBytes = allowed.isOver ? NO_FILE_BYTES : fileBytes(limits);
          const command = await start({ ...limits, fsizeBytes });
          const guarded = allowance.guard(disk.guard(command, writes), allowed);
          return allowed.note === null ? guarded : withNote(guarded, allowed.note);
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
