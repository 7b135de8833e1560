// Test support: boxfs on a tree with changes (`from`), a person's directory (`to`), and places for
// undo and staging; and what a tree is, byte for byte.

import { execFileSync } from 'node:child_process';
import {
  copyFileSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  type BoxfsBuild,
  type BoxfsUser,
  buildBoxfs,
  type StartedBoxfs,
  startBoxfs,
} from '../../../../test/support/boxfs.ts';
import { systemClock } from '../../../platform/clock.ts';
import type { LayerChange } from '../adapters/boxfs-changes.ts';
import { type BoxfsClient, boxfsArgs, openBoxfs } from '../adapters/boxfs-client.ts';
import type { InstallOutcome } from '../adapters/boxfs-install.ts';
import type { InstallJob } from '../adapters/boxfs-layers.ts';
import { planInstall, reverseChanges } from '../layer-plan.ts';

export type Trees = { top: string; from: string; to: string; undo: string; staging: string };

export function makeTrees(): Trees {
  const top = mkdtempSync(join(tmpdir(), 'boxfs-install-'));
  const trees = {
    top,
    from: join(top, 'from'),
    to: join(top, 'to'),
    undo: join(top, 'undo'),
    staging: join(top, 'staging'),
  };
  for (const dir of [trees.from, trees.to, trees.undo, trees.staging]) mkdirSync(dir);
  return trees;
}

export type OpenTrees = { client: BoxfsClient; started: StartedBoxfs; stop(): Promise<void> };

const ORDINARY_UID = 65_534;

/** Gives the trees to an ordinary user; the result is for `openTrees`. */
export function giveToOrdinaryUser(trees: Trees, build: BoxfsBuild): BoxfsUser {
  const program = join(trees.top, 'boxfs');
  copyFileSync(buildBoxfs(build), program);
  execFileSync('chown', ['-hR', `${ORDINARY_UID}:${ORDINARY_UID}`, trees.top]);
  return { uid: ORDINARY_UID, program };
}

export async function openTrees(
  trees: Trees,
  build: BoxfsBuild,
  user?: BoxfsUser,
): Promise<OpenTrees> {
  const roots = [
    { path: trees.from, writable: false },
    ...[trees.to, trees.undo, trees.staging].map((path) => ({ path, writable: true })),
  ];
  const started = startBoxfs(boxfsArgs(roots), build, user);
  const client = await openBoxfs({ stream: started.stream, roots, clock: systemClock() });
  return {
    client,
    started,
    async stop() {
      client.close();
      await started.stop();
    },
  };
}

/** Every name of the tree with the changes counts as written by the agent. */
export const listDifferences = (client: BoxfsClient, { from, to }: Trees): Promise<LayerChange[]> =>
  Array.fromAsync(client.listChanges({ merged: from, upper: from, lower: to }));

const job = (trees: Trees, changes: readonly LayerChange[]): InstallJob => ({
  from: trees.from,
  to: trees.to,
  undo: trees.undo,
  staging: trees.staging,
  applyId: 'apply_1',
  steps: planInstall(changes).steps,
});

export const applyJob = job;
export const undoJob = (trees: Trees, changes: readonly LayerChange[]): InstallJob => ({
  ...job(trees, reverseChanges(changes)),
  from: trees.undo,
  undo: null,
  staging: null,
});

export const countOutcomes = (outcomes: readonly InstallOutcome[]): Record<string, number> => {
  const counts: Record<string, number> = {};
  for (const { outcome } of outcomes) counts[outcome] = (counts[outcome] ?? 0) + 1;
  return counts;
};

const TYPE = 0o170000;

/** Types, permissions and contents by path; names that are not UTF-8 are told apart. */
export function readTree(top: string): Map<string, string> {
  const found = new Map<string, string>();
  const visit = (dir: Buffer, name: string): void => {
    for (const entry of readdirSync(dir, { encoding: 'buffer' })) {
      const path = Buffer.concat([dir, Buffer.from('/'), entry]);
      const shown = `${name}${entry.toString('latin1')}`;
      const { mode } = lstatSync(path);
      const type = mode & TYPE;
      if (type === 0o120000) found.set(shown, `link ${readlinkSync(path)}`);
      else if (type === 0o100000)
        found.set(shown, `${(mode & 0o777).toString(8)} ${readFileSync(path, 'latin1')}`);
      else found.set(shown, `${mode.toString(8)}`);
      if (type === 0o040000) visit(path, `${shown}/`);
    }
  };
  visit(Buffer.from(top), '');
  return new Map([...found].sort(([a], [b]) => (a < b ? -1 : 1)));
}
