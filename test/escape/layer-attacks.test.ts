// Attacks through a layer: on the directory below it, on the record of its changes, and through
// what it leaves on the host. Each one works where the guard is off, or without a layer.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { after, before, beforeEach, describe, it } from 'node:test';
import type { Guard } from '../../src/daemons/sandboxd/adapters/plan.ts';
import type { OpenedLayer } from '../../src/daemons/sandboxd/adapters/warden.ts';
import { exited } from './support/cases.ts';
import { clear, fingerprint, type LayerSetup, startLayers } from './support/layers.ts';
import { MODES, type PlanOptions } from './support/warden.ts';

const OTHER = 1_777;
const ALL: Guard[] = ['landlock', 'seccomp', 'caps', 'userns'];

for (const mode of MODES) {
  describe(`attacks through a layer, as ${mode}`, { timeout: 240_000 }, () => {
    let setup: LayerSetup;
    let dir: string;
    let layer: OpenedLayer;
    const upper = (...names: string[]) => join(dir, 'upper', ...names);
    const make = (
      name: string,
      text: string,
      mode_ = 0o644,
      { uid, gid } = setup.person,
    ): string => {
      const path = join(setup.lower, name);
      writeFileSync(path, text);
      chownSync(path, uid, gid);
      chmodSync(path, mode_);
      return path;
    };
    const reopen = async (): Promise<void> => {
      await layer.close();
      layer = await setup.open(dir);
    };
    const sh = async (script: string, more: Partial<PlanOptions> = {}) =>
      exited(await setup.sh(layer, script, more));
    const hostile = (...args: string[]) => sh(`/opt/hostile ${args.join(' ')}`);
    const unguarded = (...args: string[]) =>
      sh(`/opt/hostile ${args.join(' ')}`, { guardsOff: ALL });
    /** The same attack on a plain writable directory. */
    const plain = async (...args: string[]) => {
      clear(setup.warden.workspace);
      mkdirSync(join(setup.warden.workspace, 'docs'));
      for (const name of ['docs', '.'])
        chownSync(join(setup.warden.workspace, name), setup.warden.uid, setup.warden.gid);
      const argv = ['/opt/hostile', ...args];
      return exited(await setup.warden.run(argv, { guardsOff: ALL }));
    };

    before(async () => {
      setup = await startLayers(mode);
    });
    after(() => setup.stop());
    beforeEach(async () => {
      await layer?.close();
      clear(setup.lower);
      mkdirSync(join(setup.lower, 'docs'));
      chownSync(join(setup.lower, 'docs'), setup.person.uid, setup.person.gid);
      make('one', 'one\n');
      make('docs/two', 'two\n');
      dir = setup.newDir();
      layer = await setup.open(dir);
    });

    it('A23 no whiteout can be created, with or without the guards', async () => {
      assert.notEqual((await sh('mknod /ws/gone c 0 0')).code, 0);
      const control = await sh('mknod /ws/one.gone c 0 0', { guardsOff: ALL });
      assert.match(control.stderr, /Operation not permitted/, 'the overlay refuses it itself');
      assert.equal((await plain('rename', '0', '/ws/docs', '/ws/moved')).code, 0);
      for (const run of [hostile, unguarded])
        assert.match((await run('rename', '4', '/ws/one', '/ws/moved')).stdout, /failed rename/);
      assert.match(
        (await plain('rename', '4', '/ws/docs', '/ws/moved')).stdout,
        /worked/,
        'control',
      );
      assert.deepEqual(readdirSync(upper()), []);
    });

    it('A23 no attribute that the overlay reads can be set', async () => {
      const names = ['user.overlay.opaque', 'trusted.overlay.opaque', 'user.overlay.whiteout'];
      for (const name of names)
        for (const run of [hostile, unguarded]) await run('set-attribute', '/ws/docs', name, 'y');
      for (const space of ['user', 'trusted'])
        for (const name of ['redirect', 'metacopy', 'origin'])
          await unguarded('set-attribute', '/ws/docs', `${space}.overlay.${name}`, '/');
      await setup.ok(layer, 'echo new >docs/new');
      await reopen();
      assert.equal(await setup.ok(layer, 'cat docs/two docs/new; ls docs'), 'two\nnew\nnew\ntwo\n');
      await layer.close();
      const name = mode === 'root' ? 'trusted.overlay.opaque' : 'user.overlay.opaque';
      execFileSync(setup.warden.hostile, ['set-attribute', upper('docs'), name, 'y']);
      layer = await setup.open(dir);
      assert.equal(
        await setup.ok(layer, 'ls docs'),
        'new\n',
        'control: set on the host, it counts',
      );
    });

    it('A23 a person’s directory cannot show another through an attribute', async () => {
      make('secret', 'secret\n');
      for (const [name, value] of [
        ['user.overlay.redirect', '/'],
        ['user.overlay.metacopy', ''],
        ['user.overlay.opaque', 'y'],
      ] as const)
        execFileSync(setup.warden.hostile, [
          'set-attribute',
          join(setup.lower, 'docs'),
          name,
          value,
        ]);
      await reopen();
      assert.equal(await setup.ok(layer, 'ls docs'), 'two\n');
    });

    it('A23 no name is . or .., and none of the work directory is seen', async () => {
      const listed = await sh('ln -sfT /opt /ws/.. ; ln -sfT /opt /ws/. ; ls -A /ws; ls /ws/work');
      assert.equal(listed.stdout, 'docs\none\n');
      await setup.ok(layer, 'rm one; mv docs/two docs/three; rm -r docs');
      assert.equal(
        (await sh('find / -name work -o -name "#*" -o -name index 2>/dev/null | grep -v ^/usr'))
          .stdout,
        '',
      );
    });

    for (const [kind, bit] of [
      ['setuid', 0o4000],
      ['setgid', 0o2000],
    ] as const)
      for (const call of ['fchmod', 'fchmodat', 'mknodat', 'openat', 'tmpfile'])
        it(`C13 no ${kind} file by ${call}`, async () => {
          const attack = `make-${kind} ${call} /ws/evil`;
          const modeOf = () =>
            existsSync(upper('evil')) ? lstatSync(upper('evil')).mode & 0o7000 : 0;
          assert.match((await hostile(attack)).stdout, /EPERM/);
          assert.equal(modeOf(), 0);
          await setup.ok(layer, 'rm -f evil');
          const off: Guard[] = ['seccomp', 'landlock'];
          const control = await sh(`/opt/hostile ${attack}`, { guardsOff: off });
          assert.equal(control.code, 0, JSON.stringify(control));
          assert.equal(modeOf(), bit, 'control');
        });

    for (const way of ['write', 'truncate', 'fallocate', 'copy'])
      it(`C13 a file created setuid by openat2 is not setuid with content: ${way}`, async () => {
        const modeOf = () => lstatSync(upper('evil')).mode & 0o7000;
        assert.match((await hostile('fill-setuid', '/ws/evil', way)).stdout, /failed cleared/);
        assert.ok(lstatSync(upper('evil')).size > 0);
        assert.equal(modeOf(), 0);
        await setup.ok(layer, 'rm evil');
        if (mode === 'user') return; // the capability counts in the host's user namespace only
        assert.match((await unguarded('fill-setuid', '/ws/evil', way)).stdout, /worked/, 'control');
        assert.equal(modeOf(), 0o4000);
      });

    it('C13 a setuid file of the person is not one once a box has changed it', async () => {
      make('tool', '#!/bin/sh\n', 0o4755);
      chmodSync(join(setup.lower, 'tool'), 0o4755);
      await reopen();
      assert.equal(await setup.ok(layer, 'echo evil >>tool; stat -c %a tool'), '755\n');
      assert.equal(lstatSync(upper('tool')).mode & 0o7777, 0o755);
      assert.equal(lstatSync(join(setup.lower, 'tool')).mode & 0o7777, 0o4755);
    });

    it('A22 no device can be created, and none works', async () => {
      assert.match((await hostile('make-device', '/ws/null')).stdout, /failed mknod/);
      if (mode === 'user') return; // no guard off gives a user that right
      assert.match((await unguarded('make-device', '/ws/null')).stdout, /worked/, 'control');
      const written = await sh('echo x >/ws/null', { guardsOff: ALL });
      assert.match(written.stderr, /Permission denied/, 'the mount has nodev');
    });

    it('A24 no fifo and no socket can be created', async () => {
      for (const kind of ['make-fifo', 'make-socket-file']) {
        assert.match((await hostile(kind, '/ws/odd')).stdout, /failed/);
        assert.match((await unguarded(kind, '/ws/odd')).stdout, /worked/, 'control');
        await setup.ok(layer, 'rm odd');
      }
    });

    const skip = mode === 'user' ? 'a user opens layers over its own files only' : false;
    it('files of others in the directory stay theirs', { skip }, async () => {
      const owner = { uid: OTHER, gid: OTHER };
      make('shared', 'shared\n', 0o644, owner);
      make('hidden', 'hidden\n', 0o600, owner);
      make('of-root', 'hidden\n', 0o600, { uid: 0, gid: 0 });
      // On disk the box's own user, and in the layer nobody.
      make('of-box', 'hidden\n', 0o600, setup.warden);
      await reopen();
      const before_ = fingerprint(setup.lower);
      assert.equal((await sh('cat shared hidden of-root of-box')).stdout, 'shared\n');
      const script =
        'for f in shared hidden of-root of-box; do echo x >>$f; chmod 777 $f; chown $(id -u) $f; mv $f x; done';
      assert.equal((await sh(script)).stdout, '');
      assert.match((await sh('rm -f shared')).stderr, /Value too large/, 'not even removed');
      assert.equal(fingerprint(setup.lower), before_);
      assert.equal(await setup.ok(layer, 'cat one'), 'one\n', 'control: the person’s own are read');
    });

    it('a directory of root is shown like any other', { skip }, async () => {
      for (const name of ['', 'docs', 'one']) chownSync(join(setup.lower, name), 0, 0);
      chmodSync(setup.lower, 0o700);
      await reopen();
      assert.equal(
        await setup.ok(layer, 'cat one; echo x >>one; stat -c %u one docs'),
        'one\n61234\n61234\n',
      );
      assert.equal(lstatSync(upper('one')).uid, setup.warden.uid);
      assert.equal(readFileSync(join(setup.lower, 'one'), 'utf8'), 'one\n');
      chownSync(setup.lower, setup.person.uid, setup.person.gid);
      chmodSync(setup.lower, 0o755);
    });

    it('level 1 does not reach it through the warden’s directory', async () => {
      const path = join(setup.warden.dir, 'run/layers/1/one');
      const read = async (guardsOff: Guard[]) => {
        const plan = { level: 1, guardsOff, cwd: setup.warden.workspace };
        return exited(await setup.warden.run(['/bin/cat', path], plan)).stdout;
      };
      assert.equal(await read([]), '');
      // As root the directory's mode is a second guard.
      if (mode === 'user') assert.equal(await read(['landlock']), 'one\n', 'control');
    });

    it('a mount in the directory is not in the layer', { skip }, async () => {
      execFileSync('mount', ['-t', 'tmpfs', 'none', join(setup.lower, 'docs')]);
      try {
        writeFileSync(join(setup.lower, 'docs/mounted'), '');
        await reopen();
        assert.equal(await setup.ok(layer, 'ls docs'), 'two\n');
      } finally {
        execFileSync('umount', ['-l', join(setup.lower, 'docs')]);
      }
    });

    it('a halt ends its boxes and opens no layer', async () => {
      const binds = [{ kind: 'layer' as const, src: String(layer.handle), dst: '/ws' }];
      const box = await setup.warden.open({ binds });
      writeFileSync(setup.warden.haltFile, '');
      try {
        const outcome = exited(await box.ended);
        assert.equal(outcome.endedBy, 'halt');
        await assert.rejects(setup.open(setup.newDir()), { code: 'halted' });
        await layer.close();
      } finally {
        rmSync(setup.warden.haltFile);
        box.client.close();
      }
      layer = await setup.open(dir);
      assert.equal(await setup.ok(layer, 'cat one'), 'one\n', 'control');
    });
  });
}
