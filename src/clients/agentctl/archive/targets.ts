// Archive targets: where the compressed content of a segment goes. A directory gets a file, which
// is read back before it counts; a command gets it on standard input, and has stored it if its exit
// status is 0.
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  closeSync,
  createReadStream,
  createWriteStream,
  existsSync,
  fsyncSync,
  openSync,
  renameSync,
  rmSync,
  statSync,
} from 'node:fs';
import { join, resolve } from 'node:path';
import { type Readable, Transform, Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGunzip, createGzip } from 'node:zlib';
import { fault } from '../../../wire/errors.ts';
import { readArchiveHeader } from './read-archive.ts';

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

async function compressTo(content: Readable, to: Writable) {
  const [plain, packed] = [makeMeter(), makeMeter()];
  await pipeline(content, plain.stream, createGzip(), packed.stream, to);
  return {
    content_sha256: plain.digest(),
    sha256: packed.digest(),
    size_bytes: packed.sizeBytes(),
  };
}

export function directoryTarget(path: string): ArchiveTarget {
  const dir = resolve(path);
  // Not created: a directory where nothing is mounted would take the archives of a lost disk.
  if (!existsSync(dir) || !statSync(dir).isDirectory())
    throw fault('not_found', `directory ${dir} not found`, { hint: 'Create it, or mount it.' });
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

export function commandTarget(command: string): ArchiveTarget {
  return {
    location: `command: ${command}`.slice(0, 1_000),
    async store(name, content) {
      const env = { ...process.env, AGENTD_ARCHIVE_NAME: name };
      // Its output goes to standard error: standard output is agentctl's own.
      const child = spawn('/bin/sh', ['-c', command], { env, stdio: ['pipe', 2, 2] });
      const ended = new Promise<string | undefined>((settle, reject) => {
        child.once('error', reject);
        child.once('close', (code, signal) =>
          settle(code === 0 ? undefined : `ended with ${signal ?? `status ${code}`}`),
        );
      });
      const [written, end] = await Promise.allSettled([compressTo(content, child.stdin!), ended]);
      if (end.status === 'rejected') throw end.reason;
      const problem =
        end.value ?? (written.status === 'rejected' ? 'did not read all of its input' : undefined);
      if (problem !== undefined || written.status === 'rejected')
        throw fault('conflict', `the archive command ${problem}`, {
          hint: 'The segment was not removed. Correct the command, then archive again.',
        });
      return { location: this.location, name, ...written.value };
    },
  };
}
