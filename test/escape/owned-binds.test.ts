// Owned binds: where the warden is root, the files of the directory's owner appear as the box's
// user, and what the box creates is the owner's on the host. Files of others stay others'.
import assert from 'node:assert/strict';
import {
  chownSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { after, before, beforeEach, describe, it } from 'node:test';
import type { Bind } from '../../src/daemons/sandboxd/adapters/plan.ts';
import { exited } from './support/cases.ts';
import { PERSON } from './support/layers.ts';
import { MODES, type PlanOptions, TestWarden } from './support/warden.ts';

const OTHER = 1_777;

for (const mode of MODES) {
  describe(`owned binds, as ${mode}`, { timeout: 120_000 }, () => {
    let warden: TestWarden;
    let dir: string;
    const owner = () => (mode === 'root' ? PERSON : { uid: warden.uid, gid: warden.gid });
    const owned = (more: Partial<Bind> = {}): Bind[] => [
      { kind: 'rw', src: dir, dst: '/ws', owned: true, ...more },
    ];
    const run = (script: string, binds = owned(), more: Partial<PlanOptions> = {}) =>
      warden.run(['/bin/sh', '-c', script], { binds, ...more });
    const about = (name: string) => {
      const { uid, gid } = lstatSync(join(dir, name));
      return { uid, gid };
    };
    const write = (name: string, { uid, gid } = owner()): void => {
      writeFileSync(join(dir, name), `${name}\n`, { mode: 0o600 });
      chownSync(join(dir, name), uid, gid);
    };
    before(async () => {
      warden = new TestWarden({ mode, bounds: (at) => [`rw ${at}/person`] });
      dir = join(warden.dir, 'person');
      await warden.start();
    });
    after(() => warden.stop());
    beforeEach(() => {
      rmSync(dir, { recursive: true, force: true });
      mkdirSync(dir, { mode: 0o700 });
      chownSync(dir, owner().uid, owner().gid);
      write('private');
    });

    it('what a box creates and changes is the owner’s', async () => {
      const script = `cat private && stat -c %u private && echo more >>private &&
        chmod 755 private &&
        mkdir new && echo x >new/file && ln -s file new/link && ln new/file new/hard &&
        cp private copy && mv copy moved && stat -c %u:%g new/file`;
      const outcome = exited(await run(script));
      assert.equal(outcome.code, 0, JSON.stringify(outcome));
      assert.equal(outcome.stdout, `private\n${warden.uid}\n${warden.uid}:${warden.gid}\n`);
      for (const name of ['private', 'new', 'new/file', 'new/link', 'new/hard', 'moved'])
        assert.deepEqual(about(name), owner(), name);
      assert.equal(readFileSync(join(dir, 'private'), 'utf8'), 'private\nmore\n');
      const plain = JSON.stringify(await run('cat private', owned({ owned: false })));
      assert.match(plain, mode === 'root' ? /chdir \/ws: Permission denied/ : /more/, 'control');
    });

    it('read-only, it shows private files and changes none', async () => {
      const outcome = exited(await run('cat private; echo x >private', owned({ kind: 'ro' })));
      assert.equal(outcome.stdout, 'private\n');
      assert.match(outcome.stderr, /Read-only file system/);
    });

    it('a denied path that is missing stays so, and nothing of it is left', async () => {
      const binds: Bind[] = [...owned(), { kind: 'mask', dst: '/ws/secret' }];
      const outcome = exited(await run('cat secret; echo x >secret; mv secret other', binds));
      assert.equal(outcome.stdout, '');
      assert.notEqual(outcome.code, 0);
      assert.ok(!existsSync(join(dir, 'secret')) && !existsSync(join(dir, 'other')));
      assert.equal(exited(await run('echo x >secret && mv secret other')).code, 0, 'control');
      const masked = exited(
        await run('cat private', [...owned(), { kind: 'mask', dst: '/ws/private' }]),
      );
      assert.equal(masked.stdout, '');
    });

    it('only a path that boxes may write shows its owner’s private files', async () => {
      const src = warden.outside;
      const outcome = await run('true', [{ kind: 'ro', src, dst: '/mnt', owned: true }]);
      assert.equal(outcome.kind === 'refused' && outcome.code, 'bounds');
      assert.equal(
        exited(await run('true', [{ kind: 'ro', src, dst: '/mnt' }])).code,
        0,
        'control',
      );
    });

    it('no file gets the rights of its owner’s group', async () => {
      const attack = 'echo evil >tool && chmod 2755 tool';
      const outcome = exited(await run(attack));
      assert.match(outcome.stderr, /Operation not permitted/);
      assert.equal(lstatSync(join(dir, 'tool')).mode & 0o7000, 0);
      assert.equal(exited(await run(attack, owned(), { guardsOff: ['seccomp'] })).code, 0);
      assert.equal(lstatSync(join(dir, 'tool')).mode & 0o7000, 0o2000, 'control');
      const byList = '/opt/hostile setgid-by-list /ws/listed';
      assert.match(exited(await run(byList)).stdout, /failed fsetxattr EOPNOTSUPP/);
      const control = await run(`rm listed; ${byList}`, owned(), { guardsOff: ['seccomp'] });
      assert.match(exited(control).stdout, /worked/, 'control');
      const shared = 'chmod 2770 . && stat -c %a .';
      assert.equal(
        exited(await warden.run(['/bin/sh', '-c', shared])).stdout,
        '2770\n',
        'elsewhere',
      );
    });

    it('level 1 has no such binds', async () => {
      const binds: Bind[] = [{ kind: 'rw', src: dir, dst: dir, owned: true }];
      const outcome = await run('true', binds, { level: 1, cwd: warden.workspace });
      assert.equal(outcome.kind === 'refused' && outcome.code, 'plan');
    });

    const skip = mode === 'user' ? 'a user owns no files of others' : false;
    it('files of others are no one’s in the box', { skip }, async () => {
      for (const uid of [OTHER, warden.uid, 0]) {
        const name = `of-${uid}`;
        write(name, { uid, gid: uid });
        const script = `stat -c %u ${name}; cat ${name}; echo x >>${name}; chmod 777 ${name}; chown ${warden.uid} ${name}`;
        const outcome = exited(await run(script));
        assert.equal(outcome.stdout, '65534\n', name);
        assert.equal(readFileSync(join(dir, name), 'utf8'), `${name}\n`);
        assert.deepEqual(about(name), { uid, gid: uid });
      }
    });

    it('a directory of root is mapped like any other', { skip }, async () => {
      chownSync(dir, 0, 0);
      write('roots', { uid: 0, gid: 0 });
      const outcome = exited(await run('cat roots && echo x >new'));
      assert.equal(outcome.stdout, 'roots\n', JSON.stringify(outcome));
      assert.deepEqual(about('new'), { uid: 0, gid: 0 });
      assert.equal(exited(await run('cat private')).stdout, '', 'the person’s is not');
    });
  });
}
