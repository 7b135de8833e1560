// Tests that an install by boxfs which is killed at any moment is finished by repeating it, or
// undone by running it backwards; and its speed with many files.
import assert from 'node:assert/strict';
import {
  chmodSync,
  cpSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { afterEach, before, beforeEach, describe, it } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { buildBoxfs } from '../../../../test/support/boxfs.ts';
import {
  applyJob,
  countOutcomes,
  listDifferences,
  makeTrees,
  openTrees,
  readTree,
  type Trees,
  undoJob,
} from '../testing/boxfs-trees.ts';
import type { LayerChange } from './boxfs-changes.ts';
import type { InstallJob } from './boxfs-layers.ts';

let trees: Trees;
before(() => void buildBoxfs());
beforeEach(() => {
  trees = makeTrees();
});
afterEach(() => rmSync(trees.top, { recursive: true, force: true }));

/** Some of every kind, in several batches. */
function makeManyChanges(count: number): void {
  const { from, to } = trees;
  for (const tree of [from, to])
    for (const dir of ['edited', 'd1/d2', 'turned'])
      mkdirSync(join(tree, dir), { recursive: true });
  for (let i = 0; i < count; i++) {
    writeFileSync(join(to, `edited/${i}`), `old ${i}`);
    writeFileSync(join(from, `edited/${i}`), `new ${i}`, { mode: i % 2 === 0 ? 0o755 : 0o644 });
    mkdirSync(join(to, `gone/${i % 20}`), { recursive: true });
    writeFileSync(join(to, `gone/${i % 20}/${i}`), `gone ${i}`);
    mkdirSync(join(from, `made/${i % 20}`), { recursive: true });
    writeFileSync(join(from, `made/${i % 20}/${i}`), `made ${i}`);
  }
  for (let i = 0; i < 40; i++) {
    const [dir, file] = i % 2 === 0 ? [from, to] : [to, from];
    mkdirSync(join(dir, `turned/${i}`));
    writeFileSync(join(dir, `turned/${i}/inside`), `inside ${i}`);
    writeFileSync(join(file, `turned/${i}`), `file ${i}`);
  }
  symlinkSync('a', join(to, 'link'));
  symlinkSync('b', join(from, 'link'));
  mkdirSync(join(from, 'closed'));
  writeFileSync(join(from, 'closed/a'), 'a');
  chmodSync(join(from, 'closed'), 0o500);
}

const snapshot = () => ({ old: readTree(trees.to), wanted: readTree(trees.from) });

async function listAll(): Promise<LayerChange[]> {
  const open = await openTrees(trees, 'plain');
  try {
    return await listDifferences(open.client, trees);
  } finally {
    await open.stop();
  }
}

/** Runs it, and kills boxfs after a while; returns how long it ran if it came to its end. */
async function run(job: InstallJob, killAfterMs?: number): Promise<number | undefined> {
  const open = await openTrees(trees, 'plain');
  const startedAt = performance.now();
  const ran = open.client.install(job).then(
    (outcomes) => {
      const counts = countOutcomes(outcomes);
      assert.equal((counts.done ?? 0) + (counts.already ?? 0), job.steps.length);
      return performance.now() - startedAt;
    },
    () => undefined,
  );
  if (killAfterMs !== undefined) {
    await sleep(killAfterMs);
    // The worker that installs is a child: a power failure would end both.
    await open.started.killAll();
  }
  const took = await ran;
  await open.stop();
  return took;
}

const leftovers = (dir: string): string[] =>
  readdirSync(dir, { recursive: true, encoding: 'utf8' }).filter((path) =>
    path.includes('.agentd'),
  );

describe('an install that is killed', () => {
  it('is finished by repeating it, or undone exactly by running it backwards', async () => {
    makeManyChanges(300);
    const { old, wanted } = snapshot();
    const changes = await listAll();
    const tookMs = (await run(applyJob(trees, changes)))!;
    assert.deepEqual(readTree(trees.to), wanted);
    await run(undoJob(trees, changes));
    assert.deepEqual(readTree(trees.to), old);
    let interrupted = 0;
    for (let round = 0; round < 6; round++) {
      rmSync(trees.undo, { recursive: true });
      mkdirSync(trees.undo);
      const job = applyJob(trees, changes);
      if ((await run(job, tookMs * Math.random())) === undefined) interrupted++;
      // A repetition may be killed, too.
      await run({ ...job, isRepeat: true }, tookMs * Math.random());
      if (round % 2 === 0) {
        await run({ ...job, isRepeat: true });
        assert.deepEqual(readTree(trees.to), wanted, `round ${round}`);
        assert.deepEqual([...leftovers(trees.to), ...leftovers(trees.undo)], []);
        await run({ ...undoJob(trees, changes), isRepeat: true }, tookMs * Math.random());
      }
      await run({ ...undoJob(trees, changes), isRepeat: true });
      assert.deepEqual(readTree(trees.to), old, `round ${round}`);
      // The undo directory, which no person sees, may keep one where nothing repeated the install.
      assert.deepEqual(leftovers(trees.to), []);
    }
    assert.ok(interrupted > 0, 'no run was interrupted');
  });
});

describe('an install of many files', () => {
  it('of 10,000 in one directory is complete', async () => {
    for (let i = 0; i < 10_000; i++) writeFileSync(join(trees.from, `f${i}`), `${i}`);
    const changes = await listAll();
    assert.equal(changes.length, 10_000);
    await run({ ...applyJob(trees, changes), isRepeat: true });
    assert.deepEqual(readTree(trees.to), readTree(trees.from));
  });

  it('of 1,000 takes at most four times as long as copying them', async (t) => {
    for (let i = 0; i < 1000; i++) writeFileSync(join(trees.from, `f${i}`), 'x'.repeat(2000));
    const changes = await listAll();
    const ratios: number[] = [];
    for (let round = 0; round < 3; round++) {
      const copy = join(trees.top, `copy-${round}`);
      const startedAt = performance.now();
      cpSync(trees.from, copy, { recursive: true });
      const copyMs = performance.now() - startedAt;
      const tookMs = (await run(applyJob(trees, changes)))!;
      ratios.push(copyMs / tookMs);
      t.diagnostic(`copied in ${copyMs.toFixed(0)} ms, installed in ${tookMs.toFixed(0)} ms`);
      renameSync(trees.to, join(trees.top, `old-${round}`));
      mkdirSync(trees.to);
    }
    assert.ok(Math.max(...ratios) > 0.25, `${ratios}`);
  });
});
