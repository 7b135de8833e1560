// Changes on the host while a box is open must not expose what the box was denied: files created,
// replaced, moved or mounted there. Controls: the same box without the denial.
import assert from 'node:assert/strict';
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { after, before, beforeEach, describe, it } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Bind } from '../../src/daemons/sandboxd/adapters/plan.ts';
import { exited, fillWorkspace } from './support/cases.ts';
import { IS_ROOT, MODES, NOTHING, TestWarden, type WardenBox } from './support/warden.ts';

for (const mode of MODES) {
  describe(`a host that changes while a box is open, as ${mode}`, { timeout: 240_000 }, () => {
    let warden: TestWarden;
    before(async () => {
      warden = await new TestWarden({ mode }).start();
    });
    beforeEach(() => {
      fillWorkspace(warden);
      rmSync(warden.outside, { recursive: true });
      mkdirSync(warden.outside);
      chmodSync(warden.outside, 0o755);
      replace('open', 'public\n');
      replace('deep/open', 'deep\n');
    });
    after(async () => {
      assert.deepEqual(await warden.leftovers(), NOTHING);
      await warden.stop();
    });

    const at = (name: string) => join(warden.outside, name);
    /** Readable by all; replaced by a rename, as editors do. */
    const replace = (name: string, text: string): void => {
      mkdirSync(join(at(name), '..'), { recursive: true });
      writeFileSync(at(`${name}.new`), text);
      chmodSync(at(`${name}.new`), 0o644);
      renameSync(at(`${name}.new`), at(name));
    };
    const data = (): Bind => ({ kind: 'ro', src: warden.outside, dst: '/data' });
    const mask = (dst: string): Bind => ({ kind: 'mask', dst });
    const within = async <T>(binds: Bind[], work: (box: WardenBox) => Promise<T>): Promise<T> => {
      const openBox = await warden.open({ binds });
      try {
        return await work(openBox);
      } finally {
        openBox.client.closeBox();
        await openBox.ended;
        openBox.client.close();
      }
    };
    const sh = async ({ box }: WardenBox, script: string) =>
      exited(await warden.exec(box, ['/bin/sh', '-c', script]));
    /** Returns what a command reads after the change: with the denial, and without it. */
    const readAfter = async (denied: string[], change: () => void, path: string) => {
      const read = (binds: Bind[]) =>
        within(binds, async (box) => {
          change();
          return (await sh(box, `cat ${path}; true`)).stdout;
        });
      return read([data(), ...denied.map(mask)]);
    };

    it('A12 a denied file created later is not visible; other files stay readable', async () => {
      const change = () => replace('secret', 'KEY\n');
      assert.equal(await readAfter(['/data/secret'], change, '/data/secret'), '');
      rmSync(at('secret'));
      assert.equal(await readAfter([], change, '/data/secret'), 'KEY\n', 'control');
      const open = await readAfter(['/data/secret'], change, '/data/open /data/deep/open');
      assert.equal(open, 'public\ndeep\n', 'other files stay readable');
    });
    it('A12 a denied file created later with its parent directories is not visible', async () => {
      const change = () => replace('a/b/c/secret', 'KEY\n');
      const path = '/data/a/b/c/secret';
      assert.equal(await readAfter([path], change, path), '');
      rmSync(at('a'), { recursive: true });
      assert.equal(await readAfter([], change, path), 'KEY\n', 'control');
    });
    it('A12 a denied file is not visible after its directory was moved away and recreated', async () => {
      replace('a/b/other', 'x\n');
      const change = () => {
        renameSync(at('a'), at('old'));
        replace('a/b/secret', 'KEY\n');
      };
      assert.equal(await readAfter(['/data/a/b/secret'], change, '/data/a/b/secret'), '');
    });
    it('A12 a denied file is not visible after its directory was replaced by a link or another directory', async () => {
      replace('elsewhere/secret', 'KEY\n');
      const link = () => symlinkSync('elsewhere', at('a'));
      assert.equal(await readAfter(['/data/a/secret'], link, '/data/a/secret'), '');
      rmSync(at('a'));
      assert.equal(await readAfter([], link, '/data/a/secret'), 'KEY\n', 'control');
      rmSync(at('a'));
      const directory = () => renameSync(at('elsewhere'), at('a'));
      assert.equal(await readAfter(['/data/a/secret'], directory, '/data/a/secret'), '');
    });
    it('A8 denying a link under a read-only path hides its target under every name', async () => {
      replace('dot/ssh/key', 'KEY\n');
      symlinkSync('dot/ssh', at('.ssh'));
      symlinkSync('dot', at('way'));
      const all = '/data/.ssh/key /data/dot/ssh/key /data/way/ssh/key';
      const rest = async (denied: string) => {
        const read = `cat ${all} 2>/dev/null; cat /data/open /data/deep/open`;
        const binds = [data(), mask(denied)];
        return within(binds, async (box) => (await sh(box, read)).stdout);
      };
      for (const denied of ['/data/.ssh', '/data/way/ssh', '/data/.ssh/key', '/data/way/ssh/key'])
        assert.equal(await rest(denied), 'public\ndeep\n', denied);
      assert.equal(await rest('/data/none'), `${'KEY\n'.repeat(3)}public\ndeep\n`, 'control');
    });
    it('A8 denying a link works when it is dangling, leads out of the box, or is circular', async () => {
      symlinkSync('later', at('link'));
      symlinkSync('/etc/passwd', at('out'));
      for (const denied of ['/data/link', '/data/out']) {
        const change = () => replace('later', 'KEY\n');
        const seen = await readAfter([denied], change, `${denied} /data/later /data/open`);
        assert.equal(seen, 'public\n', denied);
        rmSync(at('later'));
      }
      symlinkSync('circle', at('circle'));
      const outcome = await warden.run(['/bin/true'], { binds: [data(), mask('/data/circle')] });
      assert.match(JSON.stringify(outcome), /too many symbolic links/);
    });
    it('A12 a denied file replaced by a rename stays masked', async () => {
      replace('secret', 'OLD\n');
      replace('a/secret', 'OLD\n');
      const change = () => {
        replace('secret', 'NEW\n');
        replace('a/secret', 'NEW\n');
      };
      const paths = ['/data/secret', '/data/a/secret'];
      assert.equal(await readAfter(paths, change, paths.join(' ')), '');
      assert.equal(await readAfter([], change, paths.join(' ')), 'NEW\nNEW\n', 'control');
    });
    it('A12 removing a denied file or directory does not uncover its content', async () => {
      replace('a/secret', 'OLD\n');
      replace('secret', 'OLD\n');
      const change = () => {
        rmSync(at('a'), { recursive: true });
        rmSync(at('secret'));
      };
      const read = '/data/secret /data/a/secret /data/a/*';
      assert.equal(await readAfter(['/data/a', '/data/secret'], change, read), '');
      const again = () => replace('a/secret', 'NEW\n');
      assert.equal(await readAfter(['/data/a'], again, '/data/a/secret'), '');
    });
    it('nested denials are enforced in any order', async () => {
      replace('a/b/secret', 'KEY\n');
      replace('a/other', 'x\n');
      const paths = ['/data/a/b/secret', '/data/a/b', '/data/a'];
      for (const denied of [paths, paths.toReversed()]) {
        const read = '/data/a/b/secret /data/a/other /data/open';
        assert.equal(await readAfter(denied, () => {}, read), 'public\n', denied.join(' '));
      }
      fillWorkspace(warden, { 'a/': '', 'a/b/': '', 'a/b/secret': 'KEY\n' });
      for (const denied of [paths, paths.toReversed()]) {
        const binds = denied.map((path) => mask(path.replace('/data', '/ws')));
        const read = (more: Bind[]) =>
          within(more, async (box) => (await sh(box, 'cat /ws/a/b/secret; true')).stdout);
        assert.equal(await read(binds), '');
        assert.equal(await read([]), 'KEY\n', 'control');
      }
      const below = await readAfter([paths[0]!], () => {}, '/data/a/b/secret /data/a/other');
      assert.equal(below, 'x\n');
    });
    it('links, unreadable directories and modes are unchanged', async () => {
      symlinkSync('open', at('link'));
      replace('closed/file', 'x\n');
      replace('way/closed/file', 'x\n');
      // Unreadable to the box's user: an ordinary user's box runs as that user.
      for (const name of ['closed', 'way/closed']) chmodSync(at(name), IS_ROOT ? 0o700 : 0);
      const denied = ['/data/secret', '/data/way/closed/secret'];
      await within([data(), ...denied.map(mask)], async (box) => {
        assert.equal(
          (await sh(box, 'cat /data/link; readlink /data/link')).stdout,
          'public\nopen\n',
        );
        for (const path of ['/data/closed/file', '/data/way/closed/file'])
          assert.notEqual((await sh(box, `cat ${path}`)).code, 0, path);
        assert.notEqual((await sh(box, 'ls /data/way/closed')).code, 0);
        const own = mode === 'root' ? '755\n' : '555\n';
        assert.equal((await sh(box, 'stat -c %a /data')).stdout, own);
        for (const write of ['echo x >/data/new', 'mkdir /data/d', 'chmod 777 /data'])
          assert.notEqual((await sh(box, write)).code, 0, write);
      });
      for (const name of ['closed', 'way/closed']) {
        chmodSync(at(name), 0o755);
        chownSync(at(name), warden.uid, warden.gid);
      }
      await within([data(), ...denied.map(mask)], async (box) => {
        const read = 'cat /data/closed/file /data/way/closed/file';
        assert.equal((await sh(box, read)).stdout, 'x\nx\n', 'control');
      });
    });
    it('too many entries beside a denied path refuse the box with the reason', async () => {
      mkdirSync(at('many'));
      for (let i = 0; i < 4_097; i++) writeFileSync(at(`many/${i}`), '');
      const outcome = await warden.run(['/bin/true'], {
        binds: [data(), mask('/data/many/secret')],
      });
      assert.ok(outcome.kind === 'refused');
      assert.match(outcome.message, /\/data\/many has more than 4096 entries/);
      const control = await warden.run(['/bin/true'], { binds: [data(), mask('/data/secret')] });
      assert.equal(exited(control).code, 0);
    });
    it('A12 a visible path below a denied one does not lead around the denial', async () => {
      replace('a/shown/x', 'x\n');
      const deeper: Bind = { kind: 'ro', src: at('a/shown'), dst: '/data/a/shown' };
      await within([data(), deeper, mask('/data/a/shown/secret')], async (box) => {
        assert.equal((await sh(box, 'cat /data/a/shown/x')).stdout, 'x\n');
        renameSync(at('a'), at('old'));
        replace('a/shown/secret', 'KEY\n');
        assert.equal((await sh(box, 'cat /data/a/shown/secret; true')).stdout, '');
      });
    });

    const config = () => join(warden.workspace, '.git/config');
    const replaceConfig = () => {
      writeFileSync(`${config()}.lock`, '[core]\n');
      chownSync(`${config()}.lock`, warden.uid, warden.gid);
      renameSync(`${config()}.lock`, config());
    };
    it('B1 a protected file replaced on the host ends the box; the next box protects the new file', async () => {
      fillWorkspace(warden, { '.git/': '', '.git/config': 'old' });
      const binds: Bind[] = [{ kind: 'protectFile', dst: '/ws/.git/config' }];
      const openBox = await warden.open({ binds });
      const running = warden.exec(openBox.box, ['/bin/sh', '-c', 'sleep 60']);
      assert.notEqual((await sh(openBox, 'echo evil >>/ws/.git/config')).code, 0);
      replaceConfig();
      const ended = exited(await openBox.ended);
      assert.equal(ended.endedBy, 'seal');
      assert.equal(exited(await running).endedBy, 'box');
      openBox.client.close();
      assert.equal(readFileSync(config(), 'utf8'), '[core]\n');
      // A one-command box detects it too, and a new box protects the new file.
      const once = warden.run(['/bin/sh', '-c', 'echo on >/ws/on; sleep 60'], { binds });
      while (!existsSync(join(warden.workspace, 'on'))) await sleep(5);
      replaceConfig();
      assert.equal(exited(await once).endedBy, 'seal');
      const write = ['/bin/sh', '-c', 'echo evil >>/ws/.git/config'];
      assert.notEqual(exited(await warden.run(write, { binds })).code, 0);
      assert.equal(readFileSync(config(), 'utf8'), '[core]\n');
      assert.equal(exited(await warden.run(write)).code, 0, 'control');
    });
    it('B1 moving a parent directory of a protected file ends the box, and no further command starts in it', async () => {
      const binds: Bind[] = [{ kind: 'protectFile', dst: '/ws/.git/config' }];
      const move = () => {
        renameSync(join(warden.workspace, '.git'), join(warden.workspace, 'old'));
        mkdirSync(join(warden.workspace, '.git'));
        replaceConfig();
      };
      for (const isBusy of [true, false]) {
        fillWorkspace(warden, { '.git/': '', '.git/config': 'old' });
        const openBox = await warden.open({ binds });
        const running = isBusy
          ? warden.exec(openBox.box, ['/bin/sh', '-c', 'echo on >/ws/on; sleep 60'])
          : undefined;
        while (isBusy && !existsSync(join(warden.workspace, 'on'))) await sleep(5);
        move();
        if (running !== undefined) assert.equal(exited(await running).endedBy, 'box');
        else {
          const next = await warden.exec(openBox.box, [
            '/bin/sh',
            '-c',
            'echo x >>/ws/.git/config',
          ]);
          assert.ok(next.kind === 'refused' && next.code === 'box', JSON.stringify(next));
        }
        assert.equal(exited(await openBox.ended).endedBy, 'seal');
        openBox.client.close();
        assert.equal(readFileSync(config(), 'utf8'), '[core]\n');
      }
      fillWorkspace(warden, { '.git/': '', '.git/config': 'old' });
      await within([], async (box) => {
        move();
        assert.equal((await sh(box, 'echo x >>/ws/.git/config')).code, 0, 'control');
      });
    });
    it('changes to other files on the host do not end the box', async () => {
      fillWorkspace(warden, { '.git/': '', '.git/config': 'old' });
      const binds: Bind[] = [
        { kind: 'protectFile', dst: '/ws/.git/config' },
        { kind: 'mask', dst: '/ws/.env' },
        data(),
        mask('/data/secret'),
      ];
      await within(binds, async (box) => {
        writeFileSync(join(warden.workspace, 'x'), 'x');
        renameSync(join(warden.workspace, 'x'), join(warden.workspace, 'y'));
        rmSync(join(warden.workspace, 'y'));
        replace('secret', 'KEY\n');
        replace('open', 'new\n');
        rmSync(at('deep'), { recursive: true });
        assert.equal((await sh(box, 'echo fine')).stdout, 'fine\n');
      });
    });
  });
}
