// Tests the installing of changes by boxfs under the sanitizers: every kind of change there and
// back, conflicts, and directories that are exchanged for links while it runs.
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { afterEach, before, beforeEach, describe, it } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { buildBoxfs } from '../../../../test/support/boxfs.ts';
import { findObstacles, planInstall, reverseChanges, selectChanges } from '../layer-plan.ts';
import {
  applyJob,
  countOutcomes,
  giveToOrdinaryUser,
  listDifferences,
  makeTrees,
  type OpenTrees,
  openTrees,
  readTree,
  type Trees,
  undoJob,
} from '../testing/boxfs-trees.ts';
import type { LayerChange } from './boxfs-changes.ts';

let trees: Trees;
let open: OpenTrees;
before(() => void buildBoxfs('sanitized'));
beforeEach(async () => {
  trees = makeTrees();
  open = await openTrees(trees, 'sanitized');
});
afterEach(async () => {
  await open.stop();
  rmSync(trees.top, { recursive: true, force: true });
  assert.doesNotMatch(open.started.stderr(), /Sanitizer|runtime error/);
});

const put = (tree: string, path: string, content: string, mode = 0o644): void => {
  mkdirSync(join(tree, path, '..'), { recursive: true });
  writeFileSync(join(tree, path), content);
  chmodSync(join(tree, path), mode);
};
const inTo = (path: string): string => join(trees.to, path);
const differences = (): Promise<LayerChange[]> => listDifferences(open.client, trees);
const apply = (changes: readonly LayerChange[], more: object = {}) =>
  open.client.install({ ...applyJob(trees, changes), ...more });
const undo = (changes: readonly LayerChange[]) => open.client.install(undoJob(trees, changes));
const check = async (changes: readonly LayerChange[]) =>
  findObstacles(await open.client.checkInstall(applyJob(trees, changes)));

/** Every kind of change. */
function makeChanges(): void {
  const { from, to } = trees;
  for (const tree of [from, to]) put(tree, 'kept', 'kept');
  put(to, 'edited', 'old');
  put(from, 'edited', 'new, and longer');
  put(from, 'made/deep/file', 'x');
  put(from, 'made/empty', '');
  mkdirSync(join(from, 'made/nothing'));
  put(to, 'gone/one', '1', 0o600);
  put(to, 'gone/deep/two', '2', 0o755);
  symlinkSync('/etc/passwd', join(to, 'gone/link'));
  put(to, 'tool', '#!');
  put(from, 'tool', '#!', 0o755);
  put(to, 'both', 'a', 0o640);
  put(from, 'both', 'b', 0o750);
  put(to, 'file-to-dir', 'file');
  put(from, 'file-to-dir/a/b', 'inside');
  put(to, 'dir-to-file/a/b', 'inside');
  put(from, 'dir-to-file', 'file');
  put(to, 'dir-to-link/a', 'inside');
  symlinkSync('kept', join(from, 'dir-to-link'));
  symlinkSync('kept', join(to, 'link-to-dir'));
  put(from, 'link-to-dir/a', 'inside');
  symlinkSync('kept', join(to, 'link-to-file'));
  put(from, 'link-to-file', 'file');
  symlinkSync('old target', join(to, 'link'));
  symlinkSync('../new target', join(from, 'link'));
  for (const tree of [from, to]) mkdirSync(join(tree, 'mode'));
  chmodSync(join(from, 'mode'), 0o750);
  put(from, 'closed/a', 'a');
  chmodSync(join(from, 'closed'), 0o555);
  put(to, 'was-closed/a', 'a');
  chmodSync(join(to, 'was-closed'), 0o555);
  put(from, `long/${'n'.repeat(255)}`, 'long');
  put(from, 'line\nbreak', 'x');
  writeFileSync(Buffer.concat([Buffer.from(`${from}/not-`), Buffer.from([0xff, 0xc3, 0x28])]), 'b');
  writeFileSync(Buffer.concat([Buffer.from(`${to}/gone-`), Buffer.from([0xed, 0xa0, 0x80])]), 'b');
}

