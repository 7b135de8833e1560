// An agent cannot hide disk usage from the warden: unreadable, deep and odd directories count, and
// only paths within the bounds are measured.
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  linkSync,
  lstatSync,
  mkdirSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { after, before, beforeEach, describe, it } from 'node:test';
import {
  makeWarden,
  type Warden as WardenLink,
} from '../../src/daemons/sandboxd/adapters/warden.ts';
import { exited, fillWorkspace } from './support/cases.ts';
import { MODES, TestWarden } from './support/warden.ts';

const MIB = 1_048_576;

for (const mode of MODES) {
  describe(`disk usage, as ${mode}`, { timeout: 240_000 }, () => {
    let warden: TestWarden;
    let link: WardenLink;
    before(async () => {
      warden = await new TestWarden({ mode }).start();
      link = makeWarden(warden.socket);
    });
    beforeEach(() => fillWorkspace(warden));
    after(async () => {
      link.close();
      // Too deep for rmSync.
      execFileSync('rm', ['-rf', warden.workspace]);
      await warden.stop();
    });
    const measure = () => link.measure(warden.workspace);
    const sh = async (script: string) =>
      assert.equal(exited(await warden.run(['/bin/sh', '-c', script])).code, 0, script);
    const isAbout = (bytes: number, wanted: number) =>
      assert.ok(bytes >= wanted && bytes < wanted + MIB / 2, `${bytes}, not about ${wanted}`);

    it('counts blocks, not lengths, and something for an empty file', async () => {
      assert.deepEqual(await measure(), { bytes: 0, entries: 0 });
      writeFileSync(join(warden.workspace, 'one'), Buffer.alloc(2 * MIB, 1));
      isAbout((await measure()).bytes, 2 * MIB);
      truncateSync(join(warden.workspace, 'one'), 0);
      truncateSync(join(warden.workspace, 'one'), 1024 * MIB);
      assert.ok((await measure()).bytes < MIB, 'a sparse file');
      for (let i = 0; i < 100; i++) writeFileSync(join(warden.workspace, `e${i}`), '');
      const { bytes, entries } = await measure();
      assert.equal(entries, 101);
      assert.ok(bytes >= 100 * 4_096);
    });
    it('counts only the entries of a group, wherever they are, and the directory itself', async () => {
      await sh('mkdir -p /ws/a/b; touch /ws/a/b/x; chmod 0 /ws/a/b');
      const top = join(warden.workspace, 'a');
      const { gid } = statSync(top);
      assert.equal((await link.measure(top)).entries, 2);
      assert.equal((await link.measure(top, gid)).entries, 3);
      assert.deepEqual(await link.measure(warden.workspace, 61_999), { bytes: 0, entries: 0 });
    });
    it('A24 files in an unreadable directory are counted', async () => {
      await sh('mkdir -p /ws/a/b; head -c 2097152 /dev/urandom >/ws/a/b/x; chmod 0 /ws/a/b /ws/a');
      isAbout((await measure()).bytes, 2 * MIB);
    });
    it('A24 files below a path longer than PATH_MAX are counted', async () => {
      const down = 'for i in $(seq 20); do mkdir $name && cd -P $name || exit 1; done';
      await sh(`name=${'d'.repeat(250)}; cd /ws; ${down}; head -c 2097152 /dev/urandom >x`);
      const { bytes, entries } = await measure();
      assert.equal(entries, 21);
      isAbout(bytes, 2 * MIB);
    });
    it('A24 memory for many directories in a deep one is bounded by their names', async () => {
      // As paths they would be a gigabyte.
      const make = `const fs = require('node:fs');
        for (let i = 0; i < 1_000; i++) {
          fs.mkdirSync('d'.repeat(250));
          process.chdir('d'.repeat(250));
        }
        for (let i = 0; i < 4_000; i++) fs.mkdirSync('e' + i);`;
      execFileSync(process.execPath, ['-e', make], { cwd: warden.workspace });
      assert.equal((await measure()).entries, 5_000);
    });
    it('A24 a tree that is moved during the walk is walked to its end', async () => {
      // Sometimes the walk is inside a moved directory, and its parent has changed.
      const make = `const fs = require('node:fs');
        for (const a of ['a', 'b', 'c'])
          for (let i = 0; i < 200; i++) fs.mkdirSync('still/' + a + '/' + i, { recursive: true });
        for (let i = 0; i < 300; i++) fs.mkdirSync('moved/x/y/' + i, { recursive: true });
        console.log('made');
        for (let i = 0; ; i++) {
          fs.renameSync('moved/x', 'elsewhere');
          fs.renameSync('elsewhere', 'moved/x');
        }`;
      const mover = spawn(process.execPath, ['-e', make], { cwd: warden.workspace });
      await once(mover.stdout, 'data');
      try {
        for (let i = 0; i < 50; i++) {
          const { entries } = await measure();
          assert.ok(entries >= 605 && entries <= 610 + 2 * 302, `${entries} entries`);
        }
      } finally {
        mover.kill('SIGKILL');
        await once(mover, 'exit');
      }
      assert.equal((await measure()).entries, 906 + 1);
    });
    it('a file with two names counts once, and a link does not count as its target', async () => {
      writeFileSync(join(warden.outside, 'big'), Buffer.alloc(4 * MIB, 1));
      symlinkSync(join(warden.outside, 'big'), join(warden.workspace, 'link'));
      symlinkSync(warden.outside, join(warden.workspace, 'dir'));
      mkdirSync(join(warden.workspace, 'sub'));
      writeFileSync(join(warden.workspace, 'one'), Buffer.alloc(2 * MIB, 1));
      linkSync(join(warden.workspace, 'one'), join(warden.workspace, 'sub/two'));
      isAbout((await measure()).bytes, 2 * MIB);
    });
    it('only paths that a box may write are measured', async () => {
      for (const path of [warden.outside, '/etc', `${warden.workspace}x`])
        await assert.rejects(link.measure(path), { code: 'denied' }, path);
      await assert.rejects(link.measure(`${warden.workspace}/../outside`));
      symlinkSync(warden.outside, join(warden.workspace, 'out'));
      await assert.rejects(link.measure(join(warden.workspace, 'out')), { code: 'denied' });
      await assert.rejects(link.newest(warden.outside), { code: 'denied' });
      await assert.rejects(link.newest(join(warden.workspace, 'out')), { code: 'denied' });
    });
    it('the newest change is that of any directory in the tree, readable or not', async () => {
      const ctime = (path: string) => lstatSync(path, { bigint: true }).ctimeNs;
      await sh('mkdir -p /ws/a/b /ws/c && touch /ws/a/b/x && chmod 0 /ws/a/b');
      assert.equal(await link.newest(warden.workspace), ctime(join(warden.workspace, 'a/b')));
      const before_ = await link.newest(warden.workspace);
      await sh('echo more >/ws/c/../a/file.tmp; rm /ws/a/file.tmp');
      const after_ = await link.newest(warden.workspace);
      assert.equal(after_, ctime(join(warden.workspace, 'a')));
      assert.ok(after_ > before_);
      await sh('ln -s /ws/c /ws/c/link');
      const linked = await link.newest(warden.workspace);
      writeFileSync(join(warden.workspace, 'c/link/../../one'), '');
      assert.ok((await link.newest(warden.workspace)) > linked, 'a new file changes its directory');
    });
  });
}
