// Turns errors of the file system into faults: a full disk is `storage_full`, any other failure of
// the disk is `storage_broken`. Small, because the command line loads it.
import { type Fault, fault } from '../wire/errors.ts';

const errnoOf = (error: unknown): string | undefined => (error as NodeJS.ErrnoException).code;

/** True for a full disk and for a quota that is used up. */
export const isDiskFull = (error: unknown): boolean =>
  ['ENOSPC', 'EDQUOT'].includes(errnoOf(error) ?? '');

/** Returns the fault for storage that failed, where the path itself is known to be right. */
export function storageFault(doing: string, cause: unknown): Fault {
  const errno = errnoOf(cause) ?? String(cause);
  const extra = { cause, details: { errno } };
  return isDiskFull(cause)
    ? fault('storage_full', `${doing} failed: the disk is full (${errno})`, extra)
    : fault('storage_broken', `${doing} failed (${errno})`, extra);
}

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

/** Returns undefined when the error is not one of the file system: then it is a bug. */
export function diskFault(error: unknown): Fault | undefined {
  if (!(error instanceof Error)) return undefined;
  const { code = '', syscall, path } = error as NodeJS.ErrnoException;
  if (syscall === undefined) return undefined;
  const what = [syscall, path].filter((part) => part !== undefined).join(' ');
  if (isDiskFull(error))
    return fault('storage_full', `${what}: the disk is full (${code})`, { cause: error });
  if (code === 'EIO')
    return fault('storage_broken', `${what}: the disk cannot be read or written (${code})`, {
      cause: error,
    });
  const words = PATH_WORDS[code];
  if (words === undefined || path === undefined) return undefined;
  return fault('bad_config', `${what}: ${words} (${code})`, {
    hint: 'Put that right, or name another place (--state for the state directory).',
    cause: error,
  });
}
