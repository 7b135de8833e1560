// Blobs under DIR/sha256/ab/cd/<hash>: named by what they hold, written whole and durably or not at
// all, and checked when read. Who may read one, and its name and type, are the artifact record's.
import { randomBytes } from 'node:crypto';
import { type FileHandle, mkdir, open, readFile, rename, rm, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { storageFault } from '../../../platform/disk-fault.ts';
import { sha256Hex } from '../../../platform/json.ts';
import { fault } from '../../../wire/errors.ts';

export type BlobStore = {
  /** Returns when it is on disk. Storing the same bytes again does nothing, or repairs them. */
  put(bytes: Uint8Array): Promise<{ hash: string; sizeBytes: number }>;
  get(hash: string): Promise<Buffer>;
  has(hash: string): Promise<boolean>;
  /** In bytes; undefined when there is none. */
  size(hash: string): Promise<number | undefined>;
};

export type BlobStoreOptions = {
  dir: string;
  /** How bytes get into an open file; tests make it fail. */
  write?: (file: FileHandle, bytes: Uint8Array) => Promise<void>;
};

/**
 * One process uses a directory at a time: what an earlier one left half written is removed here.
 */
export async function openBlobStore({ dir, write }: BlobStoreOptions): Promise<BlobStore> {
  const store = new Store(dir, write ?? ((file, bytes) => file.writeFile(bytes)));
  await store.prepare().catch((error: unknown) => {
    throw storageFault(`opening the objects in ${dir}`, error);
  });
  return store;
}

class Store implements BlobStore {
  readonly #dir: string;
  readonly #halfDir: string;
  readonly #write: NonNullable<BlobStoreOptions['write']>;
  /** Directories whose own entry is known to be on disk. */
  readonly #durableDirs = new Set<string>();
  readonly #underWay = new Map<string, Promise<void>>();

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
    const other = this.#underWay.get(hash);
    const work =
      other ??
      this.#store(hash, bytes).catch((error: unknown) => {
        throw storageFault(`storing object ${hash}`, error);
      });
    this.#underWay.set(hash, work);
    try {
      await work;
    } finally {
      if (this.#underWay.get(hash) === work) this.#underWay.delete(hash);
    }
    return { hash, sizeBytes: bytes.length };
  }

  async get(hash: string): Promise<Buffer> {
    const path = this.#pathOf(hash);
    const bytes = await readFile(path).catch((error: unknown) => {
      throw isMissing(error)
        ? fault('not_found', `there is no object ${hash}`, { cause: error })
        : storageFault(`reading object ${hash}`, error);
    });
    if (sha256Hex(bytes) !== hash) {
      throw fault(
        'storage_broken',
        `the object ${hash} is damaged: it does not hold what it should`,
        {
          details: { path },
        },
      );
    }
    return bytes;
  }

  async has(hash: string): Promise<boolean> {
    return (await this.size(hash)) !== undefined;
  }

  async size(hash: string): Promise<number | undefined> {
    const path = this.#pathOf(hash);
    try {
      return (await stat(path)).size;
    } catch (error) {
      if (isMissing(error)) return undefined;
      throw storageFault(`reading object ${hash}`, error);
    }
  }

  async #store(hash: string, bytes: Uint8Array): Promise<void> {
    const path = this.#pathOf(hash);
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
    // Also when it was there: a crash may have come between its rename and this.
    await this.#makeDirs(dir);
    await syncDir(dir);
  }

  async #isWhole(hash: string): Promise<boolean> {
    try {
      return sha256Hex(await readFile(this.#pathOf(hash))) === hash;
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
    if (this.#durableDirs.has(dir)) return;
    await mkdir(dir, { recursive: true, mode: 0o700 });
    await syncDir(dirname(dir));
    await syncDir(dirname(dirname(dir)));
    this.#durableDirs.add(dir);
  }

  #pathOf(hash: string): string {
    if (!/^[0-9a-f]{64}$/.test(hash)) {
      throw fault('bad_request', 'the name of an object is 64 hex digits');
    }
    return join(this.#dir, 'sha256', hash.slice(0, 2), hash.slice(2, 4), hash);
  }
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
