// Whether a path can be trusted with a secret: nobody but root and the users named can put
// something else in its place. Small and without imports of its own weight, because the command
// line loads it at every start.
import { fault } from '../wire/errors.ts';

const OTHERS_WRITE = 0o022;
const STICKY = 0o1000;

/**
 * Throws when somebody else owns a directory above `dir`, or may rename what is in one. Says
 * nothing of `dir` itself. Throws ENOENT as it comes.
 */
export function assertTrustedAbove(dir: string, users: readonly number[]): void {
  const { lstatSync, realpathSync } = process.getBuiltinModule('node:fs');
  const { dirname } = process.getBuiltinModule('node:path');
  // Both ways to get there: the names as written, and where links among them lead.
  for (const start of new Set([dir, realpathSync(dir)])) {
    for (let at = start; at !== dirname(at); ) {
      at = dirname(at);
      const stat = lstatSync(at);
      if (stat.uid !== 0 && !users.includes(stat.uid))
        throw refusal(dir, `${at} belongs to another user (uid ${stat.uid})`);
      if (stat.isDirectory() && (stat.mode & OTHERS_WRITE) !== 0 && (stat.mode & STICKY) === 0)
        throw refusal(dir, `others can change what is in ${at}`);
    }
  }
}

/** The same, and `dir` is a directory of one of these users that no other can write to. */
export function assertTrustedDir(dir: string, users: readonly number[]): void {
  const stat = process.getBuiltinModule('node:fs').lstatSync(dir);
  if (!stat.isDirectory() || (stat.uid !== 0 && !users.includes(stat.uid)))
    throw refusal(dir, `${dir} is not a directory of this user`);
  if ((stat.mode & OTHERS_WRITE) !== 0) throw refusal(dir, `others can change what is in ${dir}`);
  assertTrustedAbove(dir, users);
}

function refusal(dir: string, why: string) {
  return fault('bad_config', `${dir} cannot be trusted with sockets: ${why}`, {
    hint: 'Point XDG_RUNTIME_DIR at a directory of your own (chmod 700) and start again.',
  });
}
