// Layers that are copies on file systems that can share blocks, as below the overlay of a container
// on btrfs or xfs: the copy takes no space, and stays a copy. Control: with the state elsewhere, it
// takes its size.
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import {
  mkdtempSync,
  readFileSync,
  rmdirSync,
  statfsSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { type LayeredTasks, startLayeredTasks } from '../support/layered-tasks.ts';
import type { OnOverlay } from '../support/overlay.ts';
import { freshDir } from '../support/runtime.ts';

const MEBIBYTE = 1_048_576;
const SIZE = 96 * MEBIBYTE;
const IS_ROOT = process.getuid?.() === 0;

/** Mounts a new file system of this kind, or says why that is not possible. */
function mountDisk(kind: string): { disk: string; unmount(): void } | string {
  const image = join(freshDir(), 'image');
  // Without a prefix: sockets have deep paths in it.
  const disk = mkdtempSync(join(tmpdir(), '/'));
  writeFileSync(image, '');
  truncateSync(image, 1_024 * MEBIBYTE);
  for (const [name, ...args] of [
    [`mkfs.${kind}`, '-q', image],
    ['mount', '-o', 'loop', image, disk],
  ] as const) {
    const { status, stderr, error } = spawnSync(name, args, { encoding: 'utf8' });
    if (status !== 0) return `${name}: ${error?.message ?? stderr.trim()}`;
  }
  const unmount = (): void => {
    execFileSync('umount', ['-l', disk]);
    rmdirSync(disk);
  };
  return { disk, unmount };
}

describe('layers that are copies, where files share blocks', { timeout: 400_000 }, () => {
  /** Makes a copy of a large file in a task; returns by how much that disk filled. */
  const copyIn = async (on: OnOverlay, disk: string) => {
    const world: LayeredTasks = await startLayeredTasks('root', undefined, on);
    try {
      const dir = world.makeDirectory('large', { small: '1\n' });
      const content = randomBytes(SIZE);
      writeFileSync(join(dir, 'large'), content);
      world.give(dir);
      const usedBytes = (): number => {
        execFileSync('sync', ['-f', disk]);
        const { blocks, bfree, bsize } = statfsSync(disk);
        return (blocks - bfree) * bsize;
      };
      const before = usedBytes();
      const beganMs = performance.now();
      const { id } = await world.work(dir, 'echo 2 > small; printf x >> large');
      const tookMs = Math.round(performance.now() - beganMs);
      const upper = join(world.runtime().stateDir, 'workspaces', id, 'layers', '1', 'upper');
      const copy = readFileSync(join(upper, 'large'));
      assert.ok(copy.subarray(0, SIZE).equals(content), 'the copy is whole');
      assert.ok(readFileSync(join(dir, 'large')).equals(content), 'hers is as it was');
      await world.done('task', 'apply', id, 'small');
      assert.equal(readFileSync(join(dir, 'small'), 'utf8'), '2\n');
      const real = join(upper, 'large').replace('/m/b/', '/u/b/');
      const extents = execFileSync('filefrag', ['-v', real], { encoding: 'utf8' });
      return { grown: usedBytes() - before, tookMs, isShared: /\bshared\b/.test(extents) };
    } finally {
      await world.stop();
    }
  };

  for (const kind of ['btrfs', 'xfs'])
    it(`on ${kind}, below the overlay of a container`, async (t) => {
      if (!IS_ROOT) return t.skip('needs root, to mount');
      const mounted = mountDisk(kind);
      if (typeof mounted === 'string') return t.skip(mounted);
      try {
        const { disk } = mounted;
        const shared = await copyIn({ stateOn: 'overlay', peopleOn: 'overlay', disk }, disk);
        const elsewhere = await copyIn({ peopleOn: 'overlay', disk }, '/');
        // Not of the copy alone: it is read for its hashes in both.
        t.diagnostic(
          `tasks took ${shared.tookMs} ms, without shared blocks ${elsewhere.tookMs} ms`,
        );
        assert.deepEqual([shared.isShared, elsewhere.isShared], [true, false]);
        assert.ok(shared.grown < SIZE / 4, `grew by ${shared.grown} bytes`);
        assert.ok(elsewhere.grown > SIZE / 2, `control: grew by ${elsewhere.grown} bytes`);
      } finally {
        mounted.unmount();
      }
    });
});
