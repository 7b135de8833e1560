// Tests the disk reserve: below it no command starts, and running ones are ended.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { it } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { makeDisk } from './disk.ts';
import { EXIT, fakeCommand } from './testing/commands.ts';

it('refuses to start commands without free space, and says what to do', () => {
  const free: Record<string, number> = { '/a': 10_000_000, '/b': 1_000_000 };
  const few = (path: string) => path === '/c';
  const disk = makeDisk(5_000_000, (path) => free[path] ?? 10_000_000, few);
  disk.assertSpace(['/a']);
  assert.throws(() => disk.assertSpace(['/a', '/b']), {
    code: 'storage_full',
    message: /disk of \/b has 0 MiB left, and 5 MiB are reserved/,
  });
  assert.throws(() => disk.assertSpace(['/a', '/c']), {
    code: 'storage_full',
    message: /disk of \/c has few inodes left/,
  });
  const all = () => true;
  makeDisk(0, () => 0, all).assertSpace(['/a']);
});

it('ends running commands when free space runs out, and only those that write there', async () => {
  let left = 100;
  const free = (path: string) => (path === '/full' ? left : 1_000);
  const disk = makeDisk(50, free, () => false);
  const [one, other] = [fakeCommand(), fakeCommand()];
  const guarded = disk.guard(one.command, ['/full']);
  const elsewhere = disk.guard(other.command, ['/roomy']);
  left = 10;
  const exit = await guarded.ended;
  assert.ok(exit !== 'gone');
  assert.equal(exit.endedBy, 'disk');
  other.end(EXIT);
  const own = await elsewhere.ended;
  assert.ok(own !== 'gone');
  assert.equal(own.endedBy, null);
});

it('for a directory removed meanwhile its parent is checked', async () => {
  const dir = mkdtempSync(join(tmpdir(), 'disk-'));
  const disk = makeDisk(1);
  const { command, end } = fakeCommand();
  const { ended } = disk.guard(command, [join(dir, 'gone', 'long ago')]);
  rmSync(dir, { recursive: true });
  disk.assertSpace([dir]);
  await sleep(250);
  end(EXIT);
  const exit = await ended;
  assert.ok(exit !== 'gone' && exit.endedBy === null);
});

it('no command writes where free space cannot be read', async () => {
  const disk = makeDisk(1, () => {
    throw new Error('EIO');
  });
  const exit = await disk.guard(fakeCommand().command, ['/broken']).ended;
  assert.ok(exit !== 'gone' && exit.endedBy === 'disk');
});
