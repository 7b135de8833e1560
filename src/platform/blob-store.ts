// Stores blobs under DIR/sha256/ab/cd/<hash>: written durably and atomically, verified when read.
// Access, names and types are in the records that refer to them.
import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { type FileHandle, mkdir, open, readFile, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { type Fault, fault } from '../wire/errors.ts';
import { storageFault } from './disk-fault.ts';
import { sha256Hex } from './json.ts';

export type BlobStore = {
  /** Resolves when the bytes are on disk. Storing the same bytes again repairs a damaged blob. */
  put(bytes: Uint8Array): Promise<{ hash: string; sizeBytes: number }>;
  get(hash: string): Promise<Buffer>;
  /** The same for a transaction, which cannot wait. */
  getNow(hash: string): Buffer;
  /** Runs work that stores a blob and records who refers to it; it is not removed meanwhile. */
  whileUsed<T>(hash: string, work: () => Promise<T>): Promise<T>;
  /** Removes a blob durably, unless it is in use or `isUnused` says otherwise. */
  remove(hash: string, isUnused: () => Promise<boolean>): Promise<boolean>;
};

export type BlobStoreOptions = {
  dir: string;
  /** Replaced by tests that make writing fail. */
  write?: (file: FileHandle, bytes: Uint8Array) => Promise<void>;
};

/** Removes partial files of a previous process; only one process may use a directory. */
export async function openBlobStore({ dir, write }: BlobStoreOptions): Promise<BlobStore> {
  const store = new Store(dir, write ?? ((file, bytes) => file.writeFile(bytes)));
  await store.prepare().catch((error: unknown) => {
    throw storageFault(`opening the objects in ${dir}`, error);
  });
  return store;
}

/** Past this size the set is cleared; the directories are then synced once more. */
const DURABLE_DIRS_MAX = 4_096;

class Store implements BlobStore {
  readonly #dir: string;
  readonly #halfDir: string;
  readonly #write: NonNullable<BlobStoreOptions['write']>;
  /** Directories whose entry is known to be on disk. */
  readonly #durableDirs = new Set<string>();
  readonly #pending = new Map<string, Promise<void>>();
  readonly #uses = new Map<string, number>();
  readonly #removals = new Map<string, Promise<unknown>>();

  constructor(dir: string, write: NonNullable<BlobStoreOptions['write']>) {
    this.#dir = dir;
    this.#halfDir = join(dir, 'half');
    this.#write = write;
  }

  async prepare(): Promise<void> {
    await rm(this.#halfDir, { recursive: true, force: true });
    await mkdir(this.#halfDir, { recursive: true, mode: 0o700 });
    await mkdir(join(this.#dir, 'sha256'), { recursive: true, mode: 0o700 });
    await syncDir(this.#dir);
    await syncDir(dirname(this.#dir));
  }

  async put(bytes: Uint8Array): Promise<{ hash: string; sizeBytes: number }> {
    const hash = sha256Hex(bytes);
    const other = this.#pending.get(hash);
    const work =
      other ??
      this.#store(hash, bytes).catch((error: unknown) => {
        throw storageFault(`storing object ${hash}`, error);
      });
    this.#pending.set(hash, work);
    try {
      await work;
    } finally {
      if (this.#pending.get(hash) === work) this.#pending.delete(hash);
    }
    return { hash, sizeBytes: bytes.length };
  }

  async get(hash: string): Promise<Buffer> {
    const path = this.#pathFor(hash);
    const bytes = await readFile(path).catch((error: unknown) => {
      throw readFault(hash, error);
    });
    return assertWhole(hash, bytes, path);
  }

  getNow(hash: string): Buffer {
    const path = this.#pathFor(hash);
    let bytes: Buffer;
    try {
      bytes = readFileSync(path);
    } catch (error) {
      throw readFault(hash, error);
    }
    return assertWhole(hash, bytes, path);
  }

  async whileUsed<T>(hash: string, work: () => Promise<T>): Promise<T> {
    // A removal that failed is reported by its own caller.
    while (this.#removals.has(hash)) await this.#removals.get(hash)?.catch(() => undefined);
    this.#uses.set(hash, (this.#uses.get(hash) ?? 0) + 1);
    try {
      return await work();
    } finally {
      const left = this.#uses.get(hash)! - 1;
      if (left === 0) this.#uses.delete(hash);
      else this.#uses.set(hash, left);
    }
  }

  async remove(hash: string, isUnused: () => Promise<boolean>): Promise<boolean> {
    if (this.#uses.has(hash) || this.#removals.has(hash)) return false;
    // From here on, new users of the object wait; there is no await before.
    const removal = this.#removeIf(hash, isUnused).catch((error: unknown) => {
      throw storageFault(`removing object ${hash}`, error);
    });
    this.#removals.set(hash, removal);
    try {
      return await removal;
    } finally {
      this.#removals.delete(hash);
    }
  }

  async #removeIf(hash: string, isUnused: () => Promise<boolean>): Promise<boolean> {
    if (!(await isUnused())) return false;
    const path = this.#pathFor(hash);
    await rm(path, { force: true });
    await syncDir(dirname(path)).catch((error: unknown) => {
      if (!isMissing(error)) throw error;
    });
    return true;
  }

  async #store(hash: string, bytes: Uint8Array): Promise<void> {
    const path = this.#pathFor(hash);
    const dir = dirname(path);
    if (!(await this.#isWhole(hash))) {
      const half = join(this.#halfDir, randomBytes(12).toString('hex'));
      try {
        await this.#writeWhole(half, bytes);
        await this.#makeDirs(dir);
        await rename(half, path);
      } catch (error) {
        await rm(half, { force: true });
        throw error;
      }
    }
    // Also for an existing blob: a crash may have come between its rename and this sync.
    await this.#makeDirs(dir);
    await syncDir(dir);
  }

  async #isWhole(hash: string): Promise<boolean> {
    try {
      return sha256Hex(await readFile(this.#pathFor(hash))) === hash;
    } catch (error) {
      if (isMissing(error)) return false;
      throw error;
    }
  }

  async #writeWhole(path: string, bytes: Uint8Array): Promise<void> {
    const file = await open(path, 'wx', 0o400);
    try {
      await this.#write(file, bytes);
      await file.sync();
    } finally {
      await file.close();
    }
  }

  async #makeDirs(dir: string): Promise<void> {
    // Also for a known one: it is removed when its last blob is deleted.
    const made = await mkdir(dir, { recursive: true, mode: 0o700 });
    if (made === undefined && this.#durableDirs.has(dir)) return;
    await syncDir(dirname(dir));
    await syncDir(dirname(dirname(dir)));
    if (this.#durableDirs.size >= DURABLE_DIRS_MAX) this.#durableDirs.clear();
    this.#durableDirs.add(dir);
  }

  #pathFor(hash: string): string {
    if (!/^[0-9a-f]{64}$/.test(hash)) {
      throw fault('bad_request', 'an object name must be 64 hex digits');
    }
    return join(this.#dir, 'sha256', hash.slice(0, 2), hash.slice(2, 4), hash);
  }
}

const readFault = (hash: string, error: unknown): Fault =>
  isMissing(error)
    ? fault('not_found', `object ${hash} not found`, { cause: error })
    : storageFault(`reading object ${hash}`, error);

function assertWhole(hash: string, bytes: Buffer, path: string): Buffer {
  if (sha256Hex(bytes) === hash) return bytes;
  throw fault('storage_broken', `object ${hash} is damaged: its hash does not match`, {
    details: { path },
  });
}

async function syncDir(dir: string): Promise<void> {
  const handle = await open(dir, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

const isMissing = (error: unknown): boolean => (error as NodeJS.ErrnoException).code === 'ENOENT';
