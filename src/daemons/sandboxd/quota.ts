// What the files of a box may take together. They are measured by walking, which takes time, so
// between walks the disk is asked how much less of it is free: no box grew by more than that.
// What runs when the limit is passed is ended; what begins after that can delete, but not write.
import { freeBytes } from '../../platform/free-bytes.ts';
import type { Log } from '../../platform/log.ts';
import { makeSemaphore } from '../../platform/mutex.ts';
import { isWithin } from '../../policy/paths.ts';
import { fault } from '../../wire/errors.ts';
import type { SandboxCommand } from './adapters/warden.ts';
import { CHECK_INTERVAL_MS, makeDiskGuard } from './disk-guard.ts';

/** `beforeBytes` was there when the task tree came, and is not counted. */
export type QuotaPlace = { path: string; beforeBytes: number };

/** `note` says to whoever gave the command that nothing can be written. */
export type WriteAllowance = { isOver: boolean; useBytes: number; note: string | null };

export type Allowance = {
  limitBytes: number;
  /** Throws when so many bytes more do not fit. */
  assertRoom(bytes: number): Promise<void>;
  /** How it stands for a command that begins now. */
  begin(): Promise<WriteAllowance>;
  /** The command, which is ended by `disk` when it takes more than there may be. */
  guard(command: SandboxCommand, begun: WriteAllowance): SandboxCommand;
  /** Nobody uses it any more. */
  close(): void;
};

export type Quota = {
  /** A limit of 0 is none. */
  allowanceFor(places: readonly QuotaPlace[], limitBytes: number): Allowance;
};

/** A measure this old is taken again, whatever the disk says: others may have freed room there. */
const OLD_MS = { busy: 2_000, quiet: 10_000, idle: 30_000 } as const;
/** Of the time, walks take at most this part: of one large tree, and where it may be too much. */
const REST = { usual: 30, near: 4 } as const;
/** The warden may be on its way back; whoever stays unmeasured does not go on. */
const FAILURES_MAX = 30;
/** The warden takes twice as many, and refuses the rest, other people's among them. */
const WALKS_AT_ONCE = 8;
const GROWN_BYTES = 1_048_576;
/** Beyond the limit nothing can be written, but names can still be made. */
const SLACK_BYTES = 4 * 1_048_576;

/** One directory, measured for all boxes that write there. */
type Meter = {
  path: string;
  users: number;
  measured: { bytes: number; atMs: number; tookMs: number; freeBytes: number } | undefined;
  /** By requests for files since then; not every file system tells at once. */
  writtenBytes: number;
  walking: Promise<void> | undefined;
};

