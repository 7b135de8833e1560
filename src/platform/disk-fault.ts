// Errors of the file system in the words of the fault table: what could not be done with which
// path, and why. Small, because the command line loads it.
import { type Fault, fault } from '../wire/errors.ts';

const FULL = ['ENOSPC', 'EDQUOT'];
const PATH_WORDS: Readonly<Record<string, string>> = {
  EROFS: 'that file system is read-only',
  EACCES: 'this user may not',
  EPERM: 'this user may not',
  ENOENT: 'there is no such file or directory',
  ENOTDIR: 'something on the way is not a directory',
  EISDIR: 'it is a directory',
  ELOOP: 'it is a link, or links lead in a circle',
  ENAMETOOLONG: 'the name is too long',
};

/** What the disk refused; nothing when the error is of another kind, and then it is a bug. */
export function diskFault(error: unknown): Fault | undefined {
  if (!(error instanceof Error)) return undefined;
  const { code = '', syscall, path } = error as NodeJS.ErrnoException;
  if (syscall === undefined) return undefined;
  const what = [syscall, path].filter((part) => part !== undefined).join(' ');
  if (FULL.includes(code))
    return fault('storage_full', `${what}: the disk is full (${code})`, { cause: error });
  if (code === 'EIO')
    return fault('storage_broken', `${what}: the disk cannot be read or written (${code})`, {
      hint: 'Look at the disk: dmesg says what it said.',
      cause: error,
    });
  const words = PATH_WORDS[code];
  if (words === undefined || path === undefined) return undefined;
  return fault('bad_config', `${what}: ${words} (${code})`, {
    hint: 'Put that right, or name another place (--state for the state directory).',
    cause: error,
  });
}
