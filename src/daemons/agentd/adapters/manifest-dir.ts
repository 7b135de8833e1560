// A directory of manifests: read, watched, and told as one whole set whenever anything about it
// changes. What a manifest means is manifests.ts's, which ones are in force is manifest-set.ts's.
import { constants, type FSWatcher, watch } from 'node:fs';
import { type FileHandle, lstat, open, readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { Clock, Timer } from '../../../platform/clock.ts';
import { sha256Hex } from '../../../platform/json.ts';
import type { Log } from '../../../platform/log.ts';
import type { ManifestProblem } from '../../../wire/agentd.ts';
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
  const reader = makeReader(dir);
  let current: ManifestSet = { agents: [...(options.inForce ?? [])], problems: [] };
  let closed = false;
  let turn: Promise<void> = Promise.resolve();
  let turnsOpen = 0;

  /** One at a time, in the order they were asked for. */
  const takeTurn = (work: () => Promise<void>): Promise<void> => {
    turnsOpen++;
    const next = turn.then(work).finally(() => turnsOpen--);
    turn = next.catch(() => {});
    return next;
  };
  const look = (trustStat: boolean): Promise<void> =>
    takeTurn(async () => {
      if (closed) return;
      const set = await reader.read(current.agents, trustStat);
      if (closed || fingerprint(set) === fingerprint(current)) return;
      await options.onChange(set);
      current = set;
    });
  const lookUnasked = (trustStat: boolean): void => {
    look(trustStat).catch((error: unknown) =>
      log.error('changed manifests could not be taken over; trying again', { dir, error }),
    );
  };

  let settling: Timer | undefined;
  const watcher = makeWatcher(dir, () => {
    settling ??= clock.at(clock.nowMs() + settleMs, () => {
      settling = undefined;
      lookUnasked(false);
    });
  });
  const renewWatch = (): Promise<void> =>
    watcher.renew().catch((error: unknown) => log.debug('not watched', { dir, error }));
  let looking: Timer | undefined;
  const lookRegularly = (): void => {
    looking = clock.at(clock.nowMs() + lookEveryMs, () => {
      void renewWatch();
      if (turnsOpen === 0) lookUnasked(true);
      lookRegularly();
    });
  };

  await takeTurn(async () => {
    // Watched before it is read: a change in between is seen twice rather than never.
    await renewWatch();
    current = await reader.read(current.agents, false);
  });
  lookRegularly();
  return {
    current: () => current,
    rescan: () => look(false),
    close() {
      closed = true;
      settling?.cancel();
      looking?.cancel();
      watcher.close();
    },
  };
}

function fingerprint({ agents, problems }: ManifestSet): string {
  return JSON.stringify([
    agents.map(({ agent, file }) => [agent.name, agent.hash, file]),
    problems,
  ]);
}

/** Watches the directory that has this name now, even after it was replaced by another. */
function makeWatcher(dir: string, onEvent: () => void) {
  let watcher: FSWatcher | undefined;
  let watched: string | undefined;
  let closed = false;
  const drop = (): void => {
    watcher?.close();
    watcher = undefined;
  };
  return {
    async renew(): Promise<void> {
      const { ino, birthtimeNs } = await stat(dir, { bigint: true });
      const found = `${ino} ${birthtimeNs}`; // An inode's number alone is soon given out again.
      if (closed || (watcher !== undefined && found === watched)) return;
      drop();
      watched = found;
      watcher = watch(dir, { persistent: false }, onEvent);
      watcher.on('error', drop);
    },
    close(): void {
      closed = true;
      drop();
    },
  };
}

type Known = { stamp: string; hash: string; result: ManifestResult };

function makeReader(dir: string) {
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
        const found = await readOne(file, known.get(file), trustStat);
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
  trustStat: boolean,
): Promise<Known | undefined> {
  const refuse = (problem: ManifestProblem): Known => ({
    stamp: '',
    hash: '',
    result: { ok: false, problems: [problem] },
  });
  let handle: FileHandle | undefined;
  try {
    // Without O_NONBLOCK, opening a pipe would wait for ever for somebody to write into it.
    handle = await open(file, constants.O_RDONLY | constants.O_NONBLOCK);
    const { dev, ino, size, mtimeNs, ctimeNs, ...kind } = await handle.stat({ bigint: true });
    if ((kind.mode & BigInt(constants.S_IFMT)) !== BigInt(constants.S_IFREG)) {
      return refuse({ file, line: null, message: 'is not a file', hint: 'Remove it.' });
    }
    const stamp = [dev, ino, size, mtimeNs, ctimeNs].join(' ');
    if (trustStat && before?.stamp === stamp) return before;
    if (size > manifestSizeBytesMax) return refuse(tooLarge(file, Number(size)));
    const text = decode(await readUpTo(handle, Number(size) + 1));
    if (text === undefined) return refuse(notText(file));
    const hash = sha256Hex(text);
    if (hash === before?.hash) return { ...before, stamp };
    return { stamp, hash, result: readManifest(text, file) };
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

function notText(file: string): ManifestProblem {
  return { file, line: null, message: 'is not valid UTF-8', hint: 'Save the file as UTF-8 text.' };
}

function unreadable(file: string, error: unknown): ManifestProblem {
  return {
    file,
    line: null,
    message: `cannot be read: ${(error as Error).message}`,
    hint: 'Make it readable for agentd, or remove it.',
  };
}