type Counted = {
  /** By the last measure, and what may have come since. Undefined: never measured. */
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
  const { measure, log, free = freeBytes, nowMs = () => performance.now() } = options;
  const meters = new Map<string, Meter>();
  const guardDisk = makeDiskGuard();

  const inLane = makeSemaphore(WALKS_AT_ONCE);
  const walk = (meter: Meter): Promise<void> => {
    meter.walking ??= inLane(async () => {
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

  const countedOf = (places: readonly (QuotaPlace & { meter: Meter })[], limitBytes: number) => {
    const total = (): number =>
      places.reduce(
        (sum, { meter, beforeBytes }) =>
          sum + Math.max(0, (meter.measured?.bytes ?? 0) - beforeBytes),
        0,
      );
    const counted: Counted = {
      limitBytes,
      estimate() {
        let [grownBytes, writtenBytes, ageMs, tookMs] = [0, 0, 0, 0];
        for (const { meter } of places) {
          if (meter.measured === undefined) return undefined;
          const { freeBytes: then, atMs, tookMs: took } = meter.measured;
          // Mostly one disk: what is missing there is not missing twice.
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
    return counted;
  };

  const isDue = (counted: Counted): boolean => {
    const now = counted.estimate();
    if (now === undefined) return true;
    const { bytes, grownBytes, ageMs, tookMs } = now;
    if (bytes > counted.limitBytes && ageMs >= Math.max(CHECK_INTERVAL_MS, REST.near * tookMs))
      return true;
    const usual = grownBytes > GROWN_BYTES ? OLD_MS.busy : OLD_MS.quiet;
    return ageMs >= Math.max(usual, REST.usual * tookMs);
  };

  const guard = (
    command: SandboxCommand,
    counted: Counted,
    ceilingBytes: number,
  ): SandboxCommand => {
    let failures = 0;
    return guardDisk(command, async () => {
      try {
        if (!isDue(counted)) return undefined;
        const useBytes = await counted.measure();
        failures = 0;
        if (useBytes <= ceilingBytes) return undefined;
        return `its files take ${inWords(useBytes)}, and ${inWords(counted.limitBytes)} are allowed`;
      } catch (error) {
        if (failures++ === 0) log.error('what a box has written cannot be measured', { error });
        return failures < FAILURES_MAX
          ? undefined
          : 'how much its files take could not be measured';
      }
    });
  };

  return {
    allowanceFor(places, limitBytes) {
      if (limitBytes === 0) return unlimited;
      const own = topmost(places).map((place) => ({ ...place, meter: take(place.path) }));
      const counted = countedOf(own, limitBytes);
      /** As exact as it has to be: measured again where it may be too much, or long ago. */
      const useWith = async (moreBytes: number): Promise<number> => {
        const now = counted.estimate();
        const isEnough =
          now !== undefined && now.ageMs < OLD_MS.idle && now.bytes + moreBytes <= limitBytes;
        return isEnough ? now.bytes : counted.measure();
      };
      let isClosed = false;
      return {
        limitBytes,
        async assertRoom(bytes) {
          const useBytes = await useWith(bytes);
          if (useBytes + bytes > limitBytes) throw tooMuch(useBytes, limitBytes);
          for (const { meter } of own.slice(0, 1)) meter.writtenBytes += bytes;
        },
        async begin() {
          const useBytes = await useWith(0);
          const isOver = useBytes >= limitBytes;
          const note =
            `the files of this task take ${inWords(useBytes)} of the ${inWords(limitBytes)} they ` +
            'may: nothing could be written. Delete what is not needed';
          return { isOver, useBytes, note: isOver ? note : null };
        },
        guard: (command, { isOver, useBytes }) =>
          guard(command, counted, isOver ? useBytes + SLACK_BYTES : limitBytes),
        close() {
          if (isClosed) return;
          isClosed = true;
          for (const { meter } of own) if (--meter.users === 0) meters.delete(meter.path);
        },
      };
    },
  };

  function take(path: string): Meter {
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
  assertRoom: async () => undefined,
  begin: async () => ({ isOver: false, useBytes: 0, note: null }),
  guard: (command) => command,
  close: () => undefined,
};

/** What lies in another of them is measured with that. */
function topmost(places: readonly QuotaPlace[]): QuotaPlace[] {
  return places.filter(
    ({ path }, i) =>
      !places.some(
        (other, j) => j !== i && isWithin(path, other.path) && (path !== other.path || j < i),
      ),
  );
}

const tooMuch = (useBytes: number, limitBytes: number) =>
  fault(
    'limit',
    `the files of this task take ${inWords(useBytes)} of the ${inWords(limitBytes)} that they may`,
    {
      hint:
        'Delete what is not needed, then write. An operator can allow more: resources.disk of ' +
        'the manifest, sandboxd.box_disk_bytes.',
      details: { use_bytes: useBytes, limit_bytes: limitBytes },
    },
  );

function inWords(bytes: number): string {
  const [unit, size] = bytes >= 1_073_741_824 ? ['GiB', 1_073_741_824] : ['MiB', 1_048_576];
  return `${(bytes / (size as number)).toFixed(1)} ${unit}`;
}
