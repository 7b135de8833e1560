// A person's Maildir: one file per mail, written in tmp, synced and renamed to new, so that readers
// never see half a mail and a crash leaves none. It may belong to the person, who may do there what
// they like: only files are read, no file is written twice, and no link is followed.
import { constants, existsSync, lstatSync } from 'node:fs';
import { mkdir, open, readdir, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { storageFault } from '../../platform/disk-fault.ts';

/** `home`: the Maildir that has it. `isOthers`: it came into a person's own Maildir another way. */
export type MaildirEntry = {
  name: string;
  home: string;
  dir: 'new' | 'cur';
  isRead: boolean;
  isOthers: boolean;
};

export type Maildirs = {
  /**
   * Delivers under names that follow from the mails. A mail that is there already, also one that
   * its reader has moved to cur, is not written again; `isRepeat` looks for the latter.
   */
  deliver(box: string, files: readonly MailFile[]): Promise<void>;
  /** The people who have got mail, or whose Maildir is their own. */
  listBoxes(): Promise<string[]>;
  /** Oldest first. */
  list(box: string): Promise<MaildirEntry[]>;
  read(entry: MaildirEntry, sizeBytesMax: number): Promise<ReadMail>;
  /** Has other content under the same name, unless its reader moved or removed it. */
  replace(entry: MaildirEntry, content: Uint8Array): Promise<void>;
  /** Resolves to its name from then on. */
  markRead(entry: MaildirEntry): Promise<void>;
};

export type MailFile = { name: string; content: Uint8Array; isRepeat: boolean };
export type ReadMail = { content: Buffer; sizeBytes: number };

const PARTS = ['tmp', 'new', 'cur'] as const;
/** Separates the flags from the name. */
const FLAGS = ':2,';
/** A file that maild delivered, also with what Dovecot adds to its name. */
const DELIVERED = /^\d+\.[\w.-]+\.agentd(?:[,:].*)?$/;

/** Follows from the mail, so that a repeat has the same. */
export const toFileName = ({ id, at_ms }: { id: string; at_ms: number }): string =>
  `${Math.floor(at_ms / 1000)}.${id}.agentd`;
const { O_RDONLY, O_WRONLY, O_CREAT, O_EXCL, O_NOFOLLOW, O_NONBLOCK } = constants;

export function openMaildirs(
  root: string,
  options: {
    /** Maildirs that belong to people themselves, by their names. */
    own?: ReadonlyMap<string, string>;
    /** Mail of this person went into the state directory instead. */
    onOwnFailed?(box: string, error: unknown): void;
  } = {},
): Maildirs {
  const own = options.own ?? new Map<string, string>();
  const ready = new Set<string>();

  /** Where mail of this person is; the first one is where it goes. */
  const homesOf = (box: string): string[] =>
    [own.get(box), join(root, box)].filter((home) => home !== undefined);

  const make = async (home: string): Promise<void> => {
    if (ready.has(home)) return;
    const isNew = !existsSync(home);
    for (const part of PARTS) await mkdir(join(home, part), { recursive: true, mode: 0o700 });
    if (isNew) {
      await syncDir(home);
      await syncDir(join(home, '..'));
    }
    ready.add(home);
  };

  const deliverInto = async (home: string, files: readonly MailFile[]): Promise<void> => {
    try {
      await make(home);
      await Promise.all(files.map((file) => write(home, file)));
      await syncDir(join(home, 'new'));
    } catch (error) {
      // Removed by its owner: the next delivery makes it again.
      ready.delete(home);
      throw error;
    }
  };

  const listNew = async (box: string, files: readonly MailFile[]): Promise<MailFile[]> => {
    const homes = homesOf(box);
    const moved = new Set<string>();
    if (files.some(({ isRepeat }) => isRepeat))
      for (const home of homes)
        for (const name of await listNames(join(home, 'cur'))) moved.add(name.split(FLAGS)[0]!);
    const isThere = (name: string) => homes.some((home) => hasEntry(join(home, 'new', name)));
    return files.filter(({ name }) => !moved.has(name) && !isThere(name));
  };

  return {
    async deliver(box, files) {
      try {
        const missing = await listNew(box, files);
        const [first, ...others] = homesOf(box);
        if (others.length === 0) return await deliverInto(first!, missing);
        // No mail is lost by what a person makes of their own directory.
        await deliverInto(first!, missing).catch(async (error: unknown) => {
          options.onOwnFailed?.(box, error);
          await deliverInto(others[0]!, await listNew(box, missing));
        });
      } catch (error) {
        throw storageFault(`the mailbox of ${box}`, error);
      }
    },
    async listBoxes() {
      return [...new Set([...(await readdir(root)), ...own.keys()])];
    },
    async list(box) {
      const found: MaildirEntry[] = [];
      for (const home of homesOf(box))
        for (const dir of ['new', 'cur'] as const)
          for (const name of await listNames(join(home, dir)))
            found.push({
              name,
              home,
              dir,
              isRead: /:2,[A-Z]*S/.test(name),
              isOthers: home === own.get(box) && !DELIVERED.test(name),
            });
      return found.sort((a, b) => secondsOf(a) - secondsOf(b) || (a.name < b.name ? -1 : 1));
    },
    async read({ home, dir, name }, sizeBytesMax) {
      // Not blocked by a pipe that somebody put there.
      const file = await open(join(home, dir, name), O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
      try {
        const stat = await file.stat();
        if (!stat.isFile()) throw Object.assign(new Error(`${name} is no file`), { code: 'ELOOP' });
        const content = Buffer.alloc(Math.min(stat.size, sizeBytesMax));
        await file.read(content, 0, content.length, 0);
        return { content, sizeBytes: stat.size };
      } finally {
        await file.close();
      }
    },
    async replace({ home, dir, name }, content) {
      if (!hasEntry(join(home, dir, name))) return;
      await write(home, { name, content }, dir);
      await syncDir(join(home, dir));
    },
    async markRead({ home, dir, name: from, isRead }) {
      if (isRead) return;
      const [base = '', flags = ''] = from.split(FLAGS);
      const name = `${base}${FLAGS}${[...new Set(`${flags}S`)].sort().join('')}`;
      // Another program may have moved it meanwhile.
      await rename(join(home, dir, from), join(home, 'cur', name)).catch(ignoreMissing);
    },
  };
}

async function write(
  home: string,
  { name, content }: Pick<MailFile, 'name' | 'content'>,
  part: 'new' | 'cur' = 'new',
): Promise<void> {
  const tmp = join(home, 'tmp', name);
  try {
    // Left by a process that was killed.
    await rm(tmp, { force: true });
    const file = await open(tmp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0o600);
    try {
      await file.writeFile(content);
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(tmp, join(home, part, name));
  } catch (error) {
    await rm(tmp, { force: true }).catch(() => {});
    throw error;
  }
}

const secondsOf = ({ name }: MaildirEntry): number => Number.parseInt(name, 10) || 0;

const codeOf = (error: unknown): string => (error as NodeJS.ErrnoException).code ?? '';

/** True for what a reader moved, removed or replaced by something that is no mail. */
export const isNoMail = (error: unknown): boolean =>
  ['ENOENT', 'EISDIR', 'ENOTDIR', 'ELOOP', 'ENXIO', 'EACCES'].includes(codeOf(error));

/** False also where a part of the path is no directory. */
function hasEntry(path: string): boolean {
  try {
    return lstatSync(path, { throwIfNoEntry: false }) !== undefined;
  } catch (error) {
    if (isNoMail(error)) return false;
    throw error;
  }
}

const ignoreMissing = (error: unknown): void => {
  if (codeOf(error) !== 'ENOENT') throw error;
};

async function listNames(dir: string): Promise<string[]> {
  try {
    return (await readdir(dir)).filter((name) => !name.startsWith('.'));
  } catch (error) {
    if (isNoMail(error)) return [];
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
