// As root, before the daemons start: what root made in the state directory becomes theirs, so that
// a state of an earlier version goes on. By descriptors and never through a link: once the
// directory is theirs, what is in it is not root's to trust.
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
const OTHERS = 0o077;
const OTHERS_WRITE = 0o022;

/** How deep each is walked: below are files of agents, which stay theirs. */
const DEPTH: Readonly<Record<string, number>> = { workspaces: 2, homes: 2 };
/** Read by root at every start: they stay root's, or the daemons could say what root does. */
const isRootsOwn = (name: string): boolean => /^agentd\.yaml(\.d)?$/.test(name);

export function chownState(stateDir: string, user: ServiceUser, earlier: { uid: number }): void {
  withOpen(stateDir, (top, stat) => {
    if (![0, user.uid, earlier.uid].includes(stat.uid))
      throw fault('bad_config', `the state directory ${stateDir} belongs to uid ${stat.uid}`, {
        hint: `Use it as that user; or give it to ${user.name}: chown -R ${user.uid} ${stateDir}`,
      });
    const isFirst = stat.uid !== user.uid;
    const from = isFirst ? [0, earlier.uid] : [0];
    for (const name of readdirSync(at(top)))
      if (isRootsOwn(name)) grantGroupRead(at(top, name), user);
      // Afterwards only what an operator put there for them and they could not read.
      else
        chownEntry(at(top, name), user, {
          from,
          depth: isFirst ? (DEPTH[name] ?? 64) : 2,
          isFirst,
        });
    // Last: until then nobody else can enter.
    if (isFirst) fchownSync(top, user.uid, user.gid);
  });
}

const at = (fd: number, name?: string): string =>
  `/proc/self/fd/${fd}${name === undefined ? '' : `/${name}`}`;

function withOpen(path: string, work: (fd: number, stat: Stats) => void): void {
  let fd: number;
  try {
    fd = openSync(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  } catch (error) {
    // A link, a socket, or gone meanwhile: none of them is handed over.
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

function chownEntry(path: string, user: ServiceUser, how: ChownOptions): void {
  withOpen(path, (fd, stat) => {
    const isKnown = stat.isDirectory() || (stat.isFile() && stat.nlink === 1);
    if (!isKnown || how.depth === 0) return;
    if (stat.isDirectory())
      for (const name of readdirSync(at(fd)))
        chownEntry(at(fd, name), user, { ...how, depth: how.depth - 1 });
    const isWanted = how.isFirst || (stat.mode & OTHERS) === 0;
    if (isWanted && how.from.includes(stat.uid))
      fchownSync(fd, user.uid, how.isFirst && stat.mode & 0o2000 ? stat.gid : user.gid);
  });
}

/** Readable by the daemons' group, and changed by root alone. */
function grantGroupRead(path: string, user: ServiceUser): void {
  withOpen(path, (fd, stat) => {
    if (stat.uid !== 0) return;
    if (stat.isDirectory())
      for (const name of readdirSync(at(fd))) grantGroupRead(at(fd, name), user);
    const isOpen = (stat.mode & 0o004) !== 0;
    if (isOpen || (stat.isFile() && stat.nlink > 1)) return;
    fchownSync(fd, 0, user.gid);
    fchmodSync(fd, stat.isDirectory() ? 0o750 : 0o640);
  });
}

/** The text of a file that nobody but root can have written. */
export function readRootsFile(file: string): string {
  let fd: number;
  try {
    fd = openSync(file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  } catch (cause) {
    throw fault('bad_config', `${file} cannot be read, or is a link`, {
      hint: 'Name the file itself.',
      cause,
    });
  }
  try {
    const stat = fstatSync(fd);
    if (!stat.isFile() || stat.uid !== 0 || (stat.mode & OTHERS_WRITE) !== 0)
      throw fault('bad_config', `${file} decides what root does, and others could change it`, {
        hint: `chown root ${file} && chmod go-w ${file}`,
      });
    return readFileSync(fd, 'utf8');
  } finally {
    closeSync(fd);
  }
}

/** The directory that holds those of the sockets: root's, and everybody may pass through it. */
export function openToPass(dir: string): void {
  const fd = openSync(dir, O_RDONLY | O_NOFOLLOW | O_DIRECTORY);
  try {
    if (fstatSync(fd).uid !== 0)
      throw fault('bad_config', `${dir} does not belong to root`, {
        hint: 'Unset XDG_RUNTIME_DIR, or point it at a directory of root.',
      });
    chmodSync(at(fd), 0o711);
  } finally {
    closeSync(fd);
  }
}
