// Layers: what a box changes in a person's directory stays in a directory of ours, is seen by every
// box of the layer at once and by none of another user, and outlives them. As root and as a user.
import assert from 'node:assert/strict';
import {
  chownSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { after, before, beforeEach, describe, it } from 'node:test';
import { encodeLayer } from '../../src/daemons/sandboxd/adapters/plan.ts';
import { exited } from './support/cases.ts';
import { mountsOf } from './support/host.ts';
import { asPerson, clear, fingerprint, type LayerSetup, startLayers } from './support/layers.ts';
import { MODES } from './support/warden.ts';
import { FRAME, frame } from './support/warden-client.ts';

for (const mode of MODES) {
  describe(`layers, as ${mode}`, { timeout: 240_000 }, () => {
    let setup: LayerSetup;
    before(async () => {
      setup = await startLayers(mode);
    });
    after(() => setup.stop());
    beforeEach(() => {
      clear(setup.lower);
      const script = `git init -q . && git config user.name p && git config user.email p@p
        mkdir -p src/deep docs && echo one >one && echo two >src/two && echo three >src/deep/three
        ln -s one link && chmod 600 src/two && echo doc >docs/readme
        git add . && git commit -qm first`;
      asPerson(setup, '/bin/sh', '-ec', script);
    });

    it('changes of every kind are seen in the box and leave the directory as it was', async () => {
      const dir = setup.newDir();
      const before_ = fingerprint(setup.lower);
      const layer = await setup.open(dir);
      const script = `
        echo new >new; echo more >>one; rm src/deep/three; mv src/two src/moved
        chmod 700 docs/readme
        rm link; ln -s src link; mkdir -p a/b; echo x >a/b/x; mv docs papers; rmdir src/deep
        touch -d @9 new
        cat one new src/moved papers/readme; ls -A; ls -A src
        git add -A; git -c user.name=a -c user.email=a@a commit -qm second; git log --format=%s`;
      const out = await setup.ok(layer, script);
      assert.match(
        out,
        /^one\nmore\nnew\ntwo\ndoc\n\.git\na\nlink\nnew\none\npapers\nsrc\nmoved\n/,
      );
      assert.match(out, /second\nfirst\n$/);
      assert.equal(fingerprint(setup.lower), before_);
      assert.equal(readFileSync(join(dir, 'upper/new'), 'utf8'), 'new\n');
      assert.equal(lstatSync(join(dir, 'upper/new')).uid, setup.warden.uid);
      await layer.close();
      assert.equal(await layer.ended, 'closed');
      assert.equal(fingerprint(setup.lower), before_);
    });

    it('two boxes see each other’s writes at once', async () => {
      const layer = await setup.open(setup.newDir());
      const plan = { binds: [{ kind: 'layer' as const, src: String(layer.handle), dst: '/ws' }] };
      const [a, b] = [await setup.warden.open(plan), await setup.warden.open(plan)];
      const sh = async (box: bigint, script: string) =>
        exited(await setup.warden.exec(box, ['/bin/sh', '-c', script])).stdout;
      for (let i = 0; i < 20; i++) {
        await sh(a.box, `echo ${i} >>one; echo ${i} >f${i}`);
        assert.match(
          await sh(b.box, `tail -1 one; cat f${i}; rm f${i}`),
          new RegExp(`^${i}\n${i}\n$`),
        );
        assert.equal(await sh(a.box, `ls f${i} 2>&1 | grep -c "No such"`), '1\n');
      }
      a.client.close();
      b.client.close();
      await layer.close();
    });

    it('the changes are still there when the layer is opened again', async () => {
      const dir = setup.newDir();
      const first = await setup.open(dir);
      await setup.ok(first, 'echo kept >kept; rm one; echo changed >src/two');
      await first.close();
      const second = await setup.open(dir);
      assert.equal(
        await setup.ok(second, 'cat kept src/two; ls one 2>&1 | wc -l'),
        'kept\nchanged\n1\n',
      );
      await second.close();
    });

    it('sealed changes lie below new ones', async () => {
      const [one, two] = [setup.newDir(), setup.newDir()];
      const first = await setup.open(one);
      await setup.ok(first, 'echo first >a; echo first >b; rm one; mv src sources');
      await first.close();
      const sealed = fingerprint(join(one, 'upper'));
      const second = await setup.open(two, [join(one, 'upper')]);
      await setup.ok(second, 'echo second >b; rm a; cat sources/two >copy; echo one again >one');
      await second.close();
      assert.equal(fingerprint(join(one, 'upper')), sealed);
      const third = await setup.open(setup.newDir(), [join(one, 'upper'), join(two, 'upper')]);
      assert.equal(
        await setup.ok(third, 'cat b copy one; ls -d a src 2>&1 | grep -c "No such"'),
        'second\ntwo\none again\n2\n',
      );
      await third.close();
    });

    it('a read-only layer cannot be changed', async () => {
      const layer = await setup.open(setup.newDir());
      const run = async (readonly: boolean) => {
        const binds = [{ kind: 'layer' as const, src: String(layer.handle), dst: '/ws', readonly }];
        return exited(
          await setup.warden.run(['/bin/sh', '-c', 'echo x >new && cat one'], { binds }),
        );
      };
      assert.match((await run(true)).stderr, /Read-only file system/);
      assert.equal((await run(false)).stdout, 'one\n', 'control');
      await layer.close();
    });

    it('a directory is part of one layer at a time, until the last box has ended', async () => {
      const dir = setup.newDir();
      const layer = await setup.open(dir);
      const inUse = { code: 'unavailable', message: /is in use/ };
      await assert.rejects(setup.open(dir), inUse);
      const other = setup.newDir();
      await assert.rejects(setup.open(other, [join(dir, 'upper')]), inUse);
      const plan = { binds: [{ kind: 'layer' as const, src: String(layer.handle), dst: '/ws' }] };
      const box = await setup.warden.open(plan);
      let closed = false;
      const closing = layer.close().then(() => {
        closed = true;
      });
      await assert.rejects(setup.open(dir), inUse);
      await assert.rejects(setup.warden.open(plan), /layer not found/);
      const written = await setup.warden.exec(box.box, ['/bin/sh', '-c', 'echo still >here']);
      assert.equal(exited(written).code, 0, 'a box keeps a closed layer');
      assert.equal(closed, false);
      box.client.closeBox();
      await closing;
      box.client.close();
      const again = await setup.open(dir);
      assert.equal(await setup.ok(again, 'cat here'), 'still\n');
      await again.close();
    });

    it('a layer ends with its connection', async () => {
      const dir = setup.newDir();
      const client = await setup.warden.client();
      const { uid, gid } = setup.warden;
      void client.send(
        frame(FRAME.layer, encodeLayer({ uid, gid, lower: setup.lower, sealed: [], dir })),
        null,
      );
      await client.features(); // served in order
      await assert.rejects(setup.open(dir), /is in use/);
      client.close();
      for (let tries = 0; ; tries++) {
        const layer = await setup.open(dir).catch(() => undefined);
        if (layer !== undefined) {
          await layer.close();
          break;
        }
        assert.ok(tries < 100, 'still in use');
      }
    });

    it('no path of the host is in the box’s mounts', async () => {
      const layer = await setup.open(setup.newDir());
      const mounts = await setup.ok(layer, 'cat /proc/self/mountinfo');
      const line = mounts.split('\n').findLast((at) => at.includes(' /ws ')) ?? mounts;
      assert.match(line, / - overlay layer /);
      for (const text of [setup.warden.dir, 'person', 'spaces', 'upper/'])
        assert.ok(!line.includes(text), line);
      await layer.close();
    });

    it('closing leaves no mount and no directory behind', async () => {
      const before_ = mountsOf(setup.warden.dir, setup.warden.process?.pid ?? 0);
      const layer = await setup.open(setup.newDir());
      await setup.ok(layer, 'echo x >x');
      assert.ok(mountsOf(setup.warden.dir, setup.warden.process?.pid ?? 0).length > before_.length);
      await layer.close();
      assert.deepEqual(mountsOf(setup.warden.dir, setup.warden.process?.pid ?? 0), before_);
    });

    it('a directory is renamed: at once by root, by a copy by others', async () => {
      const layer = await setup.open(setup.newDir());
      const rename = `python3 -c 'import os; os.rename("src", "renamed")' 2>&1 | grep -c Invalid.cross-device || true`;
      assert.equal(await setup.ok(layer, rename), mode === 'root' ? '0\n' : '1\n');
      if (mode === 'user') await setup.ok(layer, 'mv src renamed');
      assert.equal(
        await setup.ok(layer, 'cat renamed/deep/three; ls src 2>&1 | wc -l'),
        'three\n1\n',
      );
      await layer.close();
    });

    it('git does not read the files again, and trusts the repository', async () => {
      // Files as old as the index would be read again everywhere.
      asPerson(
        setup,
        '/bin/sh',
        '-ec',
        'sleep 1.1; git update-index -q --refresh; git status --short',
      );
      const layer = await setup.open(setup.newDir());
      assert.equal(await setup.ok(layer, 'git status --porcelain'), '');
      // A file of the same size and time is taken for unchanged: git looks at no content.
      const mtime = lstatSync(join(setup.lower, 'one')).mtime;
      writeFileSync(join(setup.lower, 'one'), 'eno\n');
      utimesSync(join(setup.lower, 'one'), mtime, mtime);
      assert.equal(await setup.ok(layer, 'git status --porcelain'), '');
      const plain = 'git -c core.checkStat=default status --porcelain';
      assert.match(await setup.ok(layer, plain), / M one\n/, 'control');
      await layer.close();
    });

    it('what is outside the bounds, or reached through a link, is no layer', async () => {
      const dir = setup.newDir();
      const { uid, gid } = setup.warden;
      const open = (more: { lower?: string; dir?: string; sealed?: string[]; uid?: number }) =>
        setup.link.layer({ uid, gid, lower: setup.lower, sealed: [], dir, ...more });
      const denied = { code: 'denied' };
      symlinkSync(setup.lower, join(setup.lower, 'self'));
      symlinkSync(dir, join(setup.warden.dir, `spaces/link`));
      const outsideDir = join(setup.warden.outside, 'dir');
      for (const name of ['', 'upper', 'work']) {
        mkdirSync(join(outsideDir, name), { recursive: true });
        chownSync(join(outsideDir, name), uid, gid);
      }
      await assert.rejects(open({ lower: setup.warden.outside }), denied);
      await assert.rejects(open({ lower: '/etc' }), denied);
      await assert.rejects(open({ lower: join(setup.lower, 'self') }), denied);
      await assert.rejects(open({ lower: join(setup.lower, 'one') }), denied);
      await assert.rejects(open({ lower: setup.warden.dir }), denied);
      await assert.rejects(open({ dir: outsideDir }), denied);
      await assert.rejects(open({ dir: join(setup.warden.dir, 'spaces') }), denied);
      await assert.rejects(open({ dir: join(setup.warden.dir, 'spaces/link') }), denied);
      await assert.rejects(open({ sealed: [setup.warden.outside] }), denied);
      await assert.rejects(
        open({ sealed: [setup.lower] }),
        mode === 'root' ? denied : /Too many levels/,
      );
      await assert.rejects(open({ lower: join(dir, 'upper') }), denied, 'its own upper');
      await assert.rejects(open({ uid: 0 }), /must not be 0/);
      await assert.rejects(open({ uid: 4_000 }), denied);
      rmSync(join(setup.warden.dir, 'spaces/link'));
      await (await open({})).close();
    });

    it('a link inside the layer’s own directory is not followed', async () => {
      for (const name of ['upper', 'work']) {
        const dir = setup.newDir();
        renameSync(join(dir, name), join(setup.warden.dir, `spaces/moved-${name}`));
        symlinkSync(join(setup.warden.dir, `spaces/moved-${name}`), join(dir, name));
        await assert.rejects(setup.open(dir), { code: 'sandbox_refused' });
        rmSync(join(dir, name));
        renameSync(join(setup.warden.dir, `spaces/moved-${name}`), join(dir, name));
        await (await setup.open(dir)).close();
      }
    });

    const skip = mode === 'user' ? 'all boxes of a user run as that user' : false;
    it('boxes of another user are refused the layer', { skip }, async () => {
      const layer = await setup.open(setup.newDir());
      for (const other of [{ uid: 61_235 }, { gid: 61_235 }, { uid: 61_235, gid: 61_235 }]) {
        const outcome = await setup.sh(layer, 'cat one', other);
        assert.equal(outcome.kind, 'refused');
        assert.match(JSON.stringify(outcome), /the layer is of uid 61234/);
      }
      assert.equal(await setup.ok(layer, 'cat one'), 'one\n', 'control');
      await layer.close();
      const dir = setup.newDir();
      chownSync(join(dir, 'upper'), 61_235, 61_235);
      await assert.rejects(setup.open(dir), /is owned by uid 61235/);
    });

    it('an open layer’s own directory is bound nowhere for writing', async () => {
      const dir = setup.newDir();
      const layer = await setup.open(dir);
      for (const src of [
        dir,
        join(dir, 'upper'),
        join(dir, 'work'),
        join(setup.warden.dir, 'spaces'),
      ]) {
        const outcome = await setup.sh(layer, 'true', {
          binds: [{ kind: 'rw', src, dst: '/mnt' }],
        });
        assert.match(JSON.stringify(outcome), /is in use by a layer/, src);
      }
      const space = join(dir, '../..');
      await assert.rejects(setup.link.deleteTree(space), {
        code: 'unavailable',
        message: /in use/,
      });
      await layer.close();
      const plan = { binds: [{ kind: 'rw' as const, src: join(dir, 'upper'), dst: '/mnt' }] };
      assert.equal(exited(await setup.warden.run(['/bin/true'], plan)).code, 0, 'control');
      await setup.link.deleteTree(space);
      assert.ok(!existsSync(space));
    });

    it('new files have the modes that a person’s have', async () => {
      const layer = await setup.open(setup.newDir());
      const script = 'touch new; mkdir dir; stat -c %a new dir';
      assert.equal(await setup.ok(layer, script), '644\n755\n');
      const plain = exited(await setup.warden.run(['/bin/sh', '-c', script])).stdout;
      assert.equal(plain, mode === 'root' ? '660\n770\n' : '644\n755\n', 'control');
      const binds = [{ kind: 'layer' as const, src: String(layer.handle), dst: '/ws' }];
      const box = await setup.warden.open({ binds });
      const inBox = await setup.warden.exec(box.box, ['/bin/sh', '-c', 'touch n2; stat -c %a n2']);
      assert.equal(exited(inBox).stdout, '644\n', 'a command in an open box');
      box.client.close();
      await layer.close();
    });

    it('the warden says which layers it can open', async () => {
      assert.equal((await setup.link.features()).get('layers'), mode);
      assert.ok(existsSync(join(setup.warden.dir, 'run/layers')));
    });
  });
}
