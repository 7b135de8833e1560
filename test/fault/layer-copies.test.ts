// SIGKILL of sandboxd while it copies a directory for a task: the next box has the whole copy, and
// what was written into a copy is there after a restart.
import assert from 'node:assert/strict';
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { killRequested } from '../support/kills.ts';
import { LAYER_MODES, type LayerWorld, startLayerWorld } from '../support/layers.ts';
import type { OnOverlay } from '../support/overlay.ts';
import { eventually } from '../support/runtime.ts';

const FAILPOINTS = ['sandboxd.after-copied-page', 'sandboxd.before-copy-recorded'];
const skip = process.getuid?.() === 0 ? false : 'needs root, to mount';

const GROUNDS = [
  ...LAYER_MODES.map((mode) => ({ mode, on: { stateOn: 'overlay' } as OnOverlay })),
  { mode: 'root' as const, on: { peopleOn: 'overlay' } as OnOverlay },
];

for (const { mode, on } of GROUNDS)
  describe(`killed while it copies, as ${mode}, ${Object.keys(on).join()}`, {
    skip,
    timeout: 200_000,
  }, () => {
    let world: LayerWorld;
    before(async () => {
      if (skip !== false) return;
      world = await startLayerWorld(mode, { mode: 'split', faults: true, ...on });
      setInterval(() => killRequested(world.runtime), 5).unref();
    });
    after(() => world?.stop());

    const again = <T>(work: () => Promise<T>): Promise<T> =>
      eventually('sandboxd again', () => work().catch(() => undefined), 60_000);

    for (const failpoint of FAILPOINTS)
      it(`${failpoint}: the next box has a whole copy`, async () => {
        const name = failpoint.split('.')[1]!;
        const files = Object.fromEntries(
          Array.from({ length: 50 }, (_, n) => [`d/${n}`, `${n}\n`]),
        );
        const { repo } = world.directory(name, files);
        const crashFile = join(world.runtime.stateDir, 'crash-at');
        writeFileSync(crashFile, failpoint);
        await assert.rejects(world.open(name, repo));
        assert.equal(existsSync(crashFile), false, `${failpoint} was reached`);
        const run = async (script: string): Promise<string> => {
          const box = await again(() => world.open(name, repo));
          return box.run(script).finally(() => box.close());
        };
        assert.equal(await run('cat d/* | wc -l; echo more >> d/1; rm d/2'), '50\n');
        const { changes } = await again(() =>
          world.agentd.layerChanges({ params: { id: world.treeId(name) }, query: {} }),
        );
        const found = changes.map(({ path, kind, conflict }) => [path, kind, conflict]);
        assert.deepEqual(found, [
          ['d/1', 'modified', null],
          ['d/2', 'deleted', null],
        ]);
      });
  });
