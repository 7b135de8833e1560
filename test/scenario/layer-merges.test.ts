// A person edits her directory while agents work on a layer over it: text that both have changed in
// different places is merged, and what cannot be merged is a choice. With the real warden, as root
// and as an ordinary user.
import assert from 'node:assert/strict';
import {
  chmodSync,
  chownSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { hashChanges } from '../../src/platform/change-hash.ts';
import { sha256Hex } from '../../src/platform/json.ts';
import { conflictsOf, makeTrees } from '../support/layer-trees.ts';
import { LAYER_MODES, type LayerWorld, startLayerWorld } from '../support/layers.ts';

const TEXT = 'one\ntwo\nthree\nfour\nfive\n';
const HERS = TEXT.replace('five', 'FIVE');
const MERGED = HERS.replace('one', 'ONE');
const AGENTS = "sed -i 's/one/ONE/' a.txt";

for (const mode of LAYER_MODES)
  describe(`a person edits meanwhile, as ${mode}`, { timeout: 400_000 }, () => {
    let world: LayerWorld;
    before(async () => {
      world = await startLayerWorld(mode);
    });
    after(() => world?.stop());
    const changed: ReturnType<typeof makeTrees> = (...given) => makeTrees(world)(...given);
    const textIn = (repo: string, path: string): string => readFileSync(join(repo, path), 'utf8');
    const save = (repo: string, path: string, text: string): void => {
      // As editors do: another file comes in its place.
      writeFileSync(join(repo, `${path}.new`), text);
      const { mode: bits, uid, gid } = statSync(join(repo, path));
      chmodSync(join(repo, `${path}.new`), bits);
      chownSync(join(repo, `${path}.new`), uid, gid);
      renameSync(join(repo, `${path}.new`), join(repo, path));
    };

    it('merges what both have changed in different places, and says so', async () => {
      const tree = await changed('merged', { 'a.txt': TEXT, b: 'b\n' }, `${AGENTS}; echo B > b`);
      save(tree.repo, 'a.txt', HERS);
      const list = await tree.list();
      assert.deepEqual(
        list.map(({ path, conflict, merged }) => [path, conflict, merged]),
        [
          ['a.txt', null, true],
          ['b', null, false],
        ],
      );
      assert.equal(list[0]!.before!.sha256, sha256Hex(HERS));
      assert.equal(list[0]!.after!.sha256, sha256Hex(MERGED), 'what would be written');
      assert.equal(await tree.textOf('a.txt'), MERGED);
      const expect = hashChanges(list);
      const done = await tree.apply({ expect });
      assert.deepEqual([done.applied, done.merged], [['a.txt', 'b'], ['a.txt']]);
      assert.equal(done.change_sha256, expect);
      assert.equal(textIn(tree.repo, 'a.txt'), MERGED);
      assert.deepEqual(await tree.list(), []);
      await tree.undo();
      assert.equal(textIn(tree.repo, 'a.txt'), HERS, 'an undo restores her own newer text');
      assert.equal((await tree.list())[0]!.merged, true, 'and all can be applied again');
      await tree.apply();
      assert.equal(textIn(tree.repo, 'a.txt'), MERGED);
    });

    it('applies only the merge that a person has seen', async () => {
      const tree = await changed('seen-merge', { 'a.txt': TEXT }, AGENTS);
      save(tree.repo, 'a.txt', HERS);
      const expect = hashChanges(await tree.list());
      save(tree.repo, 'a.txt', HERS.replace('three', 'THREE'));
      await assert.rejects(tree.apply({ expect }), { code: 'conflict', message: /not those/ });
      assert.equal(textIn(tree.repo, 'a.txt'), HERS.replace('three', 'THREE'));
    });

    it('the same lines are a conflict that names the file, until she takes the task’s', async () => {
      const tree = await changed('overlap', { 'a.txt': TEXT, b: 'b\n' }, `${AGENTS}; echo B > b`);
      const hers = TEXT.replace('one', 'mine');
      save(tree.repo, 'a.txt', hers);
      assert.deepEqual(await tree.conflicts(), ['a.txt overlaps']);
      assert.deepEqual(await conflictsOf(tree.apply()), [{ path: 'a.txt', reason: 'overlaps' }]);
      assert.equal(textIn(tree.repo, 'b'), 'b\n', 'nothing was applied');
      await tree.apply({ paths: ['a.txt'], overwrite: true });
      assert.equal(textIn(tree.repo, 'a.txt'), TEXT.replace('one', 'ONE'));
      assert.equal(textIn(tree.repo, 'b'), 'b\n');
      await tree.undo();
      assert.equal(textIn(tree.repo, 'a.txt'), hers);
      assert.deepEqual(await tree.conflicts(), ['a.txt changed'], 'and asks again');
      const all = await tree.apply({ paths: ['a.txt', 'b'], overwrite: true });
      assert.deepEqual(await tree.list(), []);
      await tree.undo(all.apply_id);
      assert.equal(textIn(tree.repo, 'a.txt'), hers);
      assert.deepEqual(await tree.conflicts(), ['a.txt changed']);
      await conflictsOf(tree.apply());
    });

    it('without what both began from there is no merge', async () => {
      const binary = 'one\0\nfive\n';
      const files = { 'a.txt': TEXT, bin: binary, big: `${'x'.repeat(79)}\n`.repeat(14_000) };
      const tree = await changed(
        'no-base',
        { ...files, late: TEXT },
        `${AGENTS}; sed -i 1s/.*/1/ bin big`,
      );
      // She was first: an agent may have read the text before.
      save(tree.repo, 'late', HERS);
      await tree.run("sed -i 's/one/ONE/' late");
      save(tree.repo, 'bin', binary.replace('five', 'FIVE'));
      save(tree.repo, 'big', `${files.big}end\n`);
      assert.deepEqual(await tree.conflicts(), ['big changed', 'bin changed', 'late changed']);
      await tree.apply({ paths: ['a.txt'] });
    });

    it('a part of a layer is merged, and the rest goes on from the merged text', async () => {
      const tree = await changed('part', { 'a.txt': TEXT, b: 'b\n' }, `${AGENTS}; echo B > b`);
      save(tree.repo, 'a.txt', HERS);
      assert.deepEqual((await tree.apply({ paths: ['a.txt'] })).merged, ['a.txt']);
      assert.equal(textIn(tree.repo, 'a.txt'), MERGED);
      assert.deepEqual(await tree.kinds(), ['modified b'], 'the layer has the merged text, too');
      assert.equal(await tree.run('cat a.txt; sed -i s/two/TWO/ a.txt'), MERGED);
      save(tree.repo, 'a.txt', MERGED.replace('four', 'FOUR'));
      const next = MERGED.replace('four', 'FOUR').replace('two', 'TWO');
      const again = await tree.apply();
      assert.deepEqual([again.applied, again.merged], [['a.txt', 'b'], ['a.txt']]);
      assert.equal(textIn(tree.repo, 'a.txt'), next);
      await tree.undo(again.apply_id);
      assert.equal(textIn(tree.repo, 'a.txt'), MERGED.replace('four', 'FOUR'));
      assert.equal(textIn(tree.repo, 'b'), 'b\n');
    });

    it('merges modes, and leaves out what is the same on both sides', async () => {
      const files = { 'a.txt': TEXT, same: TEXT, touched: TEXT };
      const tree = await changed(
        'modes',
        files,
        `${AGENTS}; sed -i s/one/ONE/ same touched; chmod 755 a.txt`,
      );
      save(tree.repo, 'a.txt', HERS);
      save(tree.repo, 'same', TEXT.replace('one', 'ONE'));
      utimesSync(join(tree.repo, 'touched'), new Date(), new Date());
      assert.deepEqual(
        (await tree.list()).map(({ path, conflict, merged }) => [path, conflict, merged]),
        [
          ['a.txt', null, true],
          ['touched', null, false],
        ],
      );
      await tree.apply();
      assert.equal(textIn(tree.repo, 'a.txt'), MERGED);
      assert.equal(statSync(join(tree.repo, 'a.txt')).mode & 0o777, 0o755);
      assert.deepEqual(await tree.list(), []);
    });

    it('what would run later is looked for in the merged text', async () => {
      const before_ = '{\n  "name": "x",\n\n  "version": "1",\n\n  "private": true\n}\n';
      const tree = await changed(
        'kinds-merge',
        { 'package.json': before_ },
        `sed -i 's/"private": true/"private": true, "scripts": {"postinstall": "evil"}/' package.json`,
      );
      save(tree.repo, 'package.json', before_.replace('"1"', '"2"'));
      const [only] = await tree.list();
      assert.equal(only!.merged, true);
      assert.ok(only!.refused.length > 0, JSON.stringify(only));
      await assert.rejects(tree.apply(), { code: 'denied' });
    });

    it('a directory that she moves into place is a conflict, whatever its files’ times', async () => {
      const files = {
        'src/x': 'old\n',
        'src/in/y': 'old\n',
        'new/x': 'hers\n',
        'new/in/y': 'hers\n',
      };
      const script = 'echo agents > src/x; rm src/in/y; echo new > src/z; echo agents > src/in/z';
      const tree = await changed('moved', { ...files, other: 'o\n' }, `${script}; echo O > other`);
      assert.deepEqual(await tree.conflicts(), []);
      const at = (path: string): string => join(tree.repo, path);
      renameSync(at('src'), at('src.old'));
      renameSync(at('new'), at('src'));
      assert.deepEqual(await tree.conflicts(), ['src/in/y moved', 'src/x moved']);
      assert.deepEqual(await conflictsOf(tree.apply()), [
        { path: 'src/in/y', reason: 'moved' },
        { path: 'src/x', reason: 'moved' },
      ]);
      assert.deepEqual(
        [textIn(tree.repo, 'src/x'), textIn(tree.repo, 'src/in/y')],
        ['hers\n', 'hers\n'],
      );
      await tree.apply({ paths: ['other'] });
      // A name that is made in it hides nothing.
      writeFileSync(at('src/more'), 'hers\n');
      assert.deepEqual(
        await tree.conflicts(),
        ['src/in/y moved', 'src/x moved', 'src/more changed'].slice(0, 2),
      );
      await tree.apply({ paths: ['src'], overwrite: true });
      assert.deepEqual(
        [textIn(tree.repo, 'src/x'), textIn(tree.repo, 'src/more')],
        ['agents\n', 'hers\n'],
      );
      await tree.undo();
      assert.deepEqual(
        [textIn(tree.repo, 'src/x'), textIn(tree.repo, 'src/in/y')],
        ['hers\n', 'hers\n'],
      );
    });

    it('a directory that was not there before is one, too; new names in one that was are not', async () => {
      const tree = await changed(
        'came',
        { 'd/x': 'x\n' },
        'echo 1 > d/x; mkdir lib; echo 1 > lib/x',
      );
      const away = join(world.base, `away-${mode}`);
      mkdirSync(away);
      writeFileSync(join(away, 'x'), 'hers\n');
      writeFileSync(join(tree.repo, 'd/new'), 'hers\n');
      assert.deepEqual(await tree.conflicts(), []);
      const { uid, gid } = statSync(tree.repo);
      for (const path of [away, join(away, 'x')]) chownSync(path, uid, gid);
      renameSync(away, join(tree.repo, 'lib'));
      assert.deepEqual(
        (await tree.conflicts()).map((line) => line.split(' ')[0]),
        ['lib/x'],
      );
      rmSync(join(tree.repo, 'lib'), { recursive: true });
      await tree.apply();
      assert.equal(textIn(tree.repo, 'lib/x'), '1\n');
    });

    it('keeps no more texts than layers need', async () => {
      const tree = await changed('swept', { 'a.txt': TEXT }, AGENTS);
      const dir = join(world.runtime.stateDir, 'workspaces', tree.params.id, 'originals');
      assert.ok(readdirSync(dir).includes(sha256Hex(TEXT)));
      await tree.apply();
      assert.ok(readdirSync(dir).includes(sha256Hex(TEXT)), 'for an undo');
      await tree.run('echo x > other');
      await tree.apply();
      const left = readdirSync(dir);
      assert.ok(!left.includes(sha256Hex(TEXT)), String(left));
      assert.ok(left.length <= 2, String(left));
    });

    it('keeps up to 64 MiB of texts, and none of a tree whose files are pruned', async () => {
      const line = `${'x'.repeat(63)}\n`;
      const names = Array.from({ length: 68 }, (_, n) => `big${n}`);
      const texts = names.map((name) => [name, name + line.repeat(16_000)] as const);
      const script = 'for f in big*; do echo more >> $f; done';
      const tree = await changed('bounded', Object.fromEntries(texts), script);
      const dir = join(world.runtime.stateDir, 'workspaces', tree.params.id, 'originals');
      const sizeOf = (): number =>
        readdirSync(dir).reduce((sum, name) => sum + statSync(join(dir, name)).size, 0);
      // A busy machine needs several commands for so much.
      for (let round = 0; round < 20 && sizeOf() < 62 * 2 ** 20; round++) await tree.run('true');
      const kept = sizeOf();
      assert.ok(kept > 60 * 2 ** 20 && kept <= 65 * 2 ** 20, String(kept));
      for (const [name, text] of texts) writeFileSync(join(tree.repo, name), `hers\n${text}`);
      const list = await tree.list();
      const merged = list.filter((change) => change.merged).length;
      const refused = list.filter(({ conflict }) => conflict === 'changed').length;
      assert.ok(merged > 60 && refused > 0 && merged + refused === 68, `${merged} ${refused}`);
      const { params } = tree;
      await world.agentd.pruneTreeFiles({ params, query: { kind: 'workspaces' } });
      assert.throws(() => readdirSync(dir), { code: 'ENOENT' });
    });
  });
