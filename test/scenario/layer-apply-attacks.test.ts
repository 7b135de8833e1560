// Attacks on a person who applies a layer: an agent leaves in it what runs later, what is applied
// without being seen, or what keeps it from being seen. With the real warden, as root and as an
// ordinary user.
import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync, renameSync, rmSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { hashChanges } from '../../src/platform/change-hash.ts';
import type { Fault } from '../../src/wire/errors.ts';
import { LAYER_GROUNDS, type LayerWorld, startLayerWorld } from '../support/layers.ts';

const textOf = (...path: string[]): string => readFileSync(join(...path), 'utf8');

for (const { mode, where, on } of LAYER_GROUNDS) {
  describe(`attacks on who applies a layer, as ${where}`, { timeout: 400_000 }, () => {
    let world: LayerWorld;
    let made = 0;
    const isCopy = on.peopleOn !== undefined;
    before(async () => {
      world = await startLayerWorld(mode, on);
    });
    after(() => world?.stop());

    /** A tree whose agent has run a script in its layer over these files. */
    const changed = async (name: string, files: Record<string, string>, script: string) => {
      const { repo } = world.directory(name, files);
      const box = await world.open(name, repo);
      await box.run(script).finally(() => box.close());
      const params = { id: world.treeId(name) };
      return {
        repo,
        list: async () => (await world.agentd.layerChanges({ params, query: {} })).changes,
        async kinds(): Promise<Record<string, string[]>> {
          const all = (await this.list()).filter(({ refused }) => refused.length > 0);
          return Object.fromEntries(all.map(({ path, refused }) => [path, refused]));
        },
        apply: (more: object = {}) =>
          world.agentd.applyLayer({
            params,
            body: { apply_id: `apply-${made++}`, allow: [], ...more },
          }),
        undo: () => world.agentd.undoApply({ params, body: {} }),
        discard: () => world.agentd.discardLayer({ params, body: {} }),
      };
    };

    it('B1 what the person’s own settings of git run is refused', async () => {
      const config =
        '[core]\n\thooksPath = hooks\n[include]\n\tpath = ../team.inc\n' +
        '[filter "x"]\n\tclean = sh tools/clean.sh\n';
      const files = { 'hooks/a': 'a\n', 'more/a': 'a\n', '.git/HEAD': 'ref: refs/heads/main\n' };
      const script =
        'for f in hooks/pre-commit more/pre-push team.inc tools/clean.sh watch scripts/post-merge' +
        ' free; do mkdir -p $(dirname $f); echo evil > $f; done';
      const team = '[core]\n\tfsmonitor = ./watch\n';
      const own = { ...files, '.git/config': config, 'team.inc': team, '.git/hooks/a': 'a\n' };
      const tree = await changed('git-own', own, script);
      symlinkSync('../../scripts/post-merge', join(tree.repo, '.git/hooks/post-merge'));
      symlinkSync('../more/pre-push', join(tree.repo, 'hooks/pre-push'));
      assert.deepEqual(await tree.kinds(), {
        'hooks/pre-commit': ['git_hooks'],
        'more/pre-push': ['git_hooks'],
        'scripts/post-merge': ['git_hooks'],
        'team.inc': ['git_config'],
        'tools/clean.sh': ['git_config'],
        watch: ['git_config'],
      });
      await assert.rejects(tree.apply(), { code: 'denied' });
      assert.deepEqual((await tree.apply({ paths: ['free'] })).applied, ['free']);
      assert.equal(existsSync(join(tree.repo, 'hooks/pre-commit')), false);
      await tree.apply({ paths: ['hooks/pre-commit'], allow: ['git_hooks'] });
      // Without the settings the same changes apply.
      const plain = await changed('git-plain', { ...files, '.git/config': '[core]\n' }, script);
      assert.deepEqual(await plain.kinds(), {});
      await plain.apply();
      assert.equal(textOf(plain.repo, 'hooks/pre-commit'), 'evil\n');
    });

    it('B1 a submodule and a linked settings file have settings, too', async () => {
      const head = 'ref: refs/heads/main\n';
      const files = {
        '.git/HEAD': head,
        '.git/modules/lib/HEAD': head,
        '.git/modules/lib/config': '[core]\n\thooksPath = hooks\n',
        'lib/.git': 'gitdir: ../.git/modules/lib\n',
        'lib/a': 'a\n',
        'cfg/git': '[core]\n\thooksPath = scripts\n',
      };
      const script = 'mkdir lib/hooks scripts hooks; for d in lib/hooks scripts hooks; do ';
      const write = 'echo evil > $d/pre-commit; done; echo 1 >> cfg/git';
      const tree = await changed('git-modules', files, script + write);
      symlinkSync('../cfg/git', join(tree.repo, '.git/config'));
      assert.deepEqual(await tree.kinds(), {
        'cfg/git': ['git_config'],
        'lib/hooks': ['git_hooks'],
        'lib/hooks/pre-commit': ['git_hooks'],
        scripts: ['git_hooks'],
        'scripts/pre-commit': ['git_hooks'],
      });
    });

    it('B3 B4 repositories elsewhere and attributes that name a driver are refused', async () => {
      const files = { '.git/HEAD': 'ref: refs/heads/main\n', 'a/.gitattributes': '*.png binary\n' };
      const script =
        'mkdir -p sub n/.git bare/objects bare/refs; echo gitdir: /etc > sub/.git;' +
        'echo x > n/.git/config; echo x > bare/HEAD; echo ../.. > .git/commondir;' +
        'echo "*.md text" >> a/.gitattributes; ';
      const tree = await changed('b3', files, `${script} echo "*.c filter=x" > .gitattributes`);
      const kinds = await tree.kinds();
      assert.deepEqual(kinds['sub/.git'], ['gitlink']);
      assert.ok(kinds['n/.git']!.includes('nested_repository'));
      assert.deepEqual(kinds['bare/HEAD'], ['bare_repository']);
      assert.deepEqual(kinds['.git/commondir'], ['git_config']);
      assert.deepEqual(kinds['.gitattributes'], ['git_attributes']);
      assert.equal(kinds['a/.gitattributes'], undefined, 'names no driver');
      for (const path of ['sub', 'n', 'bare', '.git/commondir', '.gitattributes'])
        await assert.rejects(tree.apply({ paths: [path] }), { code: 'denied' }, path);
      await tree.apply({ paths: ['a'] });
      await tree.apply({ paths: ['.gitattributes'], allow: ['git_attributes'] });
      assert.equal(textOf(tree.repo, '.gitattributes'), '*.c filter=x\n');
    });

    it('B6 what a shell, an editor or a package manager runs is refused', async () => {
      const evil: Record<string, string> = {
        '.envrc': 'envrc',
        '.bashrc': 'shell_rc',
        '.vscode/tasks.json': 'editor_tasks',
        '.claude/settings.json': 'agent_settings',
        '.venv/bin/python': 'python_env',
        '.husky/pre-commit': 'hook_manager',
        '.cargo/config.toml': 'package_manager',
        'mise.toml': 'shims',
        '.gdbinit': 'repl',
      };
      const pack = (scripts: object) => JSON.stringify({ name: 'x', scripts });
      const write = [...Object.keys(evil), 'docs/envrc', 'src/tasks.json']
        .map((path) => `mkdir -p $(dirname ${path}); echo evil > ${path};`)
        .join(' ');
      const packs =
        `echo '${pack({ test: 'x', postinstall: 'evil' })}' > package.json; ` +
        `echo '${pack({ test: 'new' })}' > b/package.json`;
      const own = { 'package.json': pack({ test: 'x' }), 'b/package.json': pack({ test: 'x' }) };
      const tree = await changed('b6', own, write + packs);
      const kinds = await tree.kinds();
      assert.deepEqual(kinds['package.json'], ['package_scripts']);
      for (const [path, kind] of Object.entries(evil)) {
        assert.deepEqual(kinds[path], [kind]);
        await assert.rejects(tree.apply({ paths: [path] }), { code: 'denied' }, path);
        assert.equal(existsSync(join(tree.repo, path)), false);
      }
      // Files that only look like these apply, and each of these does if its kind is allowed.
      const { applied } = await tree.apply({ paths: ['docs', 'src', 'b'] });
      assert.deepEqual(applied.sort(), [
        'b/package.json',
        'docs',
        'docs/envrc',
        'src',
        'src/tasks.json',
      ]);
      await tree.apply({ allow: [...Object.values(evil), 'package_scripts'] });
      for (const path of Object.keys(evil)) assert.equal(textOf(tree.repo, path), 'evil\n');
    });

    it('a file is not replaced by a directory that the person has not chosen', async () => {
      const script = 'rm foo link; mkdir -p foo/d link new/d; for d in foo/d link new/d; do ';
      const files = { foo: 'mine\n', real: 'r\n', link: 'l\n' };
      const tree = await changed('replaced', files, `${script} echo x > $d/bar; done`);
      for (const [paths, parent] of [
        [['foo/d/bar'], 'foo'],
        [['new', 'link/bar'], 'link'],
      ] as const) {
        const refused = (await tree.apply({ paths }).catch((error: unknown) => error)) as Fault;
        assert.equal(refused.code, 'conflict', String(refused));
        assert.deepEqual(refused.details?.conflicts, [{ path: parent, reason: 'replaced' }]);
        assert.match(refused.message, new RegExp(`${parent}/.*bar cannot be applied alone`, 'u'));
      }
      assert.equal(textOf(tree.repo, 'foo'), 'mine\n');
      assert.equal(existsSync(join(tree.repo, 'new')), false, 'nothing was applied');
      // Directories that are new come with what is in them, and a chosen file is replaced.
      const { applied } = await tree.apply({ paths: ['new/d/bar'] });
      assert.deepEqual(applied, ['new', 'new/d', 'new/d/bar']);
      await tree.apply({ paths: ['foo'] });
      assert.equal(textOf(tree.repo, 'foo/d/bar'), 'x\n');
    });

    it('a directory that cannot be read does not hide the other changes', async () => {
      const script =
        'mkdir -p a/shut b new; echo x > a/shut/x; echo 1 > b/x; echo new > mine/f; echo 1 > z;' +
        'cd new; for n in $(seq 70); do mkdir d; cd d; done; echo x > x; cd /workspace;';
      const shut = 'chmod 000 a/shut mine';
      const tree = await changed('shut', { 'mine/f': 'old\n', o: 'o\n' }, script + shut);
      const deep = `new/${Array.from({ length: 64 }, () => 'd').join('/')}`;
      if (isCopy) {
        // Whoever has the owner's rights lists it all the same.
        assert.deepEqual(await tree.kinds(), { [deep]: ['unreadable'] });
        const listed = (await tree.list()).map(({ path }) => path);
        for (const path of ['a/shut/x', 'mine', 'mine/f', 'z']) assert.ok(listed.includes(path));
        return;
      }
      assert.deepEqual(await tree.kinds(), {
        'a/shut': ['unreadable'],
        mine: ['unreadable'],
        [deep]: ['unreadable'],
      });
      const { applied } = await tree.apply({ paths: ['a', 'b', 'mine', 'z'] });
      assert.deepEqual(applied, ['a', 'b', 'b/x', 'z']);
      assert.equal(existsSync(join(tree.repo, 'a/shut')), false);
      assert.equal(textOf(tree.repo, 'mine/f'), 'old\n');
      const shutOnly = await tree.apply({ paths: ['a/shut'], allow: ['unreadable'] });
      assert.deepEqual(shutOnly.applied, [], 'it cannot be allowed');
      await tree.apply();
      assert.equal((await tree.list()).length, 3, 'what was left out is still in the layer');
      await tree.discard();
      assert.deepEqual(await tree.list(), []);
      // The same, open, is listed and applied.
      const open = await changed('open', { 'mine/f': 'old\n' }, script);
      assert.deepEqual(Object.keys(await open.kinds()), [deep]);
      await open.apply({ paths: ['a', 'mine'] });
      assert.equal(textOf(open.repo, 'a/shut/x'), 'x\n');
      assert.equal(textOf(open.repo, 'mine/f'), 'new\n');
    });

    it('a layer that cannot be listed is discarded all the same', async () => {
      const tree = await changed('top', { f: 'f\n' }, 'echo 1 > f; chmod 000 /workspace');
      // As root the top of the layer is not closed by its mode.
      if (mode === 'user') await assert.rejects(tree.list(), { code: 'denied' });
      await tree.discard();
      assert.deepEqual(await tree.list(), []);
      assert.equal(textOf(tree.repo, 'f'), 'f\n');
    });

    it('what the person moves in conflicts: a file, and a directory with old files', async () => {
      const files = { f: 'old\n', 'f.new': 'mine\n', 'd/f': 'old\n', 'd.new/f': 'mine\n' };
      const tree = await changed('moved', files, 'echo evil > f; echo evil > d/f');
      const seen = hashChanges(await tree.list());
      renameSync(join(tree.repo, 'f.new'), join(tree.repo, 'f'));
      renameSync(join(tree.repo, 'd'), join(tree.repo, 'old'));
      renameSync(join(tree.repo, 'd.new'), join(tree.repo, 'd'));
      await assert.rejects(tree.apply({ paths: ['f'] }), { code: 'conflict' });
      await assert.rejects(tree.apply({ expect: seen }), { code: 'conflict', message: /shown/u });
      // A copy knows what its texts began from.
      const reason = isCopy ? 'overlaps' : 'moved';
      await assert.rejects(tree.apply({ paths: ['d/f'] }), {
        details: { conflicts: [{ path: 'd/f', reason }] },
      });
      assert.equal(textOf(tree.repo, 'd/f'), 'mine\n');
      if (isCopy) return;
      // Control: without the inodes that were kept it is overwritten.
      const kept = join(world.runtime.stateDir, 'workspaces', world.treeId('moved'), 'originals');
      for (const name of readdirSync(kept).filter((one) => one.startsWith('directories-')))
        rmSync(join(kept, name));
      const { applied } = await tree.apply({ paths: ['d/f'] });
      assert.deepEqual(applied, ['d/f']);
      await tree.undo();
      assert.equal(textOf(tree.repo, 'd/f'), 'mine\n');
    });
  });
}
