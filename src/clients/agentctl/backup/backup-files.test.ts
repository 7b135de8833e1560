// The files of a backup directory: manifests whose every change is found, contents by hash, and the
// same as a tar file that any tar can read.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import {
  closeSync,
  createReadStream,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, it } from 'node:test';
import type { Fault } from '../../../wire/errors.ts';
import {
  findBackup,
  formatObjectPath,
  listBackups,
  lockBackupDir,
  openBackupTarget,
  prepareBackupDir,
} from './backup-dir.ts';
import { type BackupEntry, type BackupHeader, ManifestWriter, readEntries } from './manifest.ts';
import { openTarTarget, unpackTar } from './tar.ts';

const dir = mkdtempSync(join(tmpdir(), 'agentd-b-'));
after(() => rmSync(dir, { recursive: true, force: true }));
let made = 0;
const fresh = () => join(dir, `d${made++}`);
const ID = `backup_${'0'.repeat(26)}`;

const HEADER: BackupHeader = {
  type: 'backup',
  format: 1,
  id: ID,
  taken_at: '2026-01-01T00:00:00.000Z',
  version: 't',
  running: true,
  made_by: 0,
  uid: 1,
  gid: 1,
  checkpoint: { size: 1, root: 'r', note: 'n' },
};
const ENTRIES: BackupEntry[] = [
  { type: 'database', path: 'a.sqlite', sha256: 'a'.repeat(64), size_bytes: 5 },
  { type: 'dir', path_base64: '/w==', mode: 0o700, uid: 7, gid: 8 },
  { type: 'skipped', path: 'x', reason: 'y' },
];
const isCode = (code: string) => (error: Fault) => error.code === code;

function writeManifest(file: string, entries = ENTRIES) {
  const writer = new ManifestWriter(file, HEADER);
  for (const entry of entries) writer.add(entry);
  return writer.end();
}

describe('a manifest', () => {
  it('has its entries, what they add up to, and who owns them', () => {
    const file = fresh();
    const end = writeManifest(file);
    assert.deepEqual([...readEntries(file)], ENTRIES);
    assert.deepEqual([end.entries, end.size_bytes, end.owners], [3, 5, [7]]);
    assert.equal(statSync(file).mode & 0o777, 0o600);
  });

  it('is longer than any buffer', () => {
    const file = fresh();
    const many = Array.from(
      { length: 20_000 },
      (_, i): BackupEntry => ({ ...ENTRIES[2]!, path: `p${i}` }) as BackupEntry,
    );
    writeManifest(file, many);
    assert.deepEqual([...readEntries(file)], many);
  });

  it('shows every change, and that it was cut off', () => {
    const file = fresh();
    writeManifest(file);
    const text = readFileSync(file, 'utf8');
    const lines = text.split('\n');
    const changed = [
      text.replace('"uid":7', '"uid":0'),
      text.replace('"running":true', '"running":false'),
      text.replace('"entries":3', '"entries":2'),
      [lines[0], lines[2], lines[3], lines[4], ''].join('\n'),
      lines.slice(0, 3).join('\n'),
      text.replace('{"type":"dir"', 'type'),
      '',
    ];
    for (const other of changed) {
      writeFileSync(file, other);
      assert.throws(() => [...readEntries(file)], isCode('storage_broken'), other.slice(0, 80));
    }
    writeFileSync(file, text);
    assert.equal([...readEntries(file)].length, 3, 'unchanged, it is read');
  });
});

