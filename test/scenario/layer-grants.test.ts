// A layer over a directory that a person has granted and nobody else can enter: the daemons never
// see its files, the boxes of the tree do, and an apply writes them as the person.
import assert from 'node:assert/strict';
import {
  chmodSync,
  chownSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { agentctl } from '../../src/clients/agentctl/testing/run-agentctl.ts';
import { LAYER_GROUNDS, type LayerWorld, startLayerWorld } from '../support/layers.ts';

const NOBODY = 65_534;
const ALICE = 61_501;
const IS_ROOT = process.getuid?.() === 0;

for (const { mode, where, on } of LAYER_GROUNDS)
  describe(`a layer over a granted directory, as ${where}`, { timeout: 120_000 }, () => {
    const owner = mode === 'root' ? ALICE : IS_ROOT ? NOBODY : process.getuid!();
    let world: LayerWorld;
    let person: string;
    let repo: string;
    before(async () => {
      world = await startLayerWorld(mode, on, {});
      person = join(world.people, 'person');
      repo = join(person, 'my repo');
      mkdirSync(repo, { recursive: true });
      writeFileSync(join(repo, 'note'), 'of the person\n', { mode: 0o600 });
      if (IS_ROOT)
        for (const path of [join(repo, 'note'), repo, person]) chownSync(path, owner, owner);
      for (const path of [repo, person]) chmodSync(path, 0o700);
    });
    after(() => world?.stop());

    it('works once it is granted, and applies as the person', async () => {
      const { stateDir, env } = world.runtime;
      const check = () => world.agentd.checkWorkspace({ body: { path: repo, mode: 'layer' } });
      await assert.rejects(check(), { code: 'denied', message: /is not granted/ });
      await assert.rejects(world.open('t', repo), { code: 'denied' });
      const granted = await agentctl(['workspace', 'grant', repo], {
        state: stateDir,
        env,
        cwd: world.base,
      });
      assert.equal(granted.code, 0, granted.stderr);
      await check();
      const box = await world.open('t', repo);
      const script = 'cat note; echo more >> note; mkdir d; echo made > d/made';
      assert.equal(await box.run(script), 'of the person\n');
      await box.close();
      assert.equal(readFileSync(join(repo, 'note'), 'utf8'), 'of the person\n');
      const params = { id: world.treeId('t') };
      const { changes } = await world.agentd.layerChanges({ params, query: {} });
      assert.deepEqual(
        changes.map(({ kind, path, conflict }) => [kind, path, conflict]),
        [
          ['added', 'd', null],
          ['added', 'd/made', null],
          ['modified', 'note', null],
        ],
      );
      await world.agentd.applyLayer({ params, body: { apply_id: 'one', allow: [] } });
      assert.equal(readFileSync(join(repo, 'note'), 'utf8'), 'of the person\nmore\n');
      for (const name of ['.', ...readdirSync(repo, { recursive: true, encoding: 'utf8' })])
        assert.equal(lstatSync(join(repo, name)).uid, owner, name);
      assert.equal(lstatSync(join(repo, 'note')).mode & 0o777, 0o600);
      await world.agentd.undoApply({ params, body: {} });
      assert.deepEqual(readdirSync(repo), ['note']);
    });

    it('a program works on a copy where owners cannot be mapped, and not in place', async () => {
      const { stateDir, env } = world.runtime;
      const run = (...words: string[]) =>
        agentctl(['box', 'run', '--here', ...words, '--', 'sh', '-c', 'cat note; echo 2 > new'], {
          state: stateDir,
          env,
          cwd: repo,
        });
      const layered = await run('--layer');
      assert.deepEqual([layered.code, layered.stdout], [0, 'of the person\n'], layered.stderr);
      assert.deepEqual(readdirSync(repo), ['note']);
      const live = await run();
      if (on.peopleOn === undefined) {
        assert.equal(live.code, 0, live.stderr);
        assert.equal(lstatSync(join(repo, 'new')).uid, owner, 'control');
        rmSync(join(repo, 'new'));
      } else {
        assert.notEqual(live.code, 0);
        assert.match(live.stderr, /owner of its files cannot be mapped/);
        assert.match(live.stderr, /work on a layer there .*box run --layer/);
        assert.deepEqual(readdirSync(repo), ['note']);
      }
    });

    it('writes nothing into another directory that came to its path', async () => {
      const box = await world.open('t', repo);
      await box.run('echo 1 > note');
      await box.close();
      renameSync(repo, `${repo}.old`);
      mkdirSync(repo);
      writeFileSync(join(repo, 'note'), 'of the person\n');
      if (IS_ROOT) for (const path of [join(repo, 'note'), repo]) chownSync(path, owner, owner);
      const params = { id: world.treeId('t') };
      await assert.rejects(
        world.agentd.applyLayer({ params, body: { apply_id: 'two', allow: [] } }),
        { code: 'denied' },
      );
      assert.equal(readFileSync(join(repo, 'note'), 'utf8'), 'of the person\n');
    });
  });
