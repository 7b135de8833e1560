// A backup of layers over a person's directory: what agents deleted, replaced and renamed comes
// back with a restore, as root and as an ordinary user.
import assert from 'node:assert/strict';
import { chownSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { findBackup } from '../../src/clients/agentctl/backup/backup-dir.ts';
import { readEntries } from '../../src/clients/agentctl/backup/manifest.ts';
import { socketPathFor } from '../../src/platform/daemon.ts';
import { makeClient, socketLink } from '../../src/platform/link.ts';
import { sandboxdRoutes } from '../../src/wire/sandboxd.ts';
import { type BackupDocument, ctlJson } from '../support/backups.ts';
import { makeTrees } from '../support/layer-trees.ts';
import { LAYER_MODES, type LayerWorld, startLayerWorld } from '../support/layers.ts';
import type { TestRuntime } from '../support/runtime.ts';

const NOBODY = 65_534;
const FILES = {
  gone: 'gone\n',
  kept: 'kept\n',
  'dir/hidden': 'hidden\n',
  'dir/same': 'same\n',
  'away/x': 'x\n',
  'old/y': 'y\n',
  'old/z': 'z\n',
};
const SCRIPT =
  'rm gone; echo more >> kept; rm -r dir; mkdir dir; echo new > dir/same; rm -r away; ' +
  'mv old renamed; echo y2 > renamed/y';

for (const mode of LAYER_MODES)
  describe(`a backup of layers, as ${mode}`, { timeout: 300_000 }, () => {
    const uid = mode === 'user' && process.getuid?.() === 0 ? NOBODY : undefined;
    let world: LayerWorld;
    let runtime: TestRuntime;
    before(async () => {
      world = await startLayerWorld(mode);
      runtime = world.runtime;
    });
    after(() => runtime?.remove());

    it('has what agents deleted, replaced and renamed', async () => {
      const tree = await makeTrees(world)('backed-up', FILES, SCRIPT);
      const before_ = await tree.list();
      const kinds = before_.map(({ kind, path }) => `${kind} ${path}`);
      for (const expected of [
        'deleted away/x',
        'deleted dir/hidden',
        'deleted gone',
        'added renamed/z',
      ])
        assert.ok(kinds.includes(expected), `${expected} is not in ${kinds}`);
      const dir = join(world.base, 'backup');
      mkdirSync(dir, { mode: 0o700 });
      if (uid !== undefined) chownSync(dir, uid, uid);
      const { backup } = await ctlJson<BackupDocument>(runtime, ['backup', dir], { uid });
      const inLayers = ({ path }: { path: string }): boolean => path.includes('/upper/');
      assert.deepEqual(backup.skipped.filter(inLayers), [], 'nothing is left out');
      const entries = [...readEntries(findBackup(dir, undefined).file)];
      const whiteouts = entries.filter(({ type }) => type === 'whiteout');
      const marked = entries.filter((entry) => entry.type === 'dir' && entry.overlay !== undefined);
      assert.ok(
        whiteouts.length >= 3 && marked.length >= 1,
        `${whiteouts.length} ${marked.length}`,
      );

      await runtime.stop();
      for (const name of readdirSync(runtime.stateDir))
        rmSync(join(runtime.stateDir, name), { recursive: true });
      if (uid === undefined) rmSync(runtime.stateDir, { recursive: true });
      await ctlJson(runtime, ['restore', dir], { uid });
      runtime = await runtime.restart();
      const socketPath = socketPathFor(runtime.runtimeDir, 'sandboxd', 'peer-agentd');
      const agentd = makeClient(sandboxdRoutes, socketLink({ socketPath }));
      const { params } = tree;
      const { changes } = await agentd.layerChanges({ params, query: {} });
      // A runtime of a user is given all files again, the person's too, which gives them new times.
      const timeless = changes.map((change) => (uid ? { ...change, conflict: null } : change));
      assert.deepEqual(timeless, before_);
      const body = { apply_id: 'restored', allow: [], overwrite: true };
      await agentd.applyLayer({ params, body });
      const textOf = (path: string): string => readFileSync(join(tree.repo, path), 'utf8');
      assert.deepEqual(
        ['gone', 'dir/hidden', 'away', 'old'].map((path) => existsSync(join(tree.repo, path))),
        [false, false, false, false],
      );
      assert.deepEqual(['kept', 'dir/same', 'renamed/y', 'renamed/z'].map(textOf), [
        'kept\nmore\n',
        'new\n',
        'y2\n',
        'z\n',
      ]);
    });
  });
