// Enforces the quota of a box's files. Measuring walks the tree, which is slow, so between walks
// the drop in free disk space bounds the growth. A command that exceeds the quota is ended; later
// commands can delete, but not write.
import { readFreeBytes } from '../../platform/free-bytes.ts';
import type { Log } from '../../platform/log.ts';
import { makeSemaphore } from '../../platform/mutex.ts';
import { isWithin } from '../../policy/paths.ts';
import { fault } from '../../wire/errors.ts';
import type { SandboxCommand } from './adapters/warden.ts';
import { CHECK_INTERVAL_MS, makeDiskGuard } from './disk-guard.ts';

/** `beforeBytes` existed before the task tree, and is not counted. */
export type QuotaPath = { path: string; beforeBytes: number };

/** `note` informs the caller that nothing can be written. */
export type WriteAllowance = { isOver: boolean; useBytes: number; note: string | null };

export type Allowance = {
  limitBytes: number;
  /** Throws when this many more bytes do not fit. */
  assertSpace(bytes: number): Promise<void>;
  /** Resolves to the allowance of a command that starts now. */
  begin(): Promise<WriteAllowance>;
  /** Returns the command, which is ended by `disk` when it exceeds the quota. */
  guard(command: SandboxCommand, started: WriteAllowance): SandboxCommand;
  close(): void;
};

export type Quota = {
  /** A limit of 0 means none. */
  allowanceFor(places: readonly QuotaPath[], limitBytes: number): Allowance;
};

/** A measurement this old is repeated in any case: other processes may have freed space. */
const MEASURE_AGE_MS = { busy: 2_000, quiet: 10_000, idle: 30_000 } as const;
/** Rest between walks, as a multiple of a walk's duration: usually, and near the limit. */
const WALK_REST = { usual: 30, near: 4 } as const;
/** The warden may be restarting; after this many failures the command is ended. */
const FAILURES_MAX = 30;
/** The warden allows twice as many, and refuses the rest. */
const WALKS_MAX = 8;
const GROWN_BYTES = 1_048_576;
/** Beyond the limit no data can be written, but directory entries can be created. */
const SLACK_BYTES = 4 * 1_048_576;

/** One directory, measured for all boxes that write there. */
type Meter = {
  path: string;
  users: number;
  measured: { bytes: number; atMs: number; tookMs: number; freeBytes: number } | undefined;
  /** By file requests since then; not every file system updates free space at once. */
  writtenBytes: number;
  walking: Promise<void> | undefined;
};

type UsageCounter = {
  /** The last measurement plus possible growth; undefined: never measured. */
  estimate(): { bytes: number; grownBytes: number; ageMs: number; tookMs: number } | undefined;
  measure(): Promise<number>;
  limitBytes: number;
};

