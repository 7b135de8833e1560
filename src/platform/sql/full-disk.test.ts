// SQLite on a full disk: a write or a start is refused with storage_full, and works once there is
// space. Needs root to mount a small tmpfs.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, it } from 'node:test';
import type { Database } from './database.ts';
import { openSqlite } from './sqlite.ts';

const dir = mkdtempSync(join(tmpdir(), 'agentd-q-'));
after(() => rmSync(dir, { recursive: true, force: true }));
const MIGRATIONS = ['CREATE TABLE t (k TEXT PRIMARY KEY, v BIGINT NOT NULL);'];
const open = (file: string) => openSqlite({ file, migrations: MIGRATIONS });
const put = (db: Database, k: string, v: number) =>
  db.write((sql) => sql.run('INSERT INTO t (k, v) VALUES (?, ?)', k, v));
const keys = async (db: Database) =>
  (await db.read((sql) => sql.all<{ k: string }>('SELECT k FROM t ORDER BY k'))).map((r) => r.k);

const canMount = process.getuid?.() === 0 && mountWorks();

function mountWorks(): boolean {
  const probe = join(dir, 'probe');
  mkdirSync(probe);
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=64k', 'tmpfs', probe], { stdio: 'ignore' });
    execFileSync('umount', [probe]);
    return true;
  } catch {
    return false;
  }
}

describe('sqlite: a full disk', {
  skip: canMount ? false : 'needs root to mount a small tmpfs',
}, () => {
  it('refuses with storage_full, keeps acknowledged writes, and recovers when there is space', async () => {
    const small = join(dir, 'small');
    mkdirSync(small);
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=1m', 'tmpfs', small]);
    try {
      const file = join(small, 'x.sqlite');
      const db = open(file);
      const acknowledged: string[] = [];
      let refused: unknown;
      for (let i = 0; refused === undefined && i < 1_000; i++) {
        const k = `k${String(i).padStart(4, '0')}${'x'.repeat(10_000)}`;
        await put(db, k, i).then(
          () => acknowledged.push(k),
          (error: unknown) => {
            refused = error;
          },
        );
      }
      assert.equal((refused as { code: string }).code, 'storage_full');
      assert.ok(acknowledged.length > 5);
      await assert.rejects(put(db, 'y'.repeat(50_000), 1), { code: 'storage_full' });
      assert.deepEqual(await keys(db), acknowledged);
      execFileSync('mount', ['-o', 'remount,size=16m', small]);
      await put(db, 'z', 1);
      await db.close();
      const again = open(file);
      assert.deepEqual(await keys(again), [...acknowledged, 'z']);
      await again.close();
    } finally {
      execFileSync('umount', ['-l', small]);
    }
  });

  it('fails to open with storage_full without space for its shared memory', async () => {
    const small = join(dir, 'smaller');
    mkdirSync(small);
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=1m', 'tmpfs', small]);
    try {
      const file = join(small, 'x.sqlite');
      await open(file).close();
      assert.throws(() => writeFileSync(join(small, 'filler'), Buffer.alloc(1 << 20)), {
        code: 'ENOSPC',
      });
      assert.throws(() => open(file), { code: 'storage_full' });
      rmSync(join(small, 'filler'));
      await open(file).close();
      assert.deepEqual(readdirSync(small), ['x.sqlite']);
    } finally {
      execFileSync('umount', ['-l', small]);
    }
  });
});
