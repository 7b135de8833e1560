// Files of a state directory that belongs to the daemons' own user, while this is root: written as
// that user, so that nothing they put there leads root elsewhere, and what is written is theirs.
import { closeSync, fstatSync, openSync } from 'node:fs';

/**
 * `work` gets the way to the directory: that user may not be able to enter what is above it, as
 * root's home.
 */
export function asOwnerOf<T>(dir: string, work: (here: string) => T): T {
  if (process.getuid?.() !== 0) return work(dir);
  const fd = openSync(dir, 'r');
  const groups = process.getgroups!();
  try {
    const { uid, gid } = fstatSync(fd);
    if (uid === 0) return work(dir);
    process.setgroups!([]);
    process.setegid!(gid);
    process.seteuid!(uid);
    return work(`/proc/self/fd/${fd}`);
  } catch (error) {
    throw inTheWordsOf(dir, error, `/proc/self/fd/${fd}`);
  } finally {
    process.seteuid!(0);
    process.setegid!(0);
    process.setgroups!(groups);
    closeSync(fd);
  }
}

/** The way by the descriptor says nothing to whoever reads the error. */
function inTheWordsOf(dir: string, error: unknown, way: string): unknown {
  const { path } = error as NodeJS.ErrnoException;
  if (error instanceof Error && path?.startsWith(way) === true) {
    (error as NodeJS.ErrnoException).path = dir + path.slice(way.length);
    error.message = error.message.replaceAll(way, dir);
  }
  return error;
}