describe('an install', () => {
  it('makes every kind of change, can be repeated, and is undone exactly', async () => {
    makeChanges();
    const [old, wanted] = [readTree(trees.to), readTree(trees.from)];
    const changes = await differences();
    assert.deepEqual(planInstall(changes).impossible, []);
    assert.deepEqual(await check(changes), []);
    assert.deepEqual(readTree(trees.to), old);
    assert.deepEqual(Object.keys(countOutcomes(await apply(changes))), ['done']);
    assert.deepEqual(readTree(trees.to), wanted);
    assert.deepEqual(await differences(), []);
    assert.deepEqual(Object.keys(countOutcomes(await apply(changes, { isRepeat: true }))), [
      'already',
    ]);
    assert.deepEqual(Object.keys(countOutcomes(await undo(changes))), ['done']);
    assert.deepEqual(readTree(trees.to), old);
  });

  it('does the same for an ordinary user, in directories that nobody may write to', {
    skip: process.getuid?.() === 0 ? false : 'this is one: see above',
  }, async () => {
    makeChanges();
    const [old, wanted] = [readTree(trees.to), readTree(trees.from)];
    const user = giveToOrdinaryUser(trees, 'sanitized');
    // The control: this user cannot remove what is in such a directory.
    const asThem = { uid: user.uid, gid: user.uid, cwd: '/' };
    assert.notEqual(spawnSync('rm', [inTo('was-closed/a')], asThem).status, 0);
    const asUser = await openTrees(trees, 'sanitized', user);
    try {
      const changes = await listDifferences(asUser.client, trees);
      const job = applyJob(trees, changes);
      assert.deepEqual(findObstacles(await asUser.client.checkInstall(job)), []);
      assert.deepEqual(Object.keys(countOutcomes(await asUser.client.install(job))), ['done']);
      assert.deepEqual(readTree(trees.to), wanted);
      const again = await asUser.client.install({ ...job, isRepeat: true });
      assert.deepEqual(Object.keys(countOutcomes(again)), ['already']);
      await asUser.client.install(undoJob(trees, changes));
      assert.deepEqual(readTree(trees.to), old);
    } finally {
      await asUser.stop();
    }
  });

  it('of a part makes the directories that it needs, and removes only that part', async () => {
    makeChanges();
    const changes = selectChanges(await differences(), ['made/deep/file', 'gone', 'tool']);
    assert.deepEqual(await check(changes), []);
    await apply(changes);
    assert.ok(existsSync(inTo('made/deep/file')) && !existsSync(inTo('made/empty')));
    assert.ok(!existsSync(inTo('gone')) && existsSync(inTo('was-closed/a')));
    assert.equal(statSync(inTo('tool')).mode & 0o777, 0o755);
    assert.equal(readFileSync(inTo('edited'), 'utf8'), 'old');
  });

  it('gives no file the rights of another user, and breaks links to other names', async () => {
    put(trees.from, 'suid', 'x', 0o4755);
    put(trees.from, 'sgid', 'x', 0o2755);
    put(trees.to, 'other-name', 'old');
    linkSync(inTo('other-name'), inTo('linked'));
    put(trees.from, 'other-name', 'old');
    put(trees.from, 'linked', 'new');
    await apply(await differences());
    assert.equal(lstatSync(inTo('suid')).mode & 0o7777, 0o755);
    assert.equal(lstatSync(inTo('sgid')).mode & 0o7777, 0o755);
    assert.equal(readFileSync(inTo('other-name'), 'utf8'), 'old');
    assert.equal(readFileSync(inTo('linked'), 'utf8'), 'new');
  });

  it('keeps the setgid bit of a directory, also for what is new in it', async () => {
    for (const tree of [trees.from, trees.to]) mkdirSync(join(tree, 'd'));
    chmodSync(inTo('d'), 0o2755);
    chmodSync(join(trees.from, 'd'), 0o2775);
    await apply(await differences());
    assert.equal(lstatSync(inTo('d')).mode & 0o7777, 0o2775);
    mkdirSync(join(trees.from, 'd/new'), { mode: 0o755 });
    await apply(await differences());
    assert.equal(lstatSync(inTo('d/new')).mode & 0o7777, 0o2755);
  });

  it('does not make what is neither file, directory nor link', async () => {
    execFileSync('mkfifo', [join(trees.from, 'pipe')]);
    assert.deepEqual(planInstall(await differences()).impossible, [
      { path: 'pipe', reason: 'special' },
    ]);
  });
});

