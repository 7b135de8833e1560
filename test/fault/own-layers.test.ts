// SIGKILL of sandboxd while a subtask gets a layer of its own, and while that is applied to its
// parent's. A repeated request finishes what was begun; no box sees half of it.
import assert from 'node:assert/strict';
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { killRequested } from '../support/kills.ts';
import { LAYER_MODES, type LayerWorld, startLayerWorld } from '../support/layers.ts';
import { eventually } from '../support/runtime.ts';

const FORK = [
  'sandboxd.before-seal',
  'sandboxd.after-seal',
  'sandboxd.before-fork',
  'sandboxd.after-fork',
];
const APPLY = [
  'sandboxd.after-apply-recorded',
  'sandboxd.after-apply-written',
  'sandboxd.after-apply-done',
];
const UNDO = ['sandboxd.after-undo-recorded', 'sandboxd.after-undo-done'];

for (const mode of LAYER_MODES)
  describe(`killed with layers of subtasks, as ${mode}`, { timeout: 400_000 }, () => {
    let world: LayerWorld;
    let crashFile: string;
    let made = 0;
    before(async () => {
      world = await startLayerWorld(mode, { mode: 'split', faults: true });
      crashFile = join(world.runtime.stateDir, 'crash-at');
      setInterval(() => killRequested(world.runtime), 5).unref();
    });
    after(() => world?.stop());

    const again = <T>(work: () => Promise<T>): Promise<T> =>
      eventually('sandboxd again', () => work().catch(() => undefined), 60_000);
    const crash = async (failpoint: string, work: () => Promise<unknown>): Promise<void> => {
      writeFileSync(crashFile, failpoint);
      await assert.rejects(work());
      assert.equal(existsSync(crashFile), false, `${failpoint} was reached`);
    };
    const prepare = async () => {
      const name = `o${made++}`;
      const { repo } = world.directory(name, { a: 'a\n', 'd/b': 'b\n' });
      const id = world.treeId(`${name}-child`);
      const run = async (script: string, more: object = {}): Promise<string> => {
        const box = await again(() => world.open(name, repo, more));
        return box.run(script).finally(() => box.close());
      };
      await run('echo parent > a');
      const body = { root_task_id: world.treeId(name), parent_id: world.treeId(name), path: repo };
      const applied = { apply_id: name, allow: [] };
      return {
        inParent: (script: string) => run(script),
        inChild: (script: string) => run(script, { layer_task_id: id }),
        fork: () => world.agentd.forkLayer({ params: { id }, body }),
        apply: () => world.agentd.applyLayer({ params: { id }, body: applied }),
        undo: () => world.agentd.undoApply({ params: { id }, body: { apply_id: name } }),
        list: () => world.agentd.layerChanges({ params: { id }, query: {} }),
      };
    };
    const SCRIPT = 'echo child > a; rm d/b; mkdir e; for n in $(seq 200); do echo $n > e/$n; done';
    const LOOK = 'cat a; ls d; ls e 2>/dev/null | wc -l';
    const [OLD, NEW] = ['parent\nb\n0\n', 'child\n200\n'];

    for (const failpoint of FORK)
      it(`${failpoint}: a repeated request makes it`, async () => {
        const tree = await prepare();
        await crash(failpoint, tree.fork);
        assert.equal(await tree.inParent('cat a; echo later > a'), 'parent\n');
        await again(tree.fork);
        assert.match(await tree.inChild('cat a'), /^(parent|later)\n$/);
        await tree.inChild('echo child > a');
        assert.equal(await tree.inParent('cat a'), 'later\n');
        const { changes } = await again(tree.list);
        assert.deepEqual(
          changes.map(({ path }) => path),
          ['a'],
        );
      });

    for (const failpoint of APPLY)
      it(`${failpoint}: finished before a box of the parent opens`, async () => {
        const tree = await prepare();
        await tree.fork();
        await tree.inChild(SCRIPT);
        assert.equal(await tree.inParent(LOOK), OLD);
        await crash(failpoint, tree.apply);
        assert.equal(await tree.inParent(LOOK), NEW);
        assert.equal((await again(tree.apply)).applied.length, 203, 'answered from the record');
        await again(tree.undo);
        assert.equal(await tree.inParent(LOOK), OLD);
        assert.equal(await tree.inParent('find . -name ".agentd-*"'), '');
      });

    for (const failpoint of UNDO)
      it(`${failpoint}: finished before a box of the parent opens`, async () => {
        const tree = await prepare();
        await tree.fork();
        await tree.inChild(SCRIPT);
        await tree.apply();
        await crash(failpoint, tree.undo);
        assert.equal(await tree.inParent(LOOK), OLD);
        assert.equal((await again(tree.list)).changes.length, 203);
      });
  });
