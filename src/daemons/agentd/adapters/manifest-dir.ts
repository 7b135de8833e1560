// Reads and watches the directory of manifests, and reports the whole set on every change.
// manifests/read-manifest.ts parses a file, manifests/manifest-set.ts decides what is in force.
import { constants, type Stats, statSync } from 'node:fs';
import { type FileHandle, lstat, open, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import type { Clock } from '../../../platform/clock.ts';
import { sha256Hex } from '../../../platform/json.ts';
import type { Log } from '../../../platform/log.ts';
import { makeMutex } from '../../../platform/mutex.ts';
import { watchDir } from '../../../platform/watch-dir.ts';
import type { FileProblem } from '../../../wire/primitives.ts';
import type { ReadManifest } from '../manifests/declared-tools.ts';
import {
  type FiledAgent,
  type ManifestSet,
  mergeManifests,
  type Reading,
} from '../manifests/manifest-set.ts';
import {
  type ManifestResult,
  manifestSizeBytesMax,
  readManifest,
  tooLargeProblem,
} from '../manifests/read-manifest.ts';

export type ManifestDirOptions = {
  dir: string;
  clock: Clock;
  log: Log;
  read?: ReadManifest;
  /** When it changes, every file is read again: a manifest depends on more than its text. */
  version?: () => string;
  /** The set before this process started; used for files that have broken since. */
  inForce?: readonly FiledAgent[];
  /** Gets each later set. If it fails, it gets the set again at the next scan. */
  onChange: (set: ManifestSet) => Promise<void> | void;
  /** Changes within this time are reported together. */
  settleMs?: number;
  /** For file systems that cannot be watched. */
  pollIntervalMs?: number;
};

export type ManifestDir = {
  current(): ManifestSet;
  /** Resolves when the changes found have been reported. */
  rescan(): Promise<void>;
  close(): void;
};

export async function openManifestDir(options: ManifestDirOptions): Promise<ManifestDir> {
  const { dir, clock, log, settleMs = 100, pollIntervalMs = 5_000 } = options;
  const reader = makeReader(
    dir,
    options.read ?? (async (text, file) => readManifest(text, file)),
    options.version ?? (() => ''),
  );
  let current: ManifestSet = { agents: [...(options.inForce ?? [])], problems: [] };
  let closed = false;
  const withLock = makeMutex();
  let pendingScans = 0;

  const withScanLock = (work: () => Promise<void>): Promise<void> => {
    pendingScans++;
    return withLock(work).finally(() => pendingScans--);
  };
  const scan = (trustStat: boolean): Promise<void> =>
    withScanLock(async () => {
      if (closed) return;
      const set = await reader.read(current.agents, trustStat);
      if (closed || isSameSet(set, current)) return;
      await options.onChange(set);
      current = set;
    });
  const scanInBackground = (trustStat: boolean): void => {
    scan(trustStat).catch((error: unknown) =>
      log.error('applying changed manifests failed; retrying', { dir, error }),
    );
  };

  // Watched before it is read, so that a change in between is not missed.
  const watcher = watchDir({
    dir,
    clock,
    settleMs,
    pollIntervalMs: pollIntervalMs,
    onChange(why) {
      if (why === 'event') scanInBackground(false);
      else if (pendingScans === 0) scanInBackground(true);
    },
  });
  await withScanLock(async () => {
    current = await reader.read(current.agents, false);
  });
  return {
    current: () => current,
    rescan: () => scan(false),
    close() {
      closed = true;
      watcher.close();
    },
  };
}

function isSameSet(a: ManifestSet, b: ManifestSet): boolean {
  return (
    a.agents.length === b.agents.length &&
    a.agents.every(({ agent, file }, i) => {
      const other = b.agents[i]!;
      const isSameAgent =
        agent.name === other.agent.name &&
        agent.hash === other.agent.hash &&
        agent.persona === other.agent.persona;
      return isSameAgent && file === other.file;
    }) &&
    JSON.stringify(a.problems) === JSON.stringify(b.problems)
  );
}

type CachedManifest = { stamp: string; hash: string; version: string; result: ManifestResult };

const FILES_PER_TICK = 100;

const formatStamp = ({ dev, ino, size, mtimeMs, ctimeMs }: Stats): string =>
  `${dev} ${ino} ${size} ${mtimeMs} ${ctimeMs}`;

/** Returns undefined if the file does not exist or cannot be read. */
function readStamp(file: string): string | undefined {
  try {
    const found = statSync(file, { throwIfNoEntry: false });
    return found === undefined ? undefined : formatStamp(found);
  } catch {
    return undefined;
  }
}

function makeReader(dir: string, readText: ReadManifest, getVersion: () => string) {
  let cache = new Map<string, CachedManifest>();
  return {
    /** With `trustStat`, a file with unchanged time and size is not read again. */
    async read(inForce: readonly FiledAgent[], trustStat: boolean): Promise<ManifestSet> {
      let names: string[];
      try {
        names = await readdir(dir);
      } catch (error) {
        return { agents: [...inForce], problems: [unreadableProblem(dir, error)] };
      }
      const version = getVersion();
      const next = new Map<string, CachedManifest>();
      const readings: Reading[] = [];
      for (const name of names.filter((entry) => /^[^.].*\.ya?ml$/.test(entry)).sort()) {
        const file = join(dir, name);
        // A broken manifest may be valid now: a tool that it names may have been declared since.
        const last = cache.get(file);
        const isUsable = last?.result.ok === true && last.version === version;
        const before = isUsable ? last : undefined;
        const isSame = trustStat && before !== undefined && readStamp(file) === before.stamp;
        const found = isSame ? before : await readManifestFile(file, version, before, readText);
        // Yields regularly, because checking unchanged files is synchronous.
        if (next.size % FILES_PER_TICK === 0) await setImmediate();
        if (found === undefined) continue;
        next.set(file, found);
        readings.push({ file, result: found.result });
      }
      cache = next;
      return mergeManifests(readings, inForce);
    },
  };
}

/** Returns undefined if the file was removed after the directory was listed. */
async function readManifestFile(
  file: string,
  version: string,
  before: CachedManifest | undefined,
  readText: ReadManifest,
): Promise<CachedManifest | undefined> {
  const refuse = (problem: FileProblem): CachedManifest => ({
    stamp: '',
    hash: '',
    version,
    result: { ok: false, problems: [problem] },
  });
  let handle: FileHandle | undefined;
  try {
    // Without O_NONBLOCK, opening a named pipe would block until it has a writer.
    handle = await open(file, constants.O_RDONLY | constants.O_NONBLOCK);
    const stats = await handle.stat();
    if (!stats.isFile()) {
      return refuse({ file, line: null, message: 'not a regular file', hint: 'Remove it.' });
    }
    const stamp = formatStamp(stats);
    if (stats.size > manifestSizeBytesMax) return refuse(tooLargeProblem(file, stats.size));
    const text = decode(await readUpTo(handle, stats.size + 1));
    if (text === undefined) return refuse(notTextProblem(file));
    const hash = sha256Hex(text);
    if (hash === before?.hash) return { ...before, stamp };
    return { stamp, hash, version, result: await readText(text, file) };
  } catch (error) {
    if (await isRemoved(file, error)) return undefined;
    return refuse(unreadableProblem(file, error));
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

/** A dangling symbolic link still exists, and is a problem. */
async function isRemoved(file: string, error: unknown): Promise<boolean> {
  if ((error as NodeJS.ErrnoException).code !== 'ENOENT') return false;
  return lstat(file).then(
    () => false,
    () => true,
  );
}

function notTextProblem(file: string): FileProblem {
  return { file, line: null, message: 'not valid UTF-8', hint: 'Save the file as UTF-8 text.' };
}

function unreadableProblem(file: string, error: unknown): FileProblem {
  return {
    file,
    line: null,
    message: `cannot be read: ${(error as Error).message}`,
    hint: 'Make it readable for agentd, or remove it.',
  };
}
