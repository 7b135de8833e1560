// Tests applying the changes of a real overlay to its own lower directory, and undoing them: also
// where a renamed directory still shows lower files that other steps change.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { chmodSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Duplex } from 'node:stream';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { buildBoxfs } from '../../../../test/support/boxfs.ts';
import { systemClock } from '../../../platform/clock.ts';
import { findObstacles, planInstall, reverseChanges, selectChanges } from '../layer-plan.ts';
import { countOutcomes, readTree } from '../testing/boxfs-trees.ts';
import type { LayerChange } from './boxfs-changes.ts';
import { type BoxfsClient, boxfsArgs, openBoxfs } from './boxfs-client.ts';

let top: string;
const at = (...parts: string[]): string => join(top, ...parts);
const NAMES = ['merged', 'upper', 'lower', 'work', 'undo', 'staging', 'seen'];
beforeEach(() => {
  top = mkdtempSync(join(tmpdir(), 'boxfs-overlay-'));
  for (const name of NAMES) mkdirSync(at(name));
});
afterEach(() => rmSync(top, { recursive: true, force: true }));

/** `redirects`: as root. A renamed directory then stays in the lower one, under its old name. */
type Kind = 'redirects' | 'userxattr';
const FLAGS: Record<Kind, string> = { redirects: '-m', userxattr: '-Urm' };
const optionsOf = (kind: Kind, dir: string): string =>
  `${kind === 'redirects' ? 'redirect_dir=on' : 'userxattr'},lowerdir=${dir}/lower,upperdir=${dir}/upper,workdir=${dir}/work`;

function canMount(kind: Kind): boolean {
  const dir = mkdtempSync(join(tmpdir(), 'boxfs-probe-'));
  for (const name of NAMES) mkdirSync(join(dir, name));
  const mount = ['mount', '-t', 'overlay', 'o', '-o', optionsOf(kind, dir), `${dir}/merged`];
  const ran = spawnSync('unshare', [FLAGS[kind], ...mount]);
  rmSync(dir, { recursive: true, force: true });
  return ran.status === 0;
}

/** Mounts an overlay in a namespace of its own, changes it there, and serves it by boxfs. */
async function withOverlay<T>(
  kind: Kind,
  script: string,
  work: (client: BoxfsClient) => Promise<T>,
): Promise<T> {
  const roots = [
    ...['merged', 'upper', 'lower'].map((name) => ({ path: at(name), writable: false })),
    ...['target', 'undo', 'staging'].map((name) => ({ path: at(name), writable: true })),
  ];
  const steps = [
    `mount -t overlay overlay -o ${optionsOf(kind, top)} ${at('merged')}`,
    `ln -sfn lower ${at('target')}`,
    `cd ${at('merged')}; { ${script}; } >&2; cd /`,
    `cp -a ${at('merged')}/. ${at('seen')}`,
    'exec "$0" "$@"',
  ];
  const shell = ['sh', '-ec', steps.join('\n'), buildBoxfs(), ...boxfsArgs(roots)];
  const child = spawn('unshare', [FLAGS[kind], ...shell], { stdio: ['pipe', 'pipe', 'inherit'] });
  const stream = Duplex.from({ readable: child.stdout, writable: child.stdin });
  const client = await openBoxfs({ stream, roots, clock: systemClock() });
  try {
    return await work(client);
  } finally {
    client.close();
    chmodSync(at('work/work'), 0o700);
  }
}

const list = (client: BoxfsClient): Promise<LayerChange[]> =>
  Array.fromAsync(
    client.listChanges({ merged: at('merged'), upper: at('upper'), lower: at('lower') }),
  );
const jobOf = (changes: readonly LayerChange[], staging: string | null) => ({
  from: at('merged'),
  to: at('target'),
  undo: at('undo'),
  staging,
  applyId: 'apply_1',
  steps: planInstall(changes).steps,
});

function fillLower(): void {
  for (const dir of ['src', 'lib/deep', 'gone', 'turned'])
    mkdirSync(at('lower', dir), { recursive: true });
  for (const file of [
    'src/main',
    'src/kept',
    'lib/a',
    'lib/deep/b',
    'gone/one',
    'turned/x',
    'file',
  ])
    writeFileSync(at('lower', file), `old ${file}\n`);
  symlinkSync('src/main', at('lower/link'));
}

const EDITS = [
  'echo new > src/main; chmod 755 src/kept; rm -r gone turned; echo file > turned',
  'rm file; mkdir file; echo inside > file/in; ln -sf lib link; mkdir -p made/deep; echo x > made/deep/x',
].join('; ');
/** Both directories show the same lower files, and one of them is changed. */
const SWAP = 'mv lib lib.old; mkdir lib; cp lib.old/a lib/a; echo new > lib/a; rm -f lib.old/none';

for (const kind of ['userxattr', 'redirects'] as const)
  describe(`an overlay with ${kind}`, {
    skip: canMount(kind) ? false : 'no such overlay here',
  }, () => {
    for (const [name, script] of Object.entries({ edits: EDITS, 'a swap of directories': SWAP }))
      it(`${name} are applied to its lower directory, and undone`, async () => {
        fillLower();
        const old = readTree(at('lower'));
        await withOverlay(kind, script, async (client) => {
          const changes = await list(client);
          const job = jobOf(changes, at('staging'));
          assert.deepEqual(findObstacles(await client.checkInstall(job)), []);
          assert.deepEqual(readTree(at('lower')), old);
          assert.deepEqual(Object.keys(countOutcomes(await client.install(job))), ['done']);
          assert.deepEqual(readTree(at('lower')), readTree(at('seen')));
          const undo = { ...jobOf(reverseChanges(changes), null), from: at('undo'), undo: null };
          await client.install(undo);
          assert.deepEqual(readTree(at('lower')), old);
        });
      });
  });

describe('a renamed directory', {
  skip: canMount('redirects') ? false : 'no such overlay here',
}, () => {
  it('is marked to be staged, because its content goes with what is applied', async () => {
    fillLower();
    await withOverlay('redirects', SWAP, async (client) => {
      const changes = await list(client);
      const shared = changes.filter(({ isShared }) => isShared).map(({ path }) => path);
      assert.deepEqual(shared, ['lib.old/a', 'lib.old/deep/b']);
      await client.install(jobOf(selectChanges(changes, ['lib']), at('staging')));
    });
    // The control: once the rest is applied, there is nothing left to copy.
    await withOverlay('redirects', ':', async (client) => {
      const roots = { before: at('lower'), after: at('merged') };
      const query = { paths: ['lib.old/a', 'lib.old/deep/b'], bytesMax: 100 };
      const [a, b] = await client.readMany(roots, query);
      assert.notEqual(a!.after?.bytes.toString(), 'old lib/a\n');
      assert.equal(b!.after, null);
    });
  });
});