export function makeQuota(options: {
  measure: (path: string) => Promise<{ bytes: number }>;
  log: Log;
  free?: (path: string) => number;
  nowMs?: () => number;
}): Quota {
  const { measure, log, free = readFreeBytes, nowMs = () => performance.now() } = options;
  const meters = new Map<string, Meter>();
  const guardDisk = makeDiskGuard();

  const withWalkSlot = makeSemaphore(WALKS_MAX);
  const walk = (meter: Meter): Promise<void> => {
    meter.walking ??= withWalkSlot(async () => {
      const beganMs = nowMs();
      const freeBefore = free(meter.path);
      const { bytes } = await measure(meter.path);
      const atMs = nowMs();
      meter.measured = { bytes, atMs, tookMs: atMs - beganMs, freeBytes: freeBefore };
      meter.writtenBytes = 0;
    }).finally(() => {
      meter.walking = undefined;
    });
    return meter.walking;
  };

  const makeCounter = (places: readonly (QuotaPath & { meter: Meter })[], limitBytes: number) => {
    const total = (): number =>
      places.reduce(
        (sum, { meter, beforeBytes }) =>
          sum + Math.max(0, (meter.measured?.bytes ?? 0) - beforeBytes),
        0,
      );
    const counter: UsageCounter = {
      limitBytes,
      estimate() {
        let [grownBytes, writtenBytes, ageMs, tookMs] = [0, 0, 0, 0];
        for (const { meter } of places) {
          if (meter.measured === undefined) return undefined;
          const { freeBytes: then, atMs, tookMs: took } = meter.measured;
          // Usually all on one disk: its growth must not be counted twice.
          grownBytes = Math.max(grownBytes, then - free(meter.path));
          writtenBytes += meter.writtenBytes;
          ageMs = Math.max(ageMs, nowMs() - atMs);
          tookMs += took;
        }
        grownBytes = Math.max(grownBytes, writtenBytes);
        return { bytes: total() + grownBytes, grownBytes, ageMs, tookMs };
      },
      async measure() {
        await Promise.all(places.map(({ meter }) => walk(meter)));
        return total();
      },
    };
    return counter;
  };

  const isDue = (counter: UsageCounter): boolean => {
    const now = counter.estimate();
    if (now === undefined) return true;
    const { bytes, grownBytes, ageMs, tookMs } = now;
    if (bytes > counter.limitBytes && ageMs >= Math.max(CHECK_INTERVAL_MS, WALK_REST.near * tookMs))
      return true;
    const usual = grownBytes > GROWN_BYTES ? MEASURE_AGE_MS.busy : MEASURE_AGE_MS.quiet;
    return ageMs >= Math.max(usual, WALK_REST.usual * tookMs);
  };

  const guard = (
    command: SandboxCommand,
    counter: UsageCounter,
    ceilingBytes: number,
  ): SandboxCommand => {
    let failures = 0;
    return guardDisk(command, async () => {
      try {
        if (!isDue(counter)) return undefined;
        const useBytes = await counter.measure();
        failures = 0;
        if (useBytes <= ceilingBytes) return undefined;
        return `its files use ${formatBytes(useBytes)}, and ${formatBytes(counter.limitBytes)} are allowed`;
      } catch (error) {
        if (failures++ === 0) log.error('measuring the disk usage of a box failed', { error });
        return failures < FAILURES_MAX ? undefined : 'the size of its files could not be measured';
      }
    });
  };

  return {
    allowanceFor(places, limitBytes) {
      if (limitBytes === 0) return unlimited;
      const paths = keepTopmost(places).map((place) => ({
        ...place,
        meter: acquireMeter(place.path),
      }));
      const counter = makeCounter(paths, limitBytes);
      /** Measures only if the estimate is old or may exceed the limit. */
      const readUse = async (moreBytes: number): Promise<number> => {
        const now = counter.estimate();
        const isEnough =
          now !== undefined &&
          now.ageMs < MEASURE_AGE_MS.idle &&
          now.bytes + moreBytes <= limitBytes;
        return isEnough ? now.bytes : counter.measure();
      };
      let isClosed = false;
      return {
        limitBytes,
        async assertSpace(bytes) {
          const useBytes = await readUse(bytes);
          if (useBytes + bytes > limitBytes) throw quotaFault(useBytes, limitBytes);
          for (const { meter } of paths.slice(0, 1)) meter.writtenBytes += bytes;
        },
        async begin() {
          const useBytes = await readUse(0);
          const isOver = useBytes >= limitBytes;
          const note =
            `the files of this task use ${formatBytes(useBytes)} of ${formatBytes(limitBytes)}: ` +
            'nothing could be written. Delete files that are not needed';
          return { isOver, useBytes, note: isOver ? note : null };
        },
        guard: (command, { isOver, useBytes }) =>
          guard(command, counter, isOver ? useBytes + SLACK_BYTES : limitBytes),
        close() {
          if (isClosed) return;
          isClosed = true;
          for (const { meter } of paths) if (--meter.users === 0) meters.delete(meter.path);
        },
      };
    },
  };

  function acquireMeter(path: string): Meter {
    const fresh: Meter = {
      path,
      users: 0,
      measured: undefined,
      writtenBytes: 0,
      walking: undefined,
    };
    const meter = meters.get(path) ?? fresh;
    meters.set(path, meter);
    meter.users++;
    return meter;
  }
}

const unlimited: Allowance = {
  limitBytes: 0,
  assertSpace: async () => undefined,
  begin: async () => ({ isOver: false, useBytes: 0, note: null }),
  guard: (command) => command,
  close: () => undefined,
};

/** Drops paths that lie within another: they are measured with it. */
function keepTopmost(places: readonly QuotaPath[]): QuotaPath[] {
  return places.filter(
    ({ path }, i) =>
      !places.some(
        (other, j) => j !== i && isWithin(path, other.path) && (path !== other.path || j < i),
      ),
  );
}

const quotaFault = (useBytes: number, limitBytes: number) =>
  fault(
    'limit',
    `the files of this task use ${formatBytes(useBytes)} of ${formatBytes(limitBytes)}`,
    {
      hint:
        'Delete files that are not needed. An operator can allow more: resources.disk of ' +
        'the manifest, sandboxd.box_disk_bytes.',
      details: { use_bytes: useBytes, limit_bytes: limitBytes },
    },
  );

function formatBytes(bytes: number): string {
  const [unit, size] = bytes >= 1_073_741_824 ? ['GiB', 1_073_741_824] : ['MiB', 1_048_576];
  return `${(bytes / (size as number)).toFixed(1)} ${unit}`;
}
