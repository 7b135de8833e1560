// Tests under the sanitizers how boxfs finds what belongs to repositories, again and again: without
// reading directories that have not changed, and with all that has.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  mkdirSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { describe, it } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { files, inWork, reason, setUpEachTest, work } from '../testing/boxfs-files.ts';

const NAMES = ['HEAD', 'objects', 'refs', 'config', 'hooks/pre-commit'];
/** As the code has it: what changed so shortly before a scan is read again. */
const FRESH_MS = 2_050;

setUpEachTest();

const watch = async () => {
  const { dirs, reads, found } = await files.watch(work, NAMES);
  return { dirs, reads, paths: found.map(({ path }) => path), found };
};

describe('watching a tree', () => {
  it('finds repositories anywhere, and reads only what has changed since', async () => {
    for (let i = 0; i < 50; i++) mkdirSync(inWork(`d${i}/e/f`), { recursive: true });
    await delay(FRESH_MS);
    assert.deepEqual(await watch().then(({ dirs, reads, paths }) => [dirs, reads, paths]), [
      151,
      151,
      [],
    ]);
    const quiet = await watch();
    assert.deepEqual([quiet.dirs, quiet.reads], [151, 0]);
    const top = inWork('d7/e/f');
    mkdirSync(`${top}/hooks`);
    for (const name of ['HEAD', 'objects', 'refs', 'config', 'hooks/pre-commit'])
      writeFileSync(`${top}/${name}`, 'x');
    utimesSync(top, 1, 1);
    const one = await watch();
    assert.deepEqual(
      one.paths,
      NAMES.map((name) => `d7/e/f/${name}`),
    );
    assert.ok(one.reads >= 1 && one.reads <= 3, String(one.reads));
    const before = one.found.find(({ path }) => path.endsWith('config'))!;
    writeFileSync(`${top}/config`, 'y');
    utimesSync(`${top}/config`, 1, 1);
    const after = (await watch()).found.find(({ path }) => path.endsWith('config'))!;
    assert.notEqual(after.changedNs, before.changedNs, 'no process can set the ctime');
    renameSync(inWork('d7'), inWork('moved'));
    assert.deepEqual(
      (await watch()).paths,
      NAMES.map((name) => `moved/e/f/${name}`),
    );
    rmSync(inWork('moved'), { recursive: true });
    const gone = await watch();
    assert.deepEqual([gone.dirs, gone.paths], [148, []]);
  });

  it('follows no link, and lists .git files, and names of any bytes', async () => {
    mkdirSync(inWork('real/sub'), { recursive: true });
    writeFileSync(inWork('real/.git'), 'gitdir: x');
    writeFileSync(inWork('real/sub/HEAD'), '');
    symlinkSync('real', inWork('link'));
    const named = Buffer.concat([Buffer.from(`${work}/`), Buffer.from([0xff, 0xfe])]);
    mkdirSync(named);
    symlinkSync('/etc', Buffer.concat([named, Buffer.from('/.git')]));
    const { found } = await watch();
    assert.deepEqual(
      found.map(({ path, type, linkTarget }) => [path, type, linkTarget]).sort(),
      [
        ['real/.git', 'file', ''],
        ['real/sub/HEAD', 'file', ''],
        ['\udcff\udcfe/.git', 'link', '/etc'],
      ].sort(),
    );
    const { path, parentId } = found.find(({ type }) => type === 'link')!;
    await files.unlock(`${work}/${path}`, parentId);
    await files.performExactly({
      op: 'delete',
      path: `${work}/${path}`,
      expected_parent: parentId,
    });
    assert.equal((await watch()).paths.length, 2);
  });

  it('opens what was closed only where it is the file that was found', async () => {
    mkdirSync(inWork('sub'));
    writeFileSync(inWork('sub/.git'), 'x');
    const { parentId } = (await watch()).found[0]!;
    chmodSync(inWork('sub/.git'), 0o000);
    chmodSync(inWork('sub'), 0o500);
    await files.unlock(inWork('sub/.git'), parentId);
    assert.deepEqual(
      ['sub', 'sub/.git'].map((name) => statSync(inWork(name)).mode & 0o777),
      [0o700, 0o400],
    );
    const other = files.unlock(inWork('sub/.git'), '1:1');
    await assert.rejects(other, reason('conflict'));
  });

  it('strips empty setuid files that appear, and no others', async () => {
    writeFileSync(inWork('before'), '');
    chmodSync(inWork('before'), 0o4755);
    await watch();
    for (const [name, text] of [
      ['empty', ''],
      ['full', 'x'],
    ] as const) {
      writeFileSync(inWork(name), text);
      chmodSync(inWork(name), 0o6755);
    }
    const stripped = (await watch()).found.filter(({ isStripped }) => isStripped);
    assert.ok(stripped.some(({ path }) => path === 'empty'));
    assert.equal(statSync(inWork('empty')).mode & 0o7777, 0o755);
    assert.equal(statSync(inWork('full')).mode & 0o7777, 0o6755);
  });

  it('is bounded: a deep tree ends in a directory that is named as closed', async () => {
    const make =
      'for i in $(seq 40); do d=$(printf "%0200d" $i); mkdir "$d" && cd "$d" || exit 0; done';
    execFileSync('sh', ['-c', make], { cwd: work });
    const closed = (await watch()).found.filter(({ isClosed }) => isClosed);
    assert.equal(closed.length, 1);
    assert.ok(closed[0]!.path.length > 3_000);
  });
});
