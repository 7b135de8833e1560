// A place whose layers are copies: no overlay takes the changes of another one.
import { execFileSync } from 'node:child_process';
import { chmodSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { freshDir } from './runtime.ts';

/** The parts that lie on an overlay; others are on the disk. Needs root, to mount. */
export type OnOverlay = {
  stateOn?: 'overlay' | undefined;
  peopleOn?: 'overlay' | undefined;
  /** Where the overlay keeps its files. */
  disk?: string | undefined;
};

export type TestPlaces = { base: string; people: string; unmount(): void };

/** Where a runtime has its state, and where the directories of people are. */
export function makePlaces({ stateOn, peopleOn, disk: at }: OnOverlay): TestPlaces {
  if (stateOn === undefined && peopleOn === undefined) {
    const base = freshDir();
    return { base, people: join(base, 'people'), unmount: () => undefined };
  }
  const { disk, base, unmount } = mountOverlay(at);
  const people = join(peopleOn === undefined ? disk : base, 'people');
  return { base: stateOn === undefined ? freshDir() : base, people, unmount };
}

let made = 0;

/** A directory on an overlay, as the root of a container is, and one on the disk below it. */
function mountOverlay(at?: string): { disk: string; base: string; unmount(): void } {
  const disk = at === undefined ? freshDir() : join(at, String(made++));
  mkdirSync(disk, { recursive: true });
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
