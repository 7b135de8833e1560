// Changes in a layer are not pruned with their tree while they wait for a person. As root and as an
// ordinary user, through a whole runtime.
import assert from 'node:assert/strict';
import { existsSync, readFileSync, renameSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it as test } from 'node:test';
import { type LayeredTasks, startLayeredTasks } from '../support/layered-tasks.ts';
import { LAYER_MODES } from '../support/layers.ts';

for (const mode of LAYER_MODES) {
  describe(`changes that nobody applied, as ${mode}`, { timeout: 400_000 }, () => {
    let world: LayeredTasks;
    let made = 0;
    before(async () => {
      world = await startLayeredTasks(mode);
    });
    after(() => world?.stop());
    const it = (what: string, check: () => Promise<void>) =>
      test(what, (t) => (world.missing === undefined ? check() : t.skip(world.missing)));

    const changed = async (command = 'echo two >> a.txt') => {
      const dir = world.makeDirectory(`d${made++}`, { 'a.txt': 'one\n' });
      return { dir, id: (await world.work(dir, command)).id };
    };
    const prune = (id: string, ...more: string[]) => world.done('prune', '--task', id, ...more);
    const layerOf = (id: string) => join(world.runtime().stateDir, 'workspaces', id);

    it('keep their tree and its files, whoever prunes; once discarded, it goes', async () => {
      const { dir, id } = await changed();
      for (const kind of ['tasks', 'workspaces']) {
        const text = await prune(id, '--kind', kind);
        assert.match(text, /kept 1: its changes were neither applied nor discarded/, kind);
        assert.match(text, new RegExp(`${id}: agentctl task diff ${id}, then task apply or`));
      }
      const usage = await prune(id, '--dry-run');
      assert.match(usage, /its changes were neither applied nor discarded/);
      assert.match(await world.done('task', 'diff', id), /^\+two$/m);
      assert.ok(existsSync(layerOf(id)));
      await world.done('task', 'discard', id, '--yes');
      assert.match(await prune(id, '--kind', 'tasks'), /tasks: 1 pruned/);
      assert.deepEqual(
        [existsSync(layerOf(id)), readFileSync(join(dir, 'a.txt'), 'utf8')],
        [false, 'one\n'],
      );
    });

    it('once applied, their tree goes, and what was applied stays', async () => {
      const { dir, id } = await changed();
      await world.done('task', 'apply', id);
      assert.match(await prune(id, '--kind', 'tasks'), /tasks: 1 pruned/);
      assert.equal(readFileSync(join(dir, 'a.txt'), 'utf8'), 'one\ntwo\n');
    });

    it('control: a tree that changed nothing goes', async () => {
      const { id } = await changed('true');
      assert.match(await prune(id, '--kind', 'tasks'), /tasks: 1 pruned/);
    });

    it('stay when their directory is gone, until they are discarded', async () => {
      const { dir, id } = await changed();
      renameSync(dir, `${dir}.moved`);
      const text = await prune(id, '--kind', 'tasks');
      assert.match(text, /: its changes cannot be read: .*task discard .* --yes/);
      assert.ok(existsSync(layerOf(id)));
      await world.done('task', 'discard', id, '--yes');
      // Nothing of it can be read still, but nothing is in it.
      const left = await prune(id, '--kind', 'tasks');
      assert.match(left, /tasks: 1 pruned/);
    });
  });
}
