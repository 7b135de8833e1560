// Reads the files of a state directory through descriptors and never follows a link: the directory
// belongs to the daemons and parts of it to agents, so root cannot trust what is in there.
import {
  type BigIntStats,
  closeSync,
  constants,
  fstatSync,
  lstatSync,
  openSync,
  readdirSync,
  readlinkSync,
  read as readWithCallback,
} from 'node:fs';
import { promisify } from 'node:util';

const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK, O_DIRECTORY } = constants;
const CHUNK_BYTES = 1 << 20;
/** Each level of the walk has a descriptor open. */
const DEPTH_MAX = 128;
/** A larger file with so little of it on the disk cannot be copied as it is. */
const SPARSE = { sizeBytesMin: 1 << 26, parts: 4 };
const BLOCK_BYTES = 512;
const IS_ROOT = process.getuid?.() === 0;

export type FoundEntry = { path: Buffer; stat: BigIntStats } & (
  | { type: 'dir' }
  | { type: 'file'; fd: number }
  | { type: 'link'; target: Buffer }
  /** The device that an overlay puts in place of a deleted name. */
  | { type: 'whiteout' }
  | { type: 'skipped'; reason: string }
);

const SLASH = Buffer.from('/');
const joinPath = (dir: Buffer, name: Buffer): Buffer =>
  dir.length === 0 ? name : Buffer.concat([dir, SLASH, name]);
const belowFd = (fd: number, name: Buffer): Buffer =>
  Buffer.concat([Buffer.from(`/proc/self/fd/${fd}/`), name]);

const GONE: ReadonlySet<string | undefined> = new Set(['ENOENT', 'ESTALE']);
const codeOf = (error: unknown) => (error as NodeJS.ErrnoException).code;

export function openDir(path: string | Buffer): number {
  return openSync(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
}

/** Opens a file below an open directory; undefined when it is not there, or not a plain file. */
export function openBelow(dirFd: number, name: string): number | undefined {
  const found = openFile(belowFd(dirFd, Buffer.from(name)));
  return typeof found === 'number' ? found : undefined;
}

function openFile(path: Buffer): number | string {
  let fd: number;
  try {
    fd = openSync(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  } catch (error) {
    return codeOf(error) ?? 'error';
  }
  if (fstatSync(fd).isFile()) return fd;
  closeSync(fd);
  return 'it is not a plain file';
}

/**
 * Yields what is below an open directory, a directory before its contents. `path` is the prefix of
 * the paths. The reader of a file's descriptor closes it. What disappears meanwhile is left out.
 */
export function* walk(
  dirFd: number,
  path: Buffer = Buffer.alloc(0),
  isWanted: (path: Buffer) => boolean = () => true,
  depth = 0,
): Generator<FoundEntry> {
  const names = readdirSync(`/proc/self/fd/${dirFd}`, { encoding: 'buffer' }) as Buffer[];
  for (const name of names.sort(Buffer.compare)) {
    const own = joinPath(path, name);
    if (!isWanted(own)) continue;
    const stat = lstatBelow(dirFd, name);
    if (stat === undefined) continue;
    if (stat.isDirectory()) yield* walkDir({ dirFd, name, path: own, stat, depth }, isWanted);
    else yield* readEntry(belowFd(dirFd, name), own, stat);
  }
}

function* walkDir(
  at: { dirFd: number; name: Buffer; path: Buffer; stat: BigIntStats; depth: number },
  isWanted: (path: Buffer) => boolean,
): Generator<FoundEntry> {
  const { path, stat, depth } = at;
  const skip = (reason: string): FoundEntry => ({ type: 'skipped', path, stat, reason });
  if (depth >= DEPTH_MAX) return yield skip('directories are nested too deeply');
  let fd: number;
  try {
    fd = openDir(belowFd(at.dirFd, at.name));
  } catch (error) {
    if (!GONE.has(codeOf(error))) yield skip(`it cannot be opened (${codeOf(error)})`);
    return;
  }
  try {
    yield { type: 'dir', path, stat: fstatSync(fd, { bigint: true }) };
    yield* walk(fd, path, isWanted, depth + 1);
  } finally {
    closeSync(fd);
  }
}

function* readEntry(at: Buffer, path: Buffer, stat: BigIntStats): Generator<FoundEntry> {
  const skip = (reason: string): FoundEntry => ({ type: 'skipped', path, stat, reason });
  if (stat.isSymbolicLink()) {
    try {
      yield { type: 'link', path, stat, target: readlinkSync(at, { encoding: 'buffer' }) };
    } catch (error) {
      if (!GONE.has(codeOf(error))) yield skip(`the link cannot be read (${codeOf(error)})`);
    }
    return;
  }
  if (stat.isCharacterDevice() && stat.rdev === 0n) return yield { type: 'whiteout', path, stat };
  if (!stat.isFile()) return yield skip('it is a socket, pipe or device');
  if (isTooSparse(stat)) return yield skip('it is a sparse file');
  // A second name of a file of root's, made by another user, would let that user read it.
  if (IS_ROOT && stat.nlink > 1n && stat.uid === 0n)
    return yield skip('it belongs to root and has several names');
  const opened = openFile(at);
  if (typeof opened === 'number') {
    yield { type: 'file', path, stat: fstatSync(opened, { bigint: true }), fd: opened };
  } else if (!GONE.has(opened)) yield skip(`it cannot be opened (${opened})`);
}

function lstatBelow(dirFd: number, name: Buffer): BigIntStats | undefined {
  return lstatSync(belowFd(dirFd, name), { bigint: true, throwIfNoEntry: false });
}

function isTooSparse({ size, blocks }: BigIntStats): boolean {
  const onDisk = Number(blocks) * BLOCK_BYTES;
  return size >= SPARSE.sizeBytesMin && onDisk < Number(size) / SPARSE.parts;
}

/** Changes with the content, the owner or the mode: no program can set ctime. */
export const stampOf = ({ size, mtimeNs, ctimeNs, ino }: BigIntStats): string =>
  `${size}.${mtimeNs}.${ctimeNs}.${ino}`;

const readAsync = promisify(readWithCallback);

/**
 * Yields the first `sizeBytes` of a file, or fewer if it is shorter, and closes it. Asynchronous,
 * so that timers run while a large file is read.
 */
export async function* readChunks(
  fd: number,
  sizeBytes = Number.POSITIVE_INFINITY,
): AsyncGenerator<Buffer> {
  try {
    // One more than the file has: the read that finds its end must not be of length 0.
    const chunkBytes = Math.min(CHUNK_BYTES, fstatSync(fd).size + 1);
    for (let at = 0; at < sizeBytes; ) {
      const chunk = Buffer.allocUnsafe(chunkBytes);
      const wanted = Math.min(chunkBytes, sizeBytes - at);
      const { bytesRead } = await readAsync(fd, chunk, 0, wanted, at);
      if (bytesRead === 0) return;
      yield chunk.subarray(0, bytesRead);
      at += bytesRead;
    }
  } finally {
    closeSync(fd);
  }
}