describe('a backup directory', () => {
  it('keeps each content once, and gets a manifest last', async () => {
    const at = fresh();
    prepareBackupDir(at);
    const lock = lockBackupDir(at);
    assert.throws(() => lockBackupDir(at), isCode('conflict'));
    const target = openBackupTarget(at, ID);
    const first = await target.put([Buffer.from('ab'), Buffer.from('c')]);
    const again = await target.put([Buffer.from('abc')]);
    assert.deepEqual([first.isNew, again.isNew, first.sha256], [true, false, again.sha256]);
    assert.equal(readFileSync(join(at, formatObjectPath(first.sha256)), 'utf8'), 'abc');
    assert.equal(target.has(first), true);
    assert.equal(target.has({ ...first, size_bytes: 4 }), false);
    const end = writeManifest(target.manifestFile);
    assert.deepEqual(
      listBackups(at).map(({ isFinished }) => isFinished),
      [false],
    );
    assert.throws(() => findBackup(at, undefined), isCode('not_found'));
    await target.commit(ID, end);
    assert.equal(findBackup(at, undefined).id, ID);
    assert.equal(findBackup(at, ID).isFinished, true);
    lock.release();
  });

  it('loses what an interrupted backup left, and nothing else', async () => {
    const at = fresh();
    prepareBackupDir(at);
    const done = openBackupTarget(at, ID);
    const { sha256 } = await done.put([Buffer.from('kept')]);
    await done.commit(ID, writeManifest(done.manifestFile));
    const other = ID.replace('0', '1');
    writeManifest(openBackupTarget(at, other).manifestFile);
    writeFileSync(join(at, 'tmp', 'object'), 'half');
    assert.deepEqual(
      listBackups(at).map(({ id, isFinished }) => [id, isFinished]),
      [
        [ID, true],
        [other, false],
      ],
    );
    openBackupTarget(at, ID.replace('0', '2'));
    assert.deepEqual(
      listBackups(at).map(({ id }) => id),
      [ID],
    );
    assert.deepEqual(readdirSync(join(at, 'tmp')), []);
    assert.equal(readFileSync(join(at, formatObjectPath(sha256)), 'utf8'), 'kept');
  });

  it('is not one with other things in it, nor one that others can write to', () => {
    const at = fresh();
    mkdirSync(at);
    writeFileSync(join(at, 'thesis.tex'), '');
    assert.throws(() => prepareBackupDir(at), isCode('bad_usage'));
    const open = fresh();
    mkdirSync(open);
    execFileSync('chmod', ['777', open]);
    assert.throws(() => prepareBackupDir(open), isCode('bad_config'));
    assert.throws(() => listBackups(fresh()), isCode('not_found'));
  });
});

describe('a backup as a tar file', () => {
  async function writeTar(): Promise<{ file: string; sha256: string }> {
    const file = fresh();
    const scratch = fresh();
    mkdirSync(scratch);
    const fd = openSync(file, 'w');
    const target = openTarTarget(fd, scratch);
    const { sha256 } = await target.put([Buffer.alloc(700, 'x')]);
    assert.equal((await target.put([Buffer.alloc(700, 'x')])).isNew, false);
    await target.put([]);
    await target.commit(ID, writeManifest(target.manifestFile));
    target.discard();
    closeSync(fd);
    return { file, sha256 };
  }
  const unpack = async (file: string, chunkBytes = 100) => {
    const to = fresh();
    await unpackTar(createReadStream(file, { highWaterMark: chunkBytes }), to);
    return to;
  };

  it('is a backup directory once unpacked, by us or by any tar', async () => {
    const { file, sha256 } = await writeTar();
    const other = fresh();
    mkdirSync(other);
    execFileSync('tar', ['-xf', file, '-C', other]);
    for (const at of [await unpack(file), other]) {
      assert.equal(findBackup(at, undefined).id, ID);
      assert.equal(readFileSync(join(at, formatObjectPath(sha256)), 'utf8'), 'x'.repeat(700));
    }
  });

  it('is refused when it is cut off, damaged, empty, or has other names in it', async () => {
    const { file } = await writeTar();
    const bytes = readFileSync(file);
    const damaged = Buffer.from(bytes);
    damaged[130] = 0x39;
    const outside = fresh();
    mkdirSync(join(outside, 'objects'), { recursive: true });
    writeFileSync(join(outside, 'objects', 'passwd'), '');
    execFileSync('tar', ['-cf', join(outside, 't.tar'), '-C', outside, 'objects/passwd']);
    const bad = {
      cut: bytes.subarray(0, bytes.length - 2_000),
      damaged,
      empty: Buffer.alloc(1_024),
      nothing: Buffer.alloc(0),
      names: readFileSync(join(outside, 't.tar')),
    };
    for (const [what, content] of Object.entries(bad)) {
      const at = fresh();
      writeFileSync(at, content);
      await assert.rejects(unpack(at), isCode('bad_usage'), what);
    }
    await unpack(file);
  });
});
