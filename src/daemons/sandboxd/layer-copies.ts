// Layers that are copies: where no overlay can be mounted, agents work on a copy of the person's
// directory. boxfs makes it in a box of the tree's user, which can read what the tree may read, and
// records what it was; what differs from that record is a change.
import type { Clock } from '../../platform/clock.ts';
import { isFault } from '../../platform/daemon.ts';
import type { Log } from '../../platform/log.ts';
import { type Fault, fault } from '../../wire/errors.ts';
import type { CopiedPage } from './adapters/boxfs-copies.ts';
import type { Warden } from './adapters/warden.ts';
import type { SandboxdConfig } from './config.ts';
import type { Disk } from './disk.ts';
import type { HostUser } from './identities.ts';
import type { WithBoxfs } from './layer-boxfs.ts';
import type { LayerDirs } from './layer-dirs.ts';
import { PLACES } from './layer-places.ts';
import type { LayerRow } from './layer-rows.ts';
import type { SandboxdStore } from './store.ts';

/** An opened layer that has, or will have, the copy. */
type OpenCopy = { row: LayerRow; user: HostUser; handle: string };

export type LayerCopies = {
  /** Makes the copy, if there is none; resolves to the row that says so. */
  fill(open: OpenCopy): Promise<LayerRow>;
};

/** Each takes an inode, and every list of changes looks at all. */
const ENTRIES_MAX = 200_000;
/** The longest tick of a kernel and some more: what is written later has another time. */
const TICK_MS = 15;
const GIB = 1_073_741_824;

/** True for the refusal of an overlay in whose place a copy works. */
export const isOverlayRefusal = (error: unknown): error is Fault =>
  isFault(error, 'level_unavailable') && error.details?.refused === 'overlay';

export function makeLayerCopies(options: {
  config: Pick<SandboxdConfig, 'layer_copy_bytes_max'>;
  dirs: Pick<LayerDirs, 'makeOwned' | 'uppersOf'>;
  store: Pick<SandboxdStore, 'addCopy'>;
  warden: Pick<Warden, 'measure'>;
  disk: Pick<Disk, 'assertSpace'>;
  withBoxfs: WithBoxfs;
  clock: Clock;
  log: Log;
  failpoint: (name: string) => void;
}): LayerCopies {
  const { dirs, store, warden, disk, clock, failpoint } = options;
  const bytesMax = options.config.layer_copy_bytes_max;

  const copy = async ({ row, user, handle }: OpenCopy): Promise<CopiedPage> => {
    const record = await dirs.makeOwned(row, ['copies', String(row.number), 'record']);
    const { upper } = dirs.uppersOf(row);
    const binds = [
      { kind: 'layer', src: handle, dst: PLACES.merged, readonly: false },
      { kind: 'rw', src: record, dst: PLACES.upper },
      { kind: 'ro', src: row.path, dst: PLACES.lower, owned: true },
    ] as const;
    return options.withBoxfs(user, binds, async (boxfs) => {
      const sum = { entries: 0, leftOut: 0, cloned: 0, bytes: 0 };
      for (let after: string | null = ''; after !== null; ) {
        disk.assertSpace([upper]);
        const limits = { bytesMax: bytesMax - sum.bytes, entriesMax: ENTRIES_MAX - sum.entries };
        const page: CopiedPage = await boxfs.copyTree(PLACES, { after, ...limits });
        if (page.isOver) throw overFault(row.path, bytesMax);
        for (const key of ['entries', 'leftOut', 'cloned', 'bytes'] as const) sum[key] += page[key];
        failpoint('sandboxd.after-copied-page');
        after = page.next;
      }
      return { next: null, isOver: false, ...sum };
    });
  };

  return {
    async fill(open) {
      const { row } = open;
      const { rootTaskId, number } = row;
      const beganMs = performance.now();
      const { entries, leftOut, cloned, bytes } = await copy(open);
      await new Promise<void>((resolve) => clock.at(clock.nowMs() + TICK_MS, resolve));
      const { bytes: onDisk } = await warden.measure(dirs.uppersOf(row).upper);
      failpoint('sandboxd.before-copy-recorded');
      await store.addCopy(rootTaskId, { number, path: dirs.uppersOf(row).upper, bytes: onDisk });
      const tookMs = Math.round(performance.now() - beganMs);
      options.log.info('copied a directory for a task', {
        task: rootTaskId,
        entries,
        left_out: leftOut,
        cloned,
        bytes,
        took_ms: tookMs,
      });
      return { ...row, copies: { ...row.copies, [number]: onDisk } };
    },
  };
}

function overFault(path: string, bytesMax: number): Fault {
  const limits = `${(bytesMax / GIB).toFixed(1)} GiB and ${ENTRIES_MAX} files`;
  return fault('too_large', `${path} has more than ${limits}, and would have to be copied`, {
    hint:
      'Name a smaller directory in it, or create the task with --live. An operator can put the ' +
      'state directory on ext4, xfs, btrfs or tmpfs, where nothing is copied, or raise ' +
      'sandboxd.layer_copy_bytes_max.',
  });
}
