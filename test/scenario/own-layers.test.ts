// Layers of subtasks, above what the layer of their parent was when they were made: what one
// changes is in no other until it is applied there. With the real warden, as root and as a user.
import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import type { Fault } from '../../src/wire/errors.ts';
import { LAYER_MODES, type LayerWorld, startLayerWorld } from '../support/layers.ts';
import { assertHostClean } from '../support/leftovers.ts';

for (const mode of LAYER_MODES)
  describe(`layers of subtasks, as ${mode}`, { timeout: 400_000 }, () => {
    let world: LayerWorld;
    before(async () => {
      world = await startLayerWorld(mode);
    });
    after(() => world?.stop());

    let made = 0;
    const layer = (tree: string, repo: string, name = tree) => {
      const id = world.treeId(name);
      const params = { id };
      const run = async (script: string): Promise<string> => {
        const box = await world.open(tree, repo, name === tree ? {} : { layer_task_id: id });
        return box.run(script).finally(() => box.close());
      };
      const list = async () => (await world.agentd.layerChanges({ params, query: {} })).changes;
      return {
        id,
        run,
        list,
        kinds: async () => (await list()).map(({ kind, path }) => `${kind} ${path}`),
        apply: (more: object = {}) =>
          world.agentd.applyLayer({
            params,
            body: { apply_id: `own-${made++}`, allow: [], ...more },
          }),
        undo: () => world.agentd.undoApply({ params, body: {} }),
        discard: () => world.agentd.discardLayer({ params, body: {} }),
        async fork(child: string) {
          const body = { root_task_id: world.treeId(tree), parent_id: id, path: repo };
          await world.agentd.forkLayer({ params: { id: world.treeId(child) }, body });
          return layer(tree, repo, child);
        },
      };
    };
    const conflictsOf = async (work: Promise<unknown>): Promise<unknown> => {
      const error = await work.then(
        () => assert.fail('it was applied'),
        (found: unknown) => found as Fault,
      );
      assert.equal(error.code, 'conflict', String(error));
      return error.details?.conflicts;
    };
    const FILES = { a: 'a\n', b: 'b\n', 'd/c': 'c\n' };

    it('each sees what was there at that moment, and nothing of the other', async () => {
      const { repo } = world.directory('fork', FILES);
      const parent = layer('fork', repo);
      await parent.run('echo parent > a; rm b; mkdir e; echo e > e/e');
      const child = await parent.fork('fork-child');
      assert.equal(await child.run('cat a d/c e/e; ls'), 'parent\nc\ne\na\nd\ne\n');
      await child.run('echo child > a; echo new > n; rm -r e');
      await parent.run('echo later > later; echo 2 >> d/c');
      assert.equal(await parent.run('cat a; ls'), 'parent\na\nd\ne\nlater\n');
      assert.equal(await child.run('cat a d/c; ls'), 'child\nc\na\nd\nn\n');
      assert.deepEqual(await child.kinds(), ['modified a', 'deleted e', 'deleted e/e', 'added n']);
      assert.deepEqual(await parent.kinds(), [
        'modified a',
        'deleted b',
        'modified d/c',
        'added e',
        'added e/e',
        'added later',
      ]);
      assert.deepEqual(readdirSync(repo).sort(), ['a', 'b', 'd'], 'the directory is as it was');
    });

    it('is applied to the parent’s, undone there, and applied again', async () => {
      const { repo } = world.directory('apply', FILES);
      const parent = layer('apply', repo);
      await parent.run('echo parent > a');
      const child = await parent.fork('apply-child');
      await child.run('echo child > a; rm d/c; mkdir -m 700 n; echo n > n/n; ln -s a l');
      const { applied } = await child.apply();
      assert.deepEqual(applied, ['a', 'd/c', 'l', 'n', 'n/n']);
      const seen = 'child\nn\na\na\nb\nd\nl\nn\n700\n';
      const look = 'cat a n/n; readlink l; ls; stat -c %a n; ls d';
      assert.equal(await parent.run(look), seen);
      assert.equal(await child.run(look), seen, 'its own view stays');
      assert.deepEqual(await child.kinds(), [], 'nothing is left to apply');
      assert.equal(readFileSync(join(repo, 'a'), 'utf8'), 'a\n');
      const { restored, is_in_layer } = await child.undo();
      assert.deepEqual([restored.length, is_in_layer], [5, true]);
      assert.equal(await parent.run('cat a d/c; ls'), 'parent\nc\na\nb\nd\n');
      assert.equal((await child.kinds()).length, 5);
      await child.apply();
      assert.equal(await parent.run(look), seen);
      await parent.apply();
      assert.equal(readFileSync(join(repo, 'n/n'), 'utf8'), 'n\n');
      assert.equal(existsSync(join(repo, 'd/c')), false);
    });

    it('the first apply wins; the second is a conflict, and the rest of it can be applied', async () => {
      const { repo } = world.directory('two', FILES);
      const parent = layer('two', repo);
      await parent.run('echo parent > a');
      const [one, two] = [await parent.fork('two-1'), await parent.fork('two-2')];
      await one.run('echo one > a; rm b; echo one > n; echo same > s');
      await two.run('echo two > a; echo two > b; echo two > n; echo same > s; echo 2 > own');
      const conflicts = async () =>
        (await two.list()).map(({ path, conflict }) => [path, conflict]);
      assert.deepEqual(
        (await conflicts()).map(([, conflict]) => conflict),
        Array(5).fill(null),
        JSON.stringify(await two.list()),
      );
      await one.apply();
      assert.deepEqual(await conflicts(), [
        ['a', 'changed'],
        ['b', 'removed'],
        ['n', 'appeared'],
        ['own', null],
      ]);
      assert.deepEqual(await conflictsOf(two.apply()), [
        { path: 'a', reason: 'changed' },
        { path: 'b', reason: 'removed' },
        { path: 'n', reason: 'appeared' },
      ]);
      assert.equal(await parent.run('cat a n; ls'), 'one\none\na\nd\nn\ns\n', 'nothing of it');
      await two.apply({ paths: ['own'] });
      assert.equal(await parent.run('cat own a'), '2\none\n');
    });

    it('what the parent or the person changed meanwhile is a conflict', async () => {
      const { repo } = world.directory('meanwhile', FILES);
      const parent = layer('meanwhile', repo);
      await parent.run('echo parent > b');
      const child = await parent.fork('meanwhile-child');
      await child.run('echo child > a; echo child > b; echo child > d/c');
      await parent.run('echo later > b');
      writeFileSync(join(repo, 'd/c'), 'by a person\n');
      assert.deepEqual(await conflictsOf(child.apply()), [
        { path: 'b', reason: 'changed' },
        { path: 'd/c', reason: 'changed' },
      ]);
      await child.apply({ paths: ['a'] });
      assert.equal(await parent.run('cat a b d/c'), 'child\nlater\nby a person\n');
    });

    it('is discarded alone, and stays when the parent’s is discarded or applied', async () => {
      const { repo } = world.directory('alone', FILES);
      const parent = layer('alone', repo);
      await parent.run('echo parent > a');
      const [one, two] = [await parent.fork('alone-1'), await parent.fork('alone-2')];
      await one.run('echo one > b');
      await two.run('echo two > b');
      assert.equal((await one.discard()).discarded, 1);
      assert.equal(await one.run('cat a b'), 'parent\nb\n', 'what it began with');
      assert.equal(await two.run('cat b'), 'two\n');
      assert.equal((await parent.discard()).discarded, 1);
      assert.equal(await parent.run('cat a b'), 'a\nb\n');
      assert.equal(await two.run('cat a b'), 'parent\ntwo\n');
      await two.apply();
      assert.equal(await parent.run('cat a b'), 'a\ntwo\n');
      await parent.apply();
      assert.equal(readFileSync(join(repo, 'b'), 'utf8'), 'two\n');
      await parent.run('echo more > m');
      await parent.apply();
      assert.equal(await two.run('cat a b; ls'), 'parent\ntwo\na\nb\nd\nm\n');
    });

    it('a subtask of a subtask has one above its own, and applies to that', async () => {
      const { repo } = world.directory('deep', FILES);
      const parent = layer('deep', repo);
      const child = await parent.fork('deep-child');
      await child.run('echo child > a');
      const grandchild = await child.fork('deep-grandchild');
      assert.equal(await grandchild.run('cat a; echo deepest > a; echo g > g'), 'child\n');
      await child.run('echo own > o');
      await grandchild.apply();
      assert.equal(await child.run('cat a g o'), 'deepest\ng\nown\n');
      assert.equal(await parent.run('cat a; ls'), 'a\na\nb\nd\n');
      assert.deepEqual(await child.kinds(), ['modified a', 'added g', 'added o']);
      await child.apply();
      assert.equal(await parent.run('cat a g o'), 'deepest\ng\nown\n');
    });

    it('a command of the parent stops a fork and an apply, and nothing else does', async () => {
      const busy = async (name: string) => {
        const { repo } = world.directory(name, FILES);
        const parent = layer(name, repo);
        const child = await parent.fork(`${name}-child`);
        await child.run('echo child > a');
        const box = await world.open(name, repo);
        const running = box.run('sleep 12; cat a');
        await new Promise((resolve) => setTimeout(resolve, 500));
        return { parent, child, box, running };
      };
      const [one, two] = [await busy('busy-1'), await busy('busy-2')];
      assert.equal(await one.child.run('cat a'), 'child\n');
      await Promise.all([
        assert.rejects(one.child.apply(), { code: 'overloaded' }),
        assert.rejects(two.parent.fork('busy-3'), { code: 'overloaded' }),
      ]);
      assert.deepEqual([await one.running, await two.running], ['a\n', 'a\n']);
      await one.child.apply();
      assert.equal(await one.box.run('cat a'), 'child\n', 'the box that is open has it at once');
      for (const { box } of [one, two]) await box.close();
    });

    it('is refused to a task that has none, and to one of another parent', async () => {
      const { repo } = world.directory('none', FILES);
      const open = world.open('none', repo, { layer_task_id: world.treeId('none-1') });
      await assert.rejects(open, { code: 'not_found' });
      const body = {
        root_task_id: world.treeId('none'),
        parent_id: world.treeId('none-1'),
        path: repo,
      };
      const params = { id: world.treeId('none-2') };
      await assert.rejects(world.agentd.forkLayer({ params, body }), { code: 'not_found' });
    });

    it('kinds that run later are refused here, too', async () => {
      const { repo } = world.directory('kinds', { ...FILES, '.git/HEAD': 'ref: refs/heads/m\n' });
      const parent = layer('kinds', repo);
      const child = await parent.fork('kinds-child');
      await child.run('mkdir -p .git/hooks; echo evil > .git/hooks/pre-commit; echo a > x');
      await assert.rejects(child.apply(), { code: 'denied' });
      await child.apply({ paths: ['x'] });
      assert.equal(await parent.run('ls .git; cat x'), 'HEAD\na\n');
      await child.apply({ allow: ['git_hooks'] });
      assert.equal(await parent.run('cat .git/hooks/pre-commit'), 'evil\n');
    });

    it('commits come over as objects and refs', async () => {
      const { repo } = world.directory('commits', FILES);
      const git = 'git -c user.name=a -c user.email=a@b';
      const parent = layer('commits', repo);
      await parent.run(`git init -qb main . && git add . && ${git} commit -qm first`);
      const child = await parent.fork('commits-child');
      await child.run(`echo child > a && ${git} commit -qam second`);
      const { commits } = await child.apply();
      assert.deepEqual(
        commits.map(({ ref, count }) => [ref, count]),
        [['refs/heads/main', 1]],
      );
      assert.equal(
        await parent.run('git log --format=%s; git status --porcelain; git fsck --strict 2>&1'),
        'second\nfirst\n',
      );
    });

    it('goes with its tree', async () => {
      const { repo } = world.directory('gone', FILES);
      const parent = layer('gone', repo);
      await parent.run('echo parent > a');
      const child = await parent.fork('gone-child');
      await child.run('echo child > a');
      const dir = join(world.runtime.stateDir, 'workspaces', parent.id);
      assert.ok(existsSync(join(dir, 'own', child.id, 'layers/1/upper')));
      const query = { kind: 'workspaces' as const };
      const { left } = await world.agentd.pruneTreeFiles({ params: { id: parent.id }, query });
      assert.deepEqual([left, existsSync(dir)], [0, false]);
      assert.deepEqual(await child.list(), []);
    });

    it('nothing is left on the host after the stop', async () => {
      await world.runtime.stop();
      await assertHostClean(world.runtime);
    });
  });
