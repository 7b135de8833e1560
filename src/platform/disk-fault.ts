// Turns errors of the file system into faults: a full disk is `storage_full`, any other failure of
// the disk is `storage_broken`. Small, because the command line loads it.
import { type Fault, fault } from '../wire/errors.ts';

const readErrno = (error: unknown): string | undefined => (error as NodeJS.ErrnoException).code;

/** True for a full disk and for a quota that is used up. */
export const isDiskFull = (error: unknown): boolean =>
  ['ENOSPC', 'EDQUOT'].includes(readErrno(error) ?? '');

/** Returns the fault for failed storage, where the path itself is known to be right. */
export function storageFault(doing: string, cause: unknown): Fault {
  const errno = readErrno(cause) ?? String(cause);
  const extra = { cause, details: { errno } };
  return isDiskFull(cause)
    ? fault('storage_full', `${doing} failed: the disk is full (${errno})`, extra)
    : fault('storage_broken', `${doing} failed (${errno})`, extra);
}

const PATH_MESSAGES: Readonly<Record<string, string>> = {
  EROFS: 'that file system is read-only',
  EACCES: 'permission denied',
  EPERM: 'permission denied',
  ENOENT: 'no such file or directory',
  ENOTDIR: 'a part of the path is not a directory',
  EISDIR: 'it is a directory',
  ELOOP: 'it is a link, or links form a loop',
  ENAMETOOLONG: 'the name is too long',
};

/** Returns undefined if the error is not one of the file system: then it is a bug. */
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
  const reason = PATH_MESSAGES[code];
  if (reason === undefined || path === undefined) return undefined;
  return fault('bad_config', `${what}: ${reason} (${code})`, {
    hint: 'Correct that, or use another path (--state for the state directory).',
    cause: error,
  });
}
