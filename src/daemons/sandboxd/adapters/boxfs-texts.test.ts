// Tests reading many changed files at once with boxfs under the sanitizers, and that the paths of
// changes are lossless.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, before, beforeEach, describe, it } from 'node:test';
import fc from 'fast-check';
import { buildBoxfs } from '../../../../test/support/boxfs.ts';
import { Fault } from '../../../wire/errors.ts';
import {
  listDifferences,
  makeTrees,
  type OpenTrees,
  openTrees,
  type Trees,
} from '../testing/boxfs-trees.ts';
import { decodePath, encodePath } from './boxfs-paths.ts';
import { TEXT_BYTES_MAX } from './boxfs-texts.ts';

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

const readMany = (paths: string[], bytesMax = 1000) =>
  open.client.readMany({ before: trees.to, after: trees.from }, { paths, bytesMax });
const text = (content: string | Buffer, isCut = false) => ({
  type: 'file' as const,
  bytes: Buffer.from(content),
  isCut,
});

describe('reading many files', () => {
  it('returns both sides, byte for byte, cut where asked', async () => {
    const bytes = Buffer.from([0, 255, 1, 254, 0xc3]);
    writeFileSync(join(trees.to, 'a'), 'old');
    writeFileSync(join(trees.from, 'a'), bytes);
    writeFileSync(join(trees.from, 'new'), 'x'.repeat(1001));
    writeFileSync(join(trees.to, 'empty'), '');
    assert.deepEqual(await readMany(['a', 'new', 'empty', 'none']), [
      { path: 'a', before: text('old'), after: text(bytes) },
      { path: 'new', before: null, after: text('x'.repeat(1000), true) },
      { path: 'empty', before: text(''), after: null },
      { path: 'none', before: null, after: null },
    ]);
  });

  it('follows no link, and opens no pipe', async () => {
    mkdirSync(join(trees.top, 'outside'));
    writeFileSync(join(trees.top, 'outside/secret'), 'secret');
    symlinkSync(join(trees.top, 'outside/secret'), join(trees.from, 'link'));
    symlinkSync('../outside', join(trees.from, 'dir'));
    execFileSync('mkfifo', [join(trees.from, 'pipe')]);
    mkdirSync(join(trees.from, 'folder'));
    const target = Buffer.from(join(trees.top, 'outside/secret'));
    const found = await readMany(['link', 'dir/secret', 'pipe', 'folder', '../outside/secret']);
    assert.deepEqual(found[0]!.after, { type: 'link', bytes: target, isCut: false });
    assert.deepEqual(
      found.slice(1).map(({ after }) => after),
      [null, null, null, null],
    );
  });

  it('takes one frame for 200 small files, and as many as needed for large ones', async () => {
    const paths = Array.from({ length: 450 }, (_, at) => `f${at}`);
    for (const path of paths) writeFileSync(join(trees.from, path), path);
    const found = await readMany(paths);
    assert.deepEqual(
      found.map(({ after }) => after?.bytes.toString()),
      paths,
    );
    const large = paths.slice(0, 7);
    for (const path of large) writeFileSync(join(trees.from, path), path.repeat(1_000_000));
    const cut = await readMany(large, TEXT_BYTES_MAX);
    assert.deepEqual(
      cut.map(({ after }) => [after?.isCut, after?.bytes.length]),
      large.map((path) => [path.length * 1_000_000 > TEXT_BYTES_MAX, 2_000_000]),
    );
  });

  it('refuses more at once than a frame holds', async () => {
    await assert.rejects(readMany(['a'], TEXT_BYTES_MAX + 1), Fault);
  });
});

describe('a path', () => {
  it('is lossless for any bytes, and JSON keeps it', () => {
    const bytes = fc.oneof(
      fc.uint8Array({ maxLength: 30 }),
      fc.string({ unit: 'binary' }).map((value) => Buffer.from(value)),
    );
    fc.assert(
      fc.property(bytes, (value) => {
        const path = decodePath(Buffer.from(value));
        assert.deepEqual(encodePath(JSON.parse(JSON.stringify(path))), Buffer.from(value));
      }),
      { numRuns: 2000 },
    );
  });

  it('has no second spelling', () => {
    assert.throws(() => encodePath('\udcc3\udca9'), Fault);
    assert.throws(() => encodePath('\ud800'), Fault);
    assert.equal(decodePath(encodePath('é')), 'é');
  });

  it('in a list of changes names the same file again', async () => {
    const names = [[0xff], [0xc3, 0x28], [0xed, 0xa0, 0x80], [0xf0, 0x9f, 0x98, 0x80]];
    for (const name of names)
      writeFileSync(Buffer.concat([Buffer.from(`${trees.from}/n-`), Buffer.from(name)]), 'text');
    const changes = await listDifferences(open.client, trees);
    assert.equal(changes.length, names.length);
    assert.equal(changes.filter(({ path }) => path.isWellFormed()).length, 1);
    const found = await readMany(changes.map(({ path }) => path));
    assert.ok(found.every(({ after }) => after?.bytes.toString() === 'text'));
    const paged = await Array.fromAsync(
      open.client.listChanges({ merged: trees.from, upper: trees.from, lower: trees.to }, 1),
    );
    assert.deepEqual(paged, changes);
  });
});
