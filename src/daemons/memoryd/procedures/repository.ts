// A git repository with its files, written without git. Commits are added at its end; to take
// something out of its history, it is written again beside the old one, which it then replaces.
import { existsSync } from 'node:fs';
import { mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { deflate } from 'node:zlib';
import { storageFault } from '../../../platform/disk-fault.ts';
import { encodeIndex, type GitFiles, type GitObject } from './git-objects.ts';

export type Revision = {
  objects: readonly GitObject[];
  /** The newest commit. */
  head: string;
  files: GitFiles;
  /** Files that differ from those on the disk; null: it is gone. */
  texts: ReadonlyMap<string, string | null>;
};

export type ProcedureRepository = {
  /** The newest commit; undefined if there is no repository. */
  head(): Promise<string | undefined>;
  append(revision: Revision): Promise<void>;
  /** Replaces the repository; undefined: removes it. */
  replace(revision: Revision | undefined): Promise<void>;
};

const CONFIG = `[core]
\trepositoryformatversion = 0
\tfilemode = false
\tbare = false
\tlogallrefupdates = false
`;
const REF = 'refs/heads/main';
const deflateAsync = promisify(deflate);
const PRIVATE_DIR = { recursive: true, mode: 0o700 } as const;

export function makeRepository(dir: string): ProcedureRepository {
  const [next, old] = [`${dir}.next`, `${dir}.old`];

  const write = async (to: string, { objects, head, files, texts }: Revision): Promise<void> => {
    for (const object of objects) await writeObject(to, object);
    for (const [path, text] of texts) {
      const file = join(to, path);
      if (text === null) await rm(file, { force: true });
      else await writeWhole(file, text);
    }
    await writeWhole(join(to, '.git', 'index'), encodeIndex(files));
    await writeWhole(join(to, '.git', REF), `${head}\n`);
  };

  const guarded = async <T>(work: () => Promise<T>): Promise<T> => {
    try {
      return await work();
    } catch (error) {
      throw storageFault(`writing the procedures in ${dir}`, error);
    }
  };

  return {
    async head() {
      // A crash came between the two renames of a replacement.
      if (!existsSync(dir)) return undefined;
      const text = await readFile(join(dir, '.git', REF), 'utf8').catch(() => undefined);
      return text?.trim();
    },
    append: (revision) => guarded(() => write(dir, revision)),
    replace: (revision) =>
      guarded(async () => {
        await Promise.all([next, old].map((each) => rm(each, { recursive: true, force: true })));
        if (revision !== undefined) {
          await mkdir(join(next, '.git', 'objects'), PRIVATE_DIR);
          await writeWhole(join(next, '.git', 'HEAD'), `ref: ${REF}\n`);
          await writeWhole(join(next, '.git', 'config'), CONFIG);
          await write(next, revision);
        }
        if (existsSync(dir)) await rename(dir, old);
        if (revision !== undefined) await rename(next, dir);
        await rm(old, { recursive: true, force: true });
      }),
  };
}

async function writeObject(dir: string, { hash, bytes }: GitObject): Promise<void> {
  const file = join(dir, '.git', 'objects', hash.slice(0, 2), hash.slice(2));
  if (!existsSync(file)) await writeWhole(file, await deflateAsync(bytes));
}

async function writeWhole(file: string, bytes: string | Uint8Array): Promise<void> {
  await mkdir(dirname(file), PRIVATE_DIR);
  await writeFile(`${file}.tmp`, bytes, { mode: 0o600, flush: true });
  await rename(`${file}.tmp`, file);
}
