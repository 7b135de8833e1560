// A person's Maildir: one file per mail, written in tmp, synced and renamed to new, so that readers
// never see half a mail and a crash leaves none.
import { existsSync } from 'node:fs';
import { mkdir, open, readdir, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { storageFault } from '../../platform/disk-fault.ts';

export type MaildirEntry = { name: string; dir: 'new' | 'cur'; isRead: boolean };

export type Maildirs = {
  /**
   * Delivers under names that follow from the mails. A mail that is there already, also one that
   * its reader has moved to cur, is not written again; `isRepeat` looks for the latter.
   */
  deliver(box: string, files: readonly MailFile[]): Promise<void>;
  /** Oldest first. */
  list(box: string): Promise<MaildirEntry[]>;
  read(box: string, entry: MaildirEntry, sizeBytesMax: number): Promise<ReadMail>;
  /** Has other content under the same name, unless its reader moved or removed it. */
  replace(box: string, entry: MaildirEntry, content: Uint8Array): Promise<void>;
  /** Resolves to its name from then on. */
  markRead(box: string, entry: MaildirEntry): Promise<void>;
};

export type MailFile = { name: string; content: Uint8Array; isRepeat: boolean };
export type ReadMail = { content: Buffer; sizeBytes: number };

const PARTS = ['tmp', 'new', 'cur'] as const;
/** Separates the flags from the name. */
const FLAGS = ':2,';

export function openMaildirs(root: string): Maildirs {
  const ready = new Set<string>();

  const make = async (box: string): Promise<string> => {
    const dir = join(root, box);
    if (ready.has(box)) return dir;
    const isNew = !existsSync(dir);
    for (const part of PARTS) await mkdir(join(dir, part), { recursive: true, mode: 0o700 });
    if (isNew) {
      await syncDir(dir);
      await syncDir(root);
    }
    ready.add(box);
    return dir;
  };

  const write = async (
    dir: string,
    { name, content }: Pick<MailFile, 'name' | 'content'>,
    part: 'new' | 'cur' = 'new',
  ): Promise<void> => {
    const tmp = join(dir, 'tmp', name);
    try {
      const file = await open(tmp, 'w', 0o600);
      try {
        await file.writeFile(content);
        await file.sync();
      } finally {
        await file.close();
      }
      await rename(tmp, join(dir, part, name));
    } catch (error) {
      await rm(tmp, { force: true }).catch(() => {});
      throw error;
    }
  };

  return {
    async deliver(box, files) {
      try {
        const dir = await make(box);
        const moved = files.some(({ isRepeat }) => isRepeat)
          ? new Set((await readdir(join(dir, 'cur'))).map((name) => name.split(FLAGS)[0]!))
          : undefined;
        const missing = files.filter(
          ({ name }) => moved?.has(name) !== true && !existsSync(join(dir, 'new', name)),
        );
        await Promise.all(missing.map((file) => write(dir, file)));
        await syncDir(join(dir, 'new'));
      } catch (error) {
        // Removed by its owner: the next delivery makes it again.
        ready.delete(box);
        throw storageFault(`the mailbox of ${box}`, error);
      }
    },
    async list(box) {
      const dir = join(root, box);
      const found: MaildirEntry[] = [];
      for (const part of ['new', 'cur'] as const)
        for (const name of await listNames(join(dir, part)))
          found.push({ name, dir: part, isRead: /:2,[A-Z]*S/.test(name) });
      return found.sort((a, b) => secondsOf(a) - secondsOf(b) || (a.name < b.name ? -1 : 1));
    },
    async read(box, entry, sizeBytesMax) {
      const file = await open(join(root, box, entry.dir, entry.name), 'r');
      try {
        const { size } = await file.stat();
        const content = Buffer.alloc(Math.min(size, sizeBytesMax));
        await file.read(content, 0, content.length, 0);
        return { content, sizeBytes: size };
      } finally {
        await file.close();
      }
    },
    async replace(box, { dir: part, name }, content) {
      const dir = join(root, box);
      if (!existsSync(join(dir, part, name))) return;
      await write(dir, { name, content }, part);
      await syncDir(join(dir, part));
    },
    async markRead(box, entry) {
      if (entry.isRead) return;
      const [base = '', flags = ''] = entry.name.split(FLAGS);
      const name = `${base}${FLAGS}${[...new Set(`${flags}S`)].sort().join('')}`;
      const dir = join(root, box);
      // Another program may have moved it meanwhile.
      await rename(join(dir, entry.dir, entry.name), join(dir, 'cur', name)).catch(ignoreMissing);
    },
  };
}

const secondsOf = ({ name }: MaildirEntry): number => Number.parseInt(name, 10) || 0;

const ignoreMissing = (error: unknown): void => {
  if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
};

async function listNames(dir: string): Promise<string[]> {
  try {
    return (await readdir(dir)).filter((name) => !name.startsWith('.'));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw error;
  }
}

async function syncDir(dir: string): Promise<void> {
  const file = await open(dir, 'r');
  try {
    await file.sync();
  } finally {
    await file.close();
  }
}

/** True if this person has a mailbox. */
export const hasMailbox = (root: string, box: string): boolean =>
  existsSync(join(root, box, 'new'));
