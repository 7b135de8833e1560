// SIGKILL of sandboxd at each point of an apply, an undo and a discard. What was begun is then
// finished, without and with a repeated request: every file is as the layer has it, merged with
// what the person has edited, or as before.
import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import type { Fault } from '../../src/wire/errors.ts';
import type { LayerChanges } from '../../src/wire/sandboxd/layers.ts';
import { killRequested } from '../support/kills.ts';
import { LAYER_MODES, type LayerWorld, startLayerWorld } from '../support/layers.ts';
import { eventually } from '../support/runtime.ts';

const BEFORE = { a: 'old\n', 'd/b': 'b\n', 'd/c': 'c\n' };
/** The person edits another line of it than the agent. */
const TEXT = 'one\ntwo\nthree\n';
const HERS = TEXT.replace('three', 'THREE');
const MERGED = HERS.replace('one', 'ONE');
const SCRIPT =
  'sed -i s/one/ONE/ m; ' +
  'echo new > a; rm d/b; mkdir -p e; for n in $(seq 400); do echo $n > e/$n; done';
/** Nothing was written yet: only a repeated request goes on. */
const UNRECORDED = 'sandboxd.before-apply-recorded';
const APPLY = [
  'sandboxd.after-apply-recorded',
  'sandboxd.after-apply-written',
  'sandboxd.after-apply-commits',
  'sandboxd.after-apply-done',
];
const UNDO = [
  'sandboxd.after-undo-recorded',
  'sandboxd.after-undo-commits',
  'sandboxd.after-undo-done',
];

