// An undo brings the agents' work back into the layer: the same changes, without conflicts, which
// can be applied again; unless the layer has newer ones, which are kept. As root and as a user.
import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import type { LayerChangeView } from '../../src/wire/sandboxd/layers.ts';
import { LAYER_MODES, type LayerWorld, startLayerWorld } from '../support/layers.ts';

const FILES = { a: 'a\n', b: 'b\n', 'd/e/f': 'f\n', x: 'x\n' };
const SCRIPT =
  'echo 1 > a; rm b; mkdir -p n/m; echo n > n/m/y; chmod 600 x; rm -r d; echo d > d; ln -s a l';

for (const mode of LAYER_MODES) {
  describe(`a layer after an undo, as ${mode}`, { timeout: 400_000 }, () => {
    let world: LayerWorld;
    let made = 0;
    before(async () => {
      world = await startLayerWorld(mode);
    });
    after(() => world?.stop());

    const start = async (name: string, script: string = SCRIPT) => {
      const { repo } = world.directory(name, FILES);
      const run = async (more: string): Promise<string> => {
        const box = await world.open(name, repo);
        return box.run(more).finally(() => box.close());
      };
      await run(script);
      const params = { id: world.treeId(name) };
      const own = join(world.runtime.stateDir, 'workspaces', params.id, 'layers');
      return {
        repo,
        run,
        read: (path: string) => readFileSync(join(repo, path), 'utf8'),
        list: async () => (await world.agentd.layerChanges({ params, query: {} })).changes,
        apply: (more: object = {}) =>
          world.agentd.applyLayer({
            params,
            body: { apply_id: `undo-${made++}`, allow: [], ...more },
          }),
        undo: (apply_id?: string) =>
          world.agentd.undoApply({ params, body: apply_id === undefined ? {} : { apply_id } }),
        discard: () => world.agentd.discardLayer({ params, body: {} }),
        layers: () => readdirSync(own).sort(),
      };
    };
    const conflictsOf = (changes: readonly LayerChangeView[]): string[] =>
      changes.flatMap(({ path, conflict }) => (conflict === null ? [] : [`${path} ${conflict}`]));

    it('shows the same changes, and applies them again', async () => {
      const tree = await start('again');
      const before_ = await tree.list();
      for (let round = 0; round < 2; round++) {
        const { applied } = await tree.apply();
        assert.equal(applied.length, before_.length);
        assert.deepEqual(
          [tree.read('a'), tree.read('n/m/y'), tree.read('d')],
          ['1\n', 'n\n', 'd\n'],
        );
        assert.deepEqual([existsSync(join(tree.repo, 'b')), await tree.list()], [false, []]);
        const undone = await tree.undo();
        assert.deepEqual([undone.is_in_layer, undone.kept_at], [true, null]);
        assert.deepEqual(
          [tree.read('a'), tree.read('b'), tree.read('d/e/f')],
          ['a\n', 'b\n', 'f\n'],
        );
        assert.deepEqual(await tree.list(), before_, 'all of it is in the layer again');
        assert.deepEqual(tree.layers(), ['1']);
        assert.equal(await tree.run('cat a n/m/y d; ls -d b 2>/dev/null || true'), '1\nn\nd\n');
      }
      await tree.run('echo 2 > a; echo new > z');
      await tree.apply();
      assert.deepEqual([tree.read('a'), tree.read('z')], ['2\n', 'new\n']);
    });

    it('a person’s edit after the undo is a conflict, and what was applied earlier is none', async () => {
      const tree = await start('edited');
      const first = await tree.apply({ paths: ['a'] });
      await tree.apply();
      await tree.undo();
      assert.deepEqual(conflictsOf(await tree.list()), []);
      await tree.undo(first.apply_id);
      assert.equal(tree.read('a'), 'a\n');
      assert.deepEqual(conflictsOf(await tree.list()), []);
      writeFileSync(join(tree.repo, 'a'), 'by a person\n');
      assert.deepEqual(conflictsOf(await tree.list()), ['a overlaps']);
      await assert.rejects(tree.apply(), { code: 'conflict' });
      assert.deepEqual([tree.read('a'), tree.read('b')], ['by a person\n', 'b\n']);
      await tree.apply({ paths: ['b', 'n'] });
      assert.deepEqual([tree.read('a'), tree.read('n/m/y')], ['by a person\n', 'n\n']);
    });

    it('an earlier apply that is undone first is no conflict after the last one is', async () => {
      const tree = await start('order');
      const first = await tree.apply({ paths: ['a'] });
      const last = await tree.apply();
      assert.equal(
        (await tree.undo(first.apply_id)).is_in_layer,
        false,
        'it is kept with the last',
      );
      assert.equal((await tree.undo(last.apply_id)).is_in_layer, true);
      const found = await tree.list();
      assert.deepEqual(conflictsOf(found), []);
      assert.ok(found.some(({ path }) => path === 'a'));
      await tree.apply();
      assert.deepEqual([tree.read('a'), tree.read('n/m/y')], ['1\n', 'n\n']);
    });

    it('newer changes stay in the layer, and the undone ones are kept until it is applied', async () => {
      const tree = await start('newer');
      await tree.apply();
      await tree.run('echo later > later');
      const undone = await tree.undo();
      assert.equal(tree.read('a'), 'a\n');
      assert.equal(undone.is_in_layer, false);
      assert.ok(undone.kept_at?.endsWith('/layers/1/upper'), String(undone.kept_at));
      assert.deepEqual(await tree.undo(undone.apply_id), undone, 'repeated: from the record');
      assert.ok(existsSync(undone.kept_at!));
      const found = (await tree.list()).map(({ path }) => path);
      assert.deepEqual(found, ['later'], 'the newer change alone');
      await tree.apply();
      assert.deepEqual([tree.read('later'), tree.layers()], ['later\n', ['2', '3']]);
      assert.equal((await tree.undo(undone.apply_id)).kept_at, null, 'it was superseded');
    });

    it('a box that has written nothing does not matter; a discard drops what was kept', async () => {
      const tree = await start('unused');
      await tree.apply();
      assert.equal(await tree.run('cat a; touch t; rm t; mkdir n/k; rmdir n/k'), '1\n');
      assert.equal((await tree.undo()).is_in_layer, true);
      const { apply_id } = await tree.apply();
      await tree.discard();
      assert.deepEqual(tree.layers(), ['3']);
      const undone = await tree.undo(apply_id);
      assert.deepEqual([undone.is_in_layer, undone.kept_at], [false, null]);
      assert.deepEqual([tree.read('a'), await tree.list()], ['a\n', []]);
    });
  });
}
