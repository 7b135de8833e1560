// A directory of manifests: read, watched, and told as one whole set whenever anything about it
// changes. What a manifest means is manifests.ts's, which ones are in force is manifest-set.ts's.
import { constants, type Stats, statSync } from 'node:fs';
import { type FileHandle, lstat, open, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import type { Clock } from '../../../platform/clock.ts';
import { sha256Hex } from '../../../platform/json.ts';
import type { Log } from '../../../platform/log.ts';
import { makeMutex } from '../../../platform/mutex.ts';
import { followDir } from '../../../platform/watch-dir.ts';
import type { FileProblem } from '../../../wire/primitives.ts';
import type { ReadManifest } from '../declared-tools.ts';
import {
  type FiledAgent,
  type ManifestSet,
  mergeManifests,
  type Reading,
} from '../manifest-set.ts';
import { type ManifestResult, manifestSizeBytesMax, readManifest, tooLarge } from '../manifests.ts';

export type ManifestDirOptions = {
  dir: string;
  clock: Clock;
  log: Log;
  read?: ReadManifest;
  /**
   * What was in force before this process started, so that a file broken meanwhile changes nothing.
   */
  inForce?: readonly FiledAgent[];
  /** Gets each later set. When it fails, the same set is offered again at the next look. */
  onChange: (set: ManifestSet) => Promise<void> | void;
  /** Changes that come together are told together. */
  settleMs?: number;
  /** A look without being told, for where watching does not work. */
  lookEveryMs?: number;
};

export type ManifestDir = {
  /** The set that was read first, then the one that was last told. */
  current(): ManifestSet;
  /** Looks now; returns when what was found has been told. */
  rescan(): Promise<void>;
  close(): void;
};

export type { ManifestSet };

export async function openManifestDir(options: ManifestDirOptions): Promise<ManifestDir> {
  const { dir, clock, log, settleMs = 100, lookEveryMs = 5_000 } = options;
  const reader = makeReader(dir, options.read ?? (async (text, file) => readManifest(text, file)));
  let current: ManifestSet = { agents: [...(options.inForce ?? [])], problems: [] };
  let closed = false;
  const inTurn = makeMutex();
  let turnsOpen = 0;

  const takeTurn = (work: () => Promise<void>): Promise<void> => {
    turnsOpen++;
    return inTurn(work).finally(() => turnsOpen--);
  };
  const look = (trustStat: boolean): Promise<void> =>
    takeTurn(async () => {
      if (closed) return;
      const set = await reader.read(current.agents, trustStat);
      if (closed || isSameSet(set, current)) return;
      await options.onChange(set);
      current = set;
    });
  const lookUnasked = (trustStat: boolean): void => {
    look(trustStat).catch((error: unknown) =>
      log.error('changed manifests could not be taken over; trying again', { dir, error }),
    );
  };

  // Followed before it is read: a change in between is seen twice rather than never.
  const followed = followDir({
    dir,
    clock,
    settleMs,
    lookEveryMs,
    look(why) {
      if (why === 'told') lookUnasked(false);
      else if (turnsOpen === 0) lookUnasked(true);
    },
  });
  await takeTurn(async () => {
    current = await reader.read(current.agents, false);
  });
  return {
    current: () => current,
    rescan: () => look(false),
    close() {
      closed = true;
      followed.close();
    },
  };
}

function isSameSet(a: ManifestSet, b: ManifestSet): boolean {
  return (
    a.agents.length === b.agents.length &&
    a.agents.every(({ agent, file }, i) => {
      const other = b.agents[i]!;
      const isSameAgent = agent.name === other.agent.name && agent.hash === other.agent.hash;
      return isSameAgent && file === other.file;
    }) &&
    JSON.stringify(a.problems) === JSON.stringify(b.problems)
  );
}

type Known = { stamp: string; hash: string; result: ManifestResult };

const STATS_PER_TURN = 100;

const formatStamp = ({ dev, ino, size, mtimeMs, ctimeMs }: Stats): string =>
  `${dev} ${ino} ${size} ${mtimeMs} ${ctimeMs}`;

/** Tells whether the file is still the one that was read; undefined when it cannot be looked at. */
function stampOf(file: string): string | undefined {
  try {
    const found = statSync(file, { throwIfNoEntry: false });
    return found === undefined ? undefined : formatStamp(found);
  } catch {
    return undefined;
  }
}

function makeReader(dir: string, readText: ReadManifest) {
  let known = new Map<string, Known>();
  return {
    /** With `trustStat`, a file whose time and size are the same is not read again. */
    async read(inForce: readonly FiledAgent[], trustStat: boolean): Promise<ManifestSet> {
      let names: string[];
      try {
        names = await readdir(dir);
      } catch (error) {
        return { agents: [...inForce], problems: [unreadable(dir, error)] };
      }
      const next = new Map<string, Known>();
      const readings: Reading[] = [];
      for (const name of names.filter((one) => /^[^.].*\.ya?ml$/.test(one)).sort()) {
        const file = join(dir, name);
        // What was wrong may be right now: a tool that it names may have been declared since.
        const last = known.get(file);
        const before = last?.result.ok === true ? last : undefined;
        const isSame = trustStat && before !== undefined && stampOf(file) === before.stamp;
        const found = isSame ? before : await readOne(file, before, readText);
        // Looks that find nothing new leave no garbage behind, but give others a turn.
        if (next.size % STATS_PER_TURN === 0) await setImmediate();
        if (found === undefined) continue;
        next.set(file, found);
        readings.push({ file, result: found.result });
      }
      known = next;
      return mergeManifests(readings, inForce);
    },
  };
}

/** undefined: the file has gone since the directory was listed. */
async function readOne(
  file: string,
  before: Known | undefined,
  readText: ReadManifest,
): Promise<Known | undefined> {
  const refuse = (problem: FileProblem): Known => ({
    stamp: '',
    hash: '',
    result: { ok: false, problems: [problem] },
  });
  let handle: FileHandle | undefined;
  try {
    // Without O_NONBLOCK, opening a pipe would wait for ever for somebody to write into it.
    handle = await open(file, constants.O_RDONLY | constants.O_NONBLOCK);
    const stats = await handle.stat();
    if (!stats.isFile()) {
      return refuse({ file, line: null, message: 'is not a file', hint: 'Remove it.' });
    }
    const stamp = formatStamp(stats);
    if (stats.size > manifestSizeBytesMax) return refuse(tooLarge(file, stats.size));
    const text = decode(await readUpTo(handle, stats.size + 1));
    if (text === undefined) return refuse(notText(file));
    const hash = sha256Hex(text);
    if (hash === before?.hash) return { ...before, stamp };
    return { stamp, hash, result: await readText(text, file) };
  } catch (error) {
    if (await hasGone(file, error)) return undefined;
    return refuse(unreadable(file, error));
  } finally {
    await handle?.close();
  }
}

async function readUpTo(handle: FileHandle, sizeBytesMax: number): Promise<Buffer> {
  const buffer = Buffer.alloc(sizeBytesMax);
  let length = 0;
  for (let last = -1; last !== 0 && length < sizeBytesMax; length += last) {
    last = (await handle.read(buffer, length, sizeBytesMax - length, length)).bytesRead;
  }
  return buffer.subarray(0, length);
}

function decode(bytes: Buffer): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return undefined;
  }
}

/** A link that points to nothing is still there, and a problem. */
async function hasGone(file: string, error: unknown): Promise<boolean> {
  if ((error as NodeJS.ErrnoException).code !== 'ENOENT') return false;
  return lstat(file).then(
    () => false,
    () => true,
  );
}

function notText(file: string): FileProblem {
  return { file, line: null, message: 'is not valid UTF-8', hint: 'Save the file as UTF-8 text.' };
}

function unreadable(file: string, error: unknown): FileProblem {
  return {
    file,
    line: null,
    message: `cannot be read: ${(error as Error).message}`,
    hint: 'Make it readable for agentd, or remove it.',
  };
}