describe('a conflict', () => {
  const cases: Record<string, { between: () => void; path: string; reason: string }> = {
    'an edit': {
      between: () => writeFileSync(inTo('edited'), 'by a person'),
      path: 'edited',
      reason: 'changed',
    },
    'a changed mode': {
      between: () => chmodSync(inTo('edited'), 0o600),
      path: 'edited',
      reason: 'changed',
    },
    'a removal': { between: () => rmSync(inTo('edited')), path: 'edited', reason: 'removed' },
    'a link instead': {
      between: () => {
        rmSync(inTo('edited'));
        symlinkSync('kept', inTo('edited'));
      },
      path: 'edited',
      reason: 'changed',
    },
    'a file where one is new': {
      between: () => {
        mkdirSync(inTo('made'));
        writeFileSync(inTo('made/empty'), 'by a person');
      },
      path: 'made/empty',
      reason: 'appeared',
    },
    'a file in a directory that goes': {
      between: () => writeFileSync(inTo('gone/deep/more'), 'by a person'),
      path: 'gone/deep',
      reason: 'not_empty',
    },
    'a file in a directory that becomes a file': {
      between: () => writeFileSync(inTo('dir-to-file/more'), 'by a person'),
      path: 'dir-to-file',
      reason: 'not_empty',
    },
    'other new content than listed': {
      between: () => writeFileSync(join(trees.from, 'made/deep/file'), 'swapped'),
      path: 'made/deep/file',
      reason: 'source_changed',
    },
  };
  for (const [name, { between, path, reason }] of Object.entries(cases))
    it(`${name} is found before anything changes, and is never overwritten`, async () => {
      makeChanges();
      const changes = await differences();
      between();
      const tree = readTree(trees.to);
      assert.deepEqual(await check(changes), [{ path, reason }]);
      assert.deepEqual(readTree(trees.to), tree);
      const outcomes = await apply(changes);
      // The directories above a file that stays cannot be removed either.
      const bad = outcomes.find(({ outcome }) => outcome === 'conflict');
      assert.deepEqual(bad, { path, outcome: 'conflict', reason });
      if (reason !== 'source_changed') {
        const name = path === 'gone/deep' || path === 'dir-to-file' ? `${path}/more` : path;
        assert.equal(readTree(trees.to).get(name), tree.get(name));
      }
      const leftovers = readdirSync(trees.to).filter((entry) => entry.startsWith('.agentd'));
      assert.deepEqual(leftovers, []);
    });

  it('that comes in the last moment never costs the person an edit', async () => {
    put(trees.to, 'file', 'old');
    put(trees.from, 'file', 'new');
    const changes = await differences();
    const seen = new Set<string>();
    for (let i = 0; i < 150; i++) {
      put(trees.to, 'file', 'old');
      writeFileSync(inTo('edit'), `edit ${i}`);
      const applied = apply(changes);
      await sleep(Math.random() * 4);
      renameSync(inTo('edit'), inTo('file'));
      seen.add((await applied)[0]!.outcome);
      assert.equal(readFileSync(inTo('file'), 'utf8'), `edit ${i}`);
    }
    assert.ok(seen.has('done') || seen.has('conflict'));
  });
});

describe('a directory that is exchanged for a link', () => {
  let outside: string;
  beforeEach(() => {
    outside = join(trees.top, 'outside');
    mkdirSync(outside);
    for (const tree of [trees.from, trees.to]) put(tree, 'd/kept', 'x');
    for (let i = 0; i < 300; i++) put(trees.from, `d/f${i}`, `${i}`);
  });
  const exchange = (): void => {
    renameSync(inTo('d'), inTo('aside'));
    symlinkSync(outside, inTo('d'));
  };
  const restore = (): void => {
    rmSync(inTo('d'));
    renameSync(inTo('aside'), inTo('d'));
  };

  it('is a conflict, and nothing is written through it', async () => {
    const changes = await differences();
    exchange();
    // The control: a program that opens the path writes outside.
    writeFileSync(inTo('d/control'), 'x');
    assert.deepEqual(readdirSync(outside), ['control']);
    const obstacles = await check(changes);
    assert.equal(obstacles.length, 300);
    assert.equal(countOutcomes(await apply(changes)).done, undefined);
    assert.deepEqual(readdirSync(outside), ['control']);
  });

  it('again and again leaves nothing outside', async () => {
    const changes = await differences();
    let running = true;
    const race = (async () => {
      for (let i = 0; running; i++) {
        exchange();
        // The control: the same race leads a program that opens the path out.
        if (i === 0) writeFileSync(inTo('d/control'), 'x');
        await sleep(Math.random() * 3);
        restore();
        await sleep(Math.random() * 3);
      }
    })();
    let installed = 0;
    for (let i = 0; i < 10 || (installed === 0 && i < 500); i++) {
      for (const entry of readdirSync(trees.undo)) rmSync(join(trees.undo, entry));
      const counts = countOutcomes(await apply(changes, { isRepeat: true }));
      installed += counts.done ?? 0;
    }
    running = false;
    await race;
    assert.deepEqual(readdirSync(outside), ['control']);
    assert.ok(installed > 0, 'the race was lost every time');
    await apply(changes, { isRepeat: true });
    assert.deepEqual(readTree(trees.to), readTree(trees.from));
  });

  it('on the side of the agent gives no content of other files', async () => {
    put(outside, 'f1', 'a secret of the host');
    const changes = await differences();
    rmSync(join(trees.from, 'd'), { recursive: true });
    symlinkSync(outside, join(trees.from, 'd'));
    const counts = countOutcomes(await apply(changes));
    assert.equal(counts.done, undefined);
    assert.ok(!existsSync(inTo('d/f1')));
  });
});

describe('reversed changes', () => {
  it('are their own reverse', async () => {
    makeChanges();
    const changes = await differences();
    assert.deepEqual(reverseChanges(reverseChanges(changes)), changes);
  });
});
