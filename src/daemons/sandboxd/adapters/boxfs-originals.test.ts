// Tests what boxfs finds below a layer, under the sanitizers, on plain directories that look like
// the parts of an overlay.
import assert from 'node:assert/strict';
import { lstatSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, before, beforeEach, describe, it } from 'node:test';
import { buildBoxfs, startBoxfs } from '../../../../test/support/boxfs.ts';
import { systemClock } from '../../../platform/clock.ts';
import { type BoxfsClient, boxfsArgs, openBoxfs } from './boxfs-client.ts';

describe('what a layer stands over', () => {
  let top: string;
  before(() => void buildBoxfs('sanitized'));
  beforeEach(() => {
    top = mkdtempSync(join(tmpdir(), 'boxfs-originals-'));
    for (const name of ['upper', 'lower']) mkdirSync(join(top, name));
  });
  afterEach(() => rmSync(top, { recursive: true, force: true }));

  const at = (path: string): string => join(top, path);
  const put = (...paths: string[]): void => {
    for (const path of paths) {
      mkdirSync(dirname(at(path)), { recursive: true });
      writeFileSync(at(path), path);
    }
  };
  const using = async <T>(work: (boxfs: BoxfsClient) => Promise<T>): Promise<T> => {
    const roots = ['upper', 'lower'].map((name) => ({ path: at(name), writable: false }));
    const started = startBoxfs(boxfsArgs(roots), 'sanitized');
    const client = await openBoxfs({ stream: started.stream, roots, clock: systemClock() });
    try {
      return await work(client);
    } finally {
      client.close();
      await started.stop();
      assert.doesNotMatch(started.stderr(), /Sanitizer|runtime error/);
    }
  };
  const covered = (max = 100) =>
    using((boxfs) => boxfs.listCovered({ upper: at('upper'), lower: at('lower') }, max));

  it('lists the files of the lower directory that have a file above them', async () => {
    put('upper/a', 'lower/a', 'upper/new', 'lower/kept', 'upper/d/e/b', 'lower/d/e/b');
    put('upper/only/above/x', 'upper/was-dir', 'lower/was-dir/y', 'upper/.git/index');
    put('lower/.git/index', 'lower/link-above', 'upper/link-below', 'upper/dir-above/z');
    put('lower/dir-above');
    symlinkSync('a', at('upper/link-above'));
    symlinkSync('a', at('lower/link-below'));
    const { files, isCut } = await covered();
    const found = files.toSorted((x, y) => x.path.localeCompare(y.path));
    assert.deepEqual(
      found.map(({ path }) => path),
      ['a', 'd/e/b'],
    );
    const { mode, size, ctimeNs } = lstatSync(at('lower/d/e/b'), { bigint: true });
    assert.deepEqual(found[1], {
      path: 'd/e/b',
      mode: Number(mode),
      sizeBytes: Number(size),
      changedNs: ctimeNs,
    });
    assert.equal(isCut, false);
  });

  it('follows no link to a directory, on either side', async () => {
    put('lower/real/x', 'upper/real/x', 'lower/there/x');
    symlinkSync('real', at('lower/here'));
    put('upper/here/x');
    symlinkSync('real', at('upper/there'));
    assert.deepEqual(
      (await covered()).files.map(({ path }) => path),
      ['real/x'],
    );
  });

  it('lists the inodes of all directories', async () => {
    put('lower/a/b/c', 'lower/.git/objects/x', 'lower/file');
    symlinkSync('a', at('lower/link'));
    const { inodes, isCut } = await using((boxfs) => boxfs.listDirectories(at('lower'), 100));
    assert.equal(isCut, false);
    assert.deepEqual(
      new Map([...inodes].sort()),
      new Map(
        ['.git', '.git/objects', 'a', 'a/b'].map((path) => [
          path,
          lstatSync(at(`lower/${path}`), { bigint: true }).ino,
        ]),
      ),
    );
  });

  it('says when there are more', async () => {
    for (let n = 0; n < 20; n++) put(`lower/d${n}/x`, `upper/d${n}/x`);
    const files = await covered(5);
    assert.deepEqual([files.files.length, files.isCut], [5, true]);
    const found = await using((boxfs) => boxfs.listDirectories(at('lower'), 5));
    assert.deepEqual([found.inodes.size, found.isCut], [5, true]);
  });
});
