// Stores the compressed content of an audit segment's archive in a directory: the file is synced
// and read back before it counts.
import { createHash } from 'node:crypto';
import {
  closeSync,
  createReadStream,
  createWriteStream,
  existsSync,
  fsyncSync,
  openSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
} from 'node:fs';
import { join, resolve } from 'node:path';
import { type Readable, Transform, Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGunzip, createGzip } from 'node:zlib';
import { fault } from '../../wire/errors.ts';
import { readArchiveHeader } from './read.ts';

/** The hash of the content before compression, and name, size and hash of the compressed bytes. */
export type StoredArchive = {
  location: string;
  name: string;
  size_bytes: number;
  sha256: string;
  content_sha256: string;
};

export type ArchiveTarget = {
  /** Names the target in the log. */
  location: string;
  /** Stores the content durably under this name. Throws if the copy is not certain. */
  store(name: string, content: Readable): Promise<StoredArchive>;
};

type Meter = { stream: Transform; digest(): string; sizeBytes(): number };

/** Passes bytes on, and hashes and counts them. */
function makeMeter(): Meter {
  const hash = createHash('sha256');
  let sizeBytes = 0;
  const stream = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      hash.update(chunk);
      sizeBytes += chunk.length;
      done(null, chunk);
    },
  });
  return { stream, digest: () => hash.digest('hex'), sizeBytes: () => sizeBytes };
}

/** Compresses the content, and resolves to what identifies it. */
export async function compressTo(content: Readable, to: Writable) {
  const [plain, packed] = [makeMeter(), makeMeter()];
  await pipeline(content, plain.stream, createGzip(), packed.stream, to);
  return {
    content_sha256: plain.digest(),
    sha256: packed.digest(),
    size_bytes: packed.sizeBytes(),
  };
}

/** Throws if the directory does not exist, or is inside the log's own. */
export function directoryTarget(path: string, logDir: string): ArchiveTarget {
  const dir = resolve(path);
  // Not created: a directory where nothing is mounted would take the archives of a lost disk.
  if (!existsSync(dir) || !statSync(dir).isDirectory())
    throw fault('not_found', `directory ${dir} not found`, { hint: 'Create it, or mount it.' });
  if (existsSync(logDir) && `${realpathSync(dir)}/`.startsWith(`${realpathSync(logDir)}/`))
    throw fault('bad_usage', `${dir} is inside the log's own directory`, {
      hint: 'Name a directory on another disk.',
    });
  return {
    location: dir,
    async store(name, content) {
      const file = join(dir, name);
      const partial = join(dir, `.${name}.partial`);
      // Removes the rest of an interrupted attempt, and follows no link in its place.
      rmSync(partial, { force: true });
      const to = createWriteStream(partial, { mode: 0o640, flags: 'wx' });
      const stored = await compressTo(content, to);
      syncPath(partial);
      await assertReadsBack(partial, stored);
      await assertReplaceable(file, partial);
      renameSync(partial, file);
      syncPath(dir);
      return { location: dir, name, ...stored };
    },
  };
}

async function assertReadsBack(
  file: string,
  stored: { content_sha256: string; sha256: string },
): Promise<void> {
  const [packed, plain] = [makeMeter(), makeMeter()];
  const nowhere = new Writable({ write: (_chunk, _encoding, done) => done() });
  try {
    const input = createReadStream(file);
    await pipeline(input, packed.stream, createGunzip(), plain.stream, nowhere);
  } catch (cause) {
    throw fault('storage_broken', `${file} cannot be read back: ${(cause as Error).message}`);
  }
  if (packed.digest() === stored.sha256 && plain.digest() === stored.content_sha256) return;
  throw fault('storage_broken', `${file} reads back with other content than was written`);
}

/** An interrupted attempt may have left an archive of this segment; any other file is kept. */
async function assertReplaceable(file: string, by: string): Promise<void> {
  if (!existsSync(file)) return;
  const describe = async (path: string): Promise<string> => {
    const { origin, first, end, hashes } = await readArchiveHeader(path);
    return JSON.stringify([origin, first, end, hashes]);
  };
  const before = await describe(file).catch(() => undefined);
  if (before === (await describe(by))) return;
  throw fault('conflict', `${file} exists and is not an archive of this segment`, {
    hint: 'Name another directory, or move the file away.',
  });
}

function syncPath(path: string): void {
  const fd = openSync(path, 'r');
  try {
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}
