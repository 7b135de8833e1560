// The warden deletes whole directories, whatever agents made of them, and only direct children of
// the directories that the bounds name. Hostile: every request comes from the daemons' user.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  existsSync,
  linkSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { after, before, beforeEach, describe, it } from 'node:test';
import {
  makeWarden,
  type Warden as WardenLink,
} from '../../src/daemons/sandboxd/adapters/warden.ts';
import { IS_ROOT, MODES, TestWarden } from './support/warden.ts';

const AGENT = 61_234;

for (const mode of MODES)
  describe(`deleting a tree, as ${mode}`, { timeout: 240_000 }, () => {
    let warden: TestWarden;
    let link: WardenLink;
    let spaces: string;
    let tree: string;
    before(async () => {
      warden = await new TestWarden({
        mode,
        bounds: (dir) => [`delete ${join(dir, 'spaces')}`],
      }).start();
      link = makeWarden(warden.socket);
      spaces = join(warden.dir, 'spaces');
      tree = join(spaces, 'task');
      mkdirSync(spaces);
      giveToClient(spaces);
    });
    beforeEach(() => {
      execFileSync('rm', ['-rf', tree]);
      mkdirSync(tree);
      giveToClient(tree);
    });
    after(async () => {
      link.close();
      execFileSync('rm', ['-rf', spaces]);
      await warden.stop();
    });
    /** As an ordinary user, everything belongs to the user that the warden runs as. */
    const giveToClient = (path: string) => {
      if (IS_ROOT && mode === 'user')
        execFileSync('chown', ['-R', `${warden.uid}:${warden.gid}`, path]);
    };
    const assertGone = async () => {
      giveToClient(tree);
      const freed = await link.deleteTree(tree);
      assert.equal(existsSync(tree), false);
      assert.deepEqual(readdirSync(spaces), [], 'nothing is left beside it');
      return freed;
    };

    it('removes files, links, sockets and hidden entries, and counts what it freed', async () => {
      writeFileSync(join(tree, 'a'), Buffer.alloc(1_048_576, 1));
      mkdirSync(join(tree, '.git/objects'), { recursive: true });
      writeFileSync(join(tree, '.git/objects/x'), 'x');
      execFileSync('mkfifo', [join(tree, 'pipe')]);
      symlinkSync('nowhere', join(tree, 'link'));
      const { bytes, entries } = await assertGone();
      assert.equal(entries, 6);
      assert.ok(bytes >= 1_048_576);
    });

    it('removes what only an agent could enter or change', async () => {
      mkdirSync(join(tree, 'a/b'), { recursive: true });
      writeFileSync(join(tree, 'a/b/x'), 'x');
      if (IS_ROOT && mode === 'root')
        for (const path of ['a/b/x', 'a/b', 'a']) chownSync(join(tree, path), AGENT, AGENT);
      giveToClient(tree);
      chmodSync(join(tree, 'a/b'), 0);
      chmodSync(join(tree, 'a'), 0);
      await link.deleteTree(tree);
      assert.equal(existsSync(tree), false);
    });

    it('removes a tree deeper than PATH_MAX, and one with many directories', async () => {
      const make = `const fs = require('node:fs');
        for (let i = 0; i < 400; i++) fs.mkdirSync('w' + i);
        for (let i = 0; i < 1_000; i++) {
          fs.mkdirSync('d'.repeat(250));
          process.chdir('d'.repeat(250));
          fs.writeFileSync('.moved-' + i, '');
        }`;
      execFileSync(process.execPath, ['-e', make], { cwd: tree });
      const { entries } = await assertGone();
      assert.equal(entries, 400 + 2_000);
    });

    it('follows no link and no hard link out of the tree', async () => {
      const outside = join(warden.dir, 'precious');
      mkdirSync(join(outside, 'dir'), { recursive: true });
      writeFileSync(join(outside, 'dir/file'), 'keep');
      symlinkSync(join(outside, 'dir'), join(tree, 'dir'));
      linkSync(join(outside, 'dir/file'), join(tree, 'second-name'));
      await assertGone();
      assert.equal(readFileSync(join(outside, 'dir/file'), 'utf8'), 'keep');
      execFileSync('rm', ['-rf', outside]);
    });

    it('a tree that is not there is no error, and deleting goes on where it stopped', async () => {
      await assertGone();
      assert.deepEqual(await link.deleteTree(tree), { bytes: 0, entries: 0 });
      mkdirSync(join(tree, '.moved-0/inner'), { recursive: true });
      await assertGone();
    });

    it('denies every other path', async () => {
      mkdirSync(join(tree, 'inner'));
      for (const path of [
        spaces,
        join(tree, 'inner'),
        warden.workspace,
        join(warden.workspace, 'x'),
        warden.dir,
        '/etc',
        `${spaces}x/y`,
      ])
        await assert.rejects(link.deleteTree(path), { code: 'denied' }, path);
      for (const path of [`${tree}/..`, `${spaces}/./task`, `${spaces}//task`, 'spaces/task', '/'])
        await assert.rejects(link.deleteTree(path), { code: 'sandbox_refused' }, path);
      const alias = join(warden.dir, 'alias');
      symlinkSync(spaces, alias);
      await assert.rejects(link.deleteTree(join(alias, 'task')), { code: 'denied' });
      assert.ok(existsSync(join(tree, 'inner')), 'nothing was removed');
    });

    it('a link in the place of the tree is not followed', async () => {
      const outside = join(warden.dir, 'precious');
      mkdirSync(outside, { recursive: true });
      writeFileSync(join(outside, 'file'), 'keep');
      const planted = join(spaces, 'planted');
      symlinkSync(outside, planted);
      await assert.rejects(link.deleteTree(planted), { code: 'sandbox_refused' });
      assert.equal(readFileSync(join(outside, 'file'), 'utf8'), 'keep');
      execFileSync('rm', ['-rf', planted, outside]);
    });
  });
