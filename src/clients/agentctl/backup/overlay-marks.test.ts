// Tests the marks of layers in a backup, with the C program that reads and writes them: it makes
// what an overlay makes, follows no link, and sets nothing else.
import assert from 'node:assert/strict';
import { closeSync, lstatSync, mkdirSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { directoryRecords, readMarks, whiteoutRecord, writeMarks } from './overlay-marks.ts';
import { openDir } from './state-tree.ts';

const IS_ROOT = process.getuid?.() === 0;
const UPPER = 'workspaces/t/layers/1/upper';
const OWNER = IS_ROOT ? { uid: 12_345, gid: 12_346 } : { uid: 0, gid: 0 };

describe('marks of a layer', () => {
  let state: string;
  let fd: number;
  beforeEach(() => {
    state = mkdtempSync(join(tmpdir(), 'overlay-marks-'));
    mkdirSync(join(state, UPPER, 'a/b'), { recursive: true });
    fd = openDir(state);
  });
  afterEach(() => {
    closeSync(fd);
    rmSync(state, { recursive: true });
  });
  const at = (path: string): Buffer => Buffer.from(`${UPPER}/${path}`);

  it('are read as they were written', () => {
    const space = IS_ROOT ? 'trusted' : 'user';
    const redirect = Buffer.from('/was/h\u00e9re').toString('base64');
    const odd = Buffer.concat([at('a/'), Buffer.from([0xff])]);
    mkdirSync(Buffer.concat([Buffer.from(`${state}/`), odd]));
    writeMarks(fd, [
      ...directoryRecords(at('a'), { space, opaque: true }),
      ...directoryRecords(at('a/b'), { space, opaque: true, redirect_base64: redirect }),
      ...directoryRecords(odd, { space: 'user', opaque: true }),
      whiteoutRecord(at('gone'), OWNER),
    ]);
    assert.deepEqual(
      readMarks(fd, UPPER),
      new Map([
        [`${UPPER}/a`, { space, opaque: true }],
        [`${UPPER}/a/b`, { space, opaque: true, redirect_base64: redirect }],
        [odd.toString('latin1'), { space: 'user', opaque: true }],
      ]),
    );
    const { uid, gid, rdev, mode } = lstatSync(join(state, UPPER, 'gone'));
    assert.deepEqual([rdev, mode & 0o170000], [0, 0o020000]);
    if (IS_ROOT) assert.deepEqual({ uid, gid }, OWNER);
  });

  it('go through no link', () => {
    const outside = mkdtempSync(join(tmpdir(), 'outside-'));
    symlinkSync(outside, join(state, UPPER, 'link'));
    const mark = { space: 'user', opaque: true } as const;
    try {
      for (const path of ['link', 'link/x', '../../../../../x'])
        assert.throws(() => writeMarks(fd, directoryRecords(at(path), mark)), {
          code: 'storage_broken',
        });
      assert.throws(() => writeMarks(fd, [whiteoutRecord(at('link/x'), OWNER)]), {
        code: 'storage_broken',
      });
      assert.throws(() => lstatSync(join(outside, 'x')), { code: 'ENOENT' });
      assert.throws(() => readMarks(fd, `${UPPER}/link`), { code: 'storage_broken' });
      // Control: beside the link it works.
      writeMarks(fd, [whiteoutRecord(at('x'), OWNER)]);
      assert.ok(lstatSync(join(state, UPPER, 'x')).isCharacterDevice());
    } finally {
      rmSync(outside, { recursive: true });
    }
  });

  it('of a forged manifest set no other attribute', () => {
    const forged = { space: 'security', opaque: true } as never;
    assert.throws(() => directoryRecords(at('a'), forged), { code: 'storage_broken' });
    const record = Buffer.from(`O\0security\0${UPPER}/a\0`);
    assert.throws(() => writeMarks(fd, [record]), { code: 'storage_broken' });
    assert.throws(() => writeMarks(fd, [Buffer.from('X\0user\0a\0')]), { code: 'storage_broken' });
    assert.throws(() => writeMarks(fd, [Buffer.from('O\0user')]), { code: 'storage_broken' });
  });
});
