// A place whose layers are copies: no overlay takes the changes of another one.
import { execFileSync } from 'node:child_process';
import { chmodSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { freshDir } from './runtime.ts';

/** A directory on an overlay, as the root of a container is, and one on the disk below it. */
export function mountOverlay(): { disk: string; base: string; unmount(): void } {
  const disk = freshDir();
  chmodSync(disk, 0o755);
  const [lower, upper, work, merged] = ['l', 'u', 'w', 'm'].map((name) => {
    mkdirSync(join(disk, name));
    return join(disk, name);
  }) as [string, string, string, string];
  const places = `lowerdir=${lower},upperdir=${upper},workdir=${work}`;
  execFileSync('mount', ['-t', 'overlay', '-o', places, 'none', merged]);
  // Short, for the paths of sockets.
  const base = join(merged, 'b');
  mkdirSync(base, { mode: 0o755 });
  return { disk, base, unmount: () => void execFileSync('umount', ['-l', merged]) };
}
