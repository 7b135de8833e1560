// Files of a state directory that belongs to the daemons' own user, while this is root: written as
// that user, so that nothing they put there leads root elsewhere, and what is written is theirs.
import { statSync } from 'node:fs';

export function asOwnerOf<T>(dir: string, work: () => T): T {
  if (process.getuid?.() !== 0) return work();
  const { uid, gid } = statSync(dir);
  if (uid === 0) return work();
  const groups = process.getgroups!();
  process.setgroups!([]);
  process.setegid!(gid);
  process.seteuid!(uid);
  try {
    return work();
  } finally {
    process.seteuid!(0);
    process.setegid!(0);
    process.setgroups!(groups);
  }
}
