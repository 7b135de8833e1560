// Checks that only root and the given users can replace a path, so that it can be trusted with a
// secret. It imports no heavy modules, because the command line loads it at every start.
import { fault } from '../wire/errors.ts';

const OTHERS_WRITE = 0o022;
const STICKY = 0o1000;

/**
 * Throws if another user owns a directory above `dir`, or may rename entries in one. Does not check
 * `dir` itself. Passes ENOENT on.
 */
export function assertTrustedAbove(dir: string, users: readonly number[]): void {
  const { lstatSync, realpathSync } = process.getBuiltinModule('node:fs');
  const { dirname } = process.getBuiltinModule('node:path');
  // Both the path as written and the path with its links resolved.
  for (const start of new Set([dir, realpathSync(dir)])) {
    for (let at = start; at !== dirname(at); ) {
      at = dirname(at);
      const stat = lstatSync(at);
      if (stat.uid !== 0 && !users.includes(stat.uid))
        throw untrustedFault(dir, `${at} belongs to another user (uid ${stat.uid})`);
      if (stat.isDirectory() && (stat.mode & OTHERS_WRITE) !== 0 && (stat.mode & STICKY) === 0)
        throw untrustedFault(dir, `other users can write to ${at}`);
    }
  }
}

/** Also throws unless `dir` is a directory of one of these users that no other can write to. */
export function assertTrustedDir(dir: string, users: readonly number[]): void {
  const stat = process.getBuiltinModule('node:fs').lstatSync(dir);
  if (!stat.isDirectory() || (stat.uid !== 0 && !users.includes(stat.uid)))
    throw untrustedFault(dir, `${dir} is not a directory owned by this user`);
  if ((stat.mode & OTHERS_WRITE) !== 0)
    throw untrustedFault(dir, `other users can write to ${dir}`);
  assertTrustedAbove(dir, users);
}

function untrustedFault(dir: string, why: string) {
  return fault('bad_config', `${dir} cannot be trusted with sockets: ${why}`, {
    hint: 'Set XDG_RUNTIME_DIR to a directory of your own (chmod 700) and start again.',
  });
}
