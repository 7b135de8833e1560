// Chowns root's files in the state directory to the daemons' user before they start, so that state
// from an earlier version stays usable. Works on descriptors and never follows links: the directory
// belongs to the daemons, so root cannot trust its contents.
import {
  chmodSync,
  closeSync,
  constants,
  fchmodSync,
  fchownSync,
  fstatSync,
  openSync,
  readdirSync,
  readFileSync,
  type Stats,
} from 'node:fs';
import { fault } from '../wire/errors.ts';
import type { ServiceUser } from './service-user.ts';

const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK, O_DIRECTORY } = constants;
const OTHERS_ACCESS = 0o077;
const OTHERS_WRITE = 0o022;

/** How deep each directory is walked: files below belong to agents, and stay theirs. */
const DEPTH_MAX: Readonly<Record<string, number>> = { workspaces: 2, homes: 2 };
/** On later starts. An operator adds nothing to these, and they have an entry for each task. */
const LATER_DEPTH_MAX: Readonly<Record<string, number>> = { workspaces: 1, homes: 1, objects: 1 };
/** Root reads these at every start. They stay root's, so that the daemons cannot control root. */
const isRootsOwn = (name: string): boolean => /^agentd\.yaml(\.d)?$/.test(name);

export function chownState(stateDir: string, user: ServiceUser, earlier: { uid: number }): void {
  withOpen(stateDir, (top, stat) => {
    if (![0, user.uid, earlier.uid].includes(stat.uid))
      throw fault('bad_config', `the state directory ${stateDir} belongs to uid ${stat.uid}`, {
        hint: `Start agentd as that user, or run: chown -R ${user.uid} ${stateDir}`,
      });
    const isFirst = stat.uid !== user.uid;
    const from = isFirst ? [0, earlier.uid] : [0];
    for (const name of readdirSync(fdPath(top)))
      if (isRootsOwn(name)) grantGroupRead(fdPath(top, name), user);
      // On later starts only private files that an operator added as root, near the top.
      else
        chownEntry(fdPath(top, name), user, {
          from,
          depth: isFirst ? (DEPTH_MAX[name] ?? 64) : (LATER_DEPTH_MAX[name] ?? 2),
          isFirst,
        });
    // Last, so that no other user can enter before.
    if (isFirst) fchownSync(top, user.uid, user.gid);
  });
}

const fdPath = (fd: number, name?: string): string =>
  `/proc/self/fd/${fd}${name === undefined ? '' : `/${name}`}`;

function withOpen(path: string, work: (fd: number, stat: Stats) => void): void {
  let fd: number;
  try {
    fd = openSync(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  } catch (error) {
    // A link, a socket, or already deleted: none of them is chowned.
    if (['ELOOP', 'ENXIO', 'ENOENT'].includes((error as NodeJS.ErrnoException).code ?? '')) return;
    throw error;
  }
  try {
    work(fd, fstatSync(fd));
  } finally {
    closeSync(fd);
  }
}

type ChownOptions = { from: readonly number[]; depth: number; isFirst: boolean };

function chownEntry(path: string, user: ServiceUser, options: ChownOptions): void {
  withOpen(path, (fd, stat) => {
    const { from, depth, isFirst } = options;
    const isSafe = stat.isDirectory() || (stat.isFile() && stat.nlink === 1);
    if (!isSafe) return;
    if (stat.isDirectory() && depth > 1)
      for (const name of readdirSync(fdPath(fd)))
        chownEntry(fdPath(fd, name), user, { ...options, depth: depth - 1 });
    const isEligible = isFirst || (stat.mode & OTHERS_ACCESS) === 0;
    if (isEligible && from.includes(stat.uid))
      fchownSync(fd, user.uid, isFirst && stat.mode & 0o2000 ? stat.gid : user.gid);
  });
}

/** Makes a file readable by the daemons' group and writable by root alone. */
function grantGroupRead(path: string, user: ServiceUser): void {
  withOpen(path, (fd, stat) => {
    if (stat.uid !== 0) return;
    if (stat.isDirectory())
      for (const name of readdirSync(fdPath(fd))) grantGroupRead(fdPath(fd, name), user);
    const isOpen = (stat.mode & 0o004) !== 0;
    if (isOpen || (stat.isFile() && stat.nlink > 1)) return;
    fchownSync(fd, 0, user.gid);
    fchmodSync(fd, stat.isDirectory() ? 0o750 : 0o640);
  });
}

/** Reads a file. Throws when another user than root could have written it. */
export function readRootsFile(file: string): string {
  let fd: number;
  try {
    fd = openSync(file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  } catch (cause) {
    throw fault('bad_config', `${file} cannot be read, or is a link`, {
      hint: 'Use a readable regular file.',
      cause,
    });
  }
  try {
    const stat = fstatSync(fd);
    if (!stat.isFile() || stat.uid !== 0 || (stat.mode & OTHERS_WRITE) !== 0)
      throw fault('bad_config', `${file} controls what root does, but other users can change it`, {
        hint: `chown root ${file} && chmod go-w ${file}`,
      });
    return readFileSync(fd, 'utf8');
  } finally {
    closeSync(fd);
  }
}

/** Makes root's directory, which contains the runtime directories, traversable for all users. */
export function openToPass(dir: string): void {
  const fd = openSync(dir, O_RDONLY | O_NOFOLLOW | O_DIRECTORY);
  try {
    if (fstatSync(fd).uid !== 0)
      throw fault('bad_config', `${dir} does not belong to root`, {
        hint: 'Unset XDG_RUNTIME_DIR, or set it to a directory that root owns.',
      });
    chmodSync(fdPath(fd), 0o711);
  } finally {
    closeSync(fd);
  }
}
