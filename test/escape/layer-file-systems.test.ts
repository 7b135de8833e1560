// Layers on file systems of several kinds: tmpfs serves as any part, an overlay takes no changes of
// another one, and where owners cannot be mapped root opens a copy. Each refusal says what to do.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { chownSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import type { Fault } from '../../src/wire/errors.ts';
import { exited } from './support/cases.ts';
import { type LayerSetup, PERSON, startLayers } from './support/layers.ts';
import { IS_ROOT, MODES, type TestWarden } from './support/warden.ts';

const skip = IS_ROOT ? false : 'needs root, to mount';
for (const mode of MODES) {
  describe(`file systems of layers, as ${mode}`, { skip, timeout: 60_000 }, () => {
    let setup: LayerSetup;
    const owner = (warden: TestWarden) => (mode === 'root' ? PERSON : warden);
    const at = (name: string) => join(setup.warden.dir, name);
    const make = (path: string, { uid, gid }: { uid: number; gid: number }): string => {
      mkdirSync(path, { recursive: true });
      chownSync(path, uid, gid);
      return path;
    };
    const mounts: string[] = [];
    const mount = (path: string, ...args: string[]): void => {
      mkdirSync(path, { recursive: true });
      execFileSync('mount', [...args, path]);
      mounts.push(path);
    };

    before(async () => {
      if (!IS_ROOT) return;
      const prepare = (warden: TestWarden): void => {
        const [person, spaces] = [join(warden.dir, 'person'), join(warden.dir, 'spaces')];
        mount(join(person, 'tmpfs'), '-t', 'tmpfs', 'none');
        mount(join(spaces, 'tmpfs'), '-t', 'tmpfs', 'none');
        for (const name of ['lower', 'upper', 'work'])
          mkdirSync(join(warden.dir, 'ovl', name), { recursive: true });
        const options = ['lower', 'upper', 'work'].map(
          (name) => `${name}dir=${warden.dir}/ovl/${name}`,
        );
        mount(join(spaces, 'overlay'), '-t', 'overlay', '-o', options.join(','), 'none');
        mkdirSync(join(person, 'overlay'));
        execFileSync('mount', ['--bind', join(spaces, 'overlay'), join(person, 'overlay')]);
        mounts.push(join(person, 'overlay'));
        for (const name of ['disk', 'tmpfs', 'overlay']) {
          const lower = make(join(person, name, 'project'), owner(warden));
          writeFileSync(join(lower, 'one'), 'one\n');
          chownSync(join(lower, 'one'), owner(warden).uid, owner(warden).gid);
        }
      };
      setup = await startLayers(mode, { prepare });
    });
    after(async () => {
      for (const path of mounts.reverse()) execFileSync('umount', ['-l', path]);
      await setup?.stop();
    });

    let made = 0;
    const open = (lower: string, upper: string) => {
      const dir = at(`spaces/${upper}/${++made}`);
      for (const name of ['upper', 'work']) make(join(dir, name), setup.warden);
      const { uid, gid } = setup.warden;
      return setup.link.layer({ uid, gid, lower: at(`person/${lower}/project`), sealed: [], dir });
    };
    const works = async (lower: string, upper: string): Promise<void> => {
      const layer = await open(lower, upper);
      const script = 'echo more >>one; mkdir d; mv one d/two; cat d/two; ls';
      const outcome = exited(await setup.sh(layer, script));
      assert.equal(outcome.stdout, 'one\nmore\nd\n', JSON.stringify(outcome));
      await layer.close();
      await assert.rejects(open('none', upper), /No such file/);
    };

    for (const [lower, upper] of [
      ['disk', 'tmpfs'],
      ['tmpfs', 'disk'],
      ['tmpfs', 'tmpfs'],
      ['disk', 'disk'],
    ] as const)
      it(`changes on ${upper} of a directory on ${lower}`, () => works(lower, upper));

    it('changes on an overlay are refused with the reason', () =>
      assert.rejects(open('disk', 'overlay'), (error: Fault) => {
        assert.equal(error.code, 'level_unavailable');
        assert.match(error.message, /is on an overlay/);
        assert.match(error.hint, /put the state directory on a volume/);
        return true;
      }));

    it('a directory on an overlay: for a user, and not where owners are mapped', async () => {
      if (mode === 'user') return works('overlay', 'disk');
      await assert.rejects(open('overlay', 'disk'), (error: Fault) => {
        assert.equal(error.code, 'level_unavailable');
        assert.equal(error.details?.refused, 'overlay', 'a copy can be used');
        assert.match(error.message, /owner of its files cannot be mapped/);
        assert.match(error.hint, /use ext4, xfs, btrfs or tmpfs/);
        return true;
      });
    });
  });
}