for (const mode of LAYER_MODES)
  describe(`killed while applying, as ${mode}`, { timeout: 300_000 }, () => {
    let world: LayerWorld;
    let crashFile: string;
    let made = 0;
    before(async () => {
      world = await startLayerWorld(mode, { mode: 'split', faults: true });
      crashFile = join(world.runtime.stateDir, 'crash-at');
      setInterval(() => killRequested(world.runtime), 5).unref();
    });
    after(() => world?.stop());

    const prepare = async () => {
      const name = `t${made++}`;
      const { repo } = world.directory(name, { ...BEFORE, m: TEXT });
      const box = await eventually('a box', () => world.open(name, repo).catch(() => undefined));
      await box.run(SCRIPT);
      await box.close();
      writeFileSync(join(repo, 'm'), HERS);
      const params = { id: world.treeId(name) };
      const body = { apply_id: `apply-${name}`, allow: [] };
      return {
        repo,
        name,
        apply: () => world.agentd.applyLayer({ params, body }),
        undo: () => world.agentd.undoApply({ params, body: { apply_id: body.apply_id } }),
        discard: () => world.agentd.discardLayer({ params, body: {} }),
        list: (): Promise<LayerChanges> => world.agentd.layerChanges({ params, query: {} }),
      };
    };
    const isApplied = (repo: string): boolean =>
      readFileSync(join(repo, 'a'), 'utf8') === 'new\n' &&
      readFileSync(join(repo, 'm'), 'utf8') === MERGED &&
      !existsSync(join(repo, 'd/b')) &&
      existsSync(join(repo, 'e')) &&
      readdirSync(join(repo, 'e')).length === 400 &&
      readFileSync(join(repo, 'e/400'), 'utf8') === '400\n';
    const isAsBefore = (repo: string): boolean =>
      Object.entries({ ...BEFORE, m: HERS }).every(
        ([path, text]) =>
          existsSync(join(repo, path)) && readFileSync(join(repo, path), 'utf8') === text,
      ) && !existsSync(join(repo, 'e'));
    const assertNoTemporary = (repo: string): void => {
      const names = readdirSync(repo, { recursive: true, encoding: 'utf8' });
      assert.deepEqual(
        names.filter((path) => path.includes('.agentd-')),
        [],
      );
    };
    const crash = async (failpoint: string, work: () => Promise<unknown>): Promise<void> => {
      writeFileSync(crashFile, failpoint);
      await assert.rejects(work());
      assert.equal(existsSync(crashFile), false, `${failpoint} was reached`);
    };
    const again = <T>(work: () => Promise<T>): Promise<T> =>
      eventually('sandboxd again', () => work().catch(() => undefined), 60_000);

    it(`${UNRECORDED}: nothing is written, and a repeated request applies`, async () => {
      const tree = await prepare();
      await crash(UNRECORDED, tree.apply);
      const { changes } = await again(tree.list);
      assert.ok(isAsBefore(tree.repo));
      assert.equal(changes.length, 404);
      await again(tree.apply);
      assert.ok(isApplied(tree.repo));
    });

    for (const failpoint of APPLY)
      it(`${failpoint}: finished at the next start`, async () => {
        const tree = await prepare();
        await crash(failpoint, tree.apply);
        await eventually('the apply', async () => isApplied(tree.repo) || undefined, 60_000);
        const { applied } = await again(tree.apply);
        assert.equal(applied.length, 404, 'a repeated request is answered from the record');
        const { changes, layer } = await again(tree.list);
        assert.deepEqual([changes, layer?.applied.length], [[], 1]);
        assertNoTemporary(tree.repo);
        await again(tree.undo);
        assert.ok(isAsBefore(tree.repo));
      });

    it('a part with a merge: the layer that goes on has the merged text, too', async () => {
      for (const failpoint of ['sandboxd.after-apply-recorded', 'sandboxd.after-apply-commits']) {
        const tree = await prepare();
        const params = { id: world.treeId(tree.name) };
        const body = { apply_id: `part-${tree.name}`, allow: [], paths: ['m'] };
        const apply = () => world.agentd.applyLayer({ params, body });
        await crash(failpoint, apply);
        const { merged } = await again(apply);
        assert.deepEqual(merged, ['m']);
        assert.equal(readFileSync(join(tree.repo, 'm'), 'utf8'), MERGED);
        const { changes } = await again(tree.list);
        assert.ok(changes.length === 403 && changes.every(({ path }) => path !== 'm'));
        const box = await again(() => world.open(tree.name, tree.repo));
        assert.equal(await box.run('cat m'), MERGED);
        await box.close();
      }
    });

    it('no box opens on a directory that is half written', async () => {
      const tree = await prepare();
      await crash('sandboxd.after-apply-recorded', tree.apply);
      // Finishing it fails for a while.
      const own = join(world.runtime.stateDir, 'workspaces', world.treeId(tree.name), 'undo');
      renameSync(own, `${own}.away`);
      writeFileSync(own, '');
      const open = () => world.open(tree.name, tree.repo);
      const refused = await eventually(
        'a refusal',
        () =>
          open().then(
            () => assert.fail('a box opened before the apply was finished'),
            (error: Fault) => (error.code === 'overloaded' ? error : undefined),
          ),
        60_000,
      );
      assert.match(refused.message, /begun and is not finished/);
      rmSync(own, { force: true });
      renameSync(`${own}.away`, own);
      const box = await again(open);
      assert.ok(isApplied(tree.repo));
      assert.equal(await box.run('cat a; ls e | wc -l'), 'new\n400\n');
      await box.close();
    });

    it('in the middle of writing: finished at the next start', async () => {
      for (const waitMs of [5, 20, 60]) {
        const tree = await prepare();
        const applying = tree.apply().catch(() => undefined);
        await eventually(
          'the first file',
          async () => existsSync(join(tree.repo, 'e')) || undefined,
        );
        await new Promise((resolve) => setTimeout(resolve, waitMs));
        world.killSandboxd();
        await applying;
        await again(tree.apply);
        assert.ok(isApplied(tree.repo));
        assertNoTemporary(tree.repo);
        await again(tree.undo);
        assert.ok(isAsBefore(tree.repo));
      }
    });

    it('an edit in the meantime is kept, and nothing else stays applied', async () => {
      const tree = await prepare();
      writeFileSync(crashFile, 'sandboxd.after-apply-recorded');
      const file = join(tree.repo, 'a');
      await tree.apply().catch(() => writeFileSync(file, 'by a person\n'));
      const failed = await again(async () => {
        const { layer } = await tree.list();
        return layer?.applied.length === 0 && !existsSync(join(tree.repo, 'e')) ? true : undefined;
      });
      assert.equal(failed, true);
      assert.equal(readFileSync(file, 'utf8'), 'by a person\n');
      assert.ok(existsSync(join(tree.repo, 'd/b')));
      await assert.rejects(tree.apply(), { code: 'conflict' });
    });

    for (const failpoint of UNDO)
      it(`${failpoint}: finished at the next start`, async () => {
        const tree = await prepare();
        await again(tree.apply);
        await crash(failpoint, tree.undo);
        await eventually('the undo', async () => isAsBefore(tree.repo) || undefined, 60_000);
        const { is_in_layer } = await again(tree.undo);
        assert.ok(isAsBefore(tree.repo));
        const { layer, changes } = await again(tree.list);
        assert.deepEqual(
          layer?.applied.map(({ undone }) => undone),
          [true],
        );
        assert.deepEqual([is_in_layer, changes.length], [true, 404], 'all can be applied again');
        assert.ok(changes.every(({ conflict }) => conflict === null));
        const body = { apply_id: `again-${made}`, allow: [] };
        await world.agentd.applyLayer({ params: { id: world.treeId(tree.name) }, body });
        assert.ok(isApplied(tree.repo));
        assertNoTemporary(tree.repo);
      });

    it('sandboxd.after-discard: the layer is empty, and its files go with the next', async () => {
      const tree = await prepare();
      await crash('sandboxd.after-discard', tree.discard);
      assert.deepEqual((await again(tree.list)).changes, []);
      assert.ok(isAsBefore(tree.repo));
      await again(tree.discard);
      const own = join(world.runtime.stateDir, 'workspaces', world.treeId(tree.name), 'layers');
      assert.equal(readdirSync(own).length, 1);
    });
  });
