// Space of deleted rows goes back to the disk, of new databases and of converted ones; the WAL is
// cut after a long reader.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { after, describe, it } from 'node:test';
import { silentLog } from '../log.ts';
import { reclaimExcess, startReclaiming } from './reclaim.ts';
import { openSqlite, type SqliteDatabase } from './sqlite.ts';

const dir = mkdtempSync(join(tmpdir(), 'agentd-reclaim-'));
after(() => rmSync(dir, { recursive: true }));
const { signal } = new AbortController();
const MIGRATION = 'CREATE TABLE t (k BIGINT PRIMARY KEY, v TEXT)';
const open = (name: string) => openSqlite({ file: join(dir, name), migrations: [MIGRATION] });
const sizeOf = (name: string) => statSync(join(dir, name), { throwIfNoEntry: false })?.size ?? 0;

async function fill(db: SqliteDatabase, rows: number, text = 'x'.repeat(4_000)): Promise<void> {
  await db.write(async (sql) => {
    for (let k = 0; k < rows; k++) await sql.run('INSERT INTO t (k, v) VALUES (?, ?)', k, text);
  });
}
const checkpoint = (db: SqliteDatabase) =>
  db.read((sql) => sql.all('PRAGMA wal_checkpoint(TRUNCATE)'));

describe('the space of deleted rows', () => {
  it('goes back in steps while writes continue, and some stays for new rows', async () => {
    const db = open('new.sqlite');
    await fill(db, 6_000);
    await checkpoint(db);
    const before = sizeOf('new.sqlite');
    assert.equal(await reclaimExcess(db, signal), 0, 'nothing is free');
    await db.write((sql) => sql.run('DELETE FROM t WHERE k >= 100'));
    const [pages] = await Promise.all([
      reclaimExcess(db, signal),
      db.write((sql) => sql.run("INSERT INTO t (k, v) VALUES (100000, 'new')")),
    ]);
    assert.ok(pages > 4_000);
    const { all, free } = await db.countPages();
    assert.ok(free > 500 && free < 1_200 && all < 1_500);
    await checkpoint(db);
    assert.ok(sizeOf('new.sqlite') < before / 3);
    const rows = await db.read((sql) => sql.one<{ n: number }>('SELECT COUNT(*) AS n FROM t'));
    assert.equal(rows!.n, 101);
    const check = await db.read((sql) => sql.one('PRAGMA integrity_check'));
    assert.equal(check!.integrity_check, 'ok');
    await db.close();
  });

  it('goes back also from a database of an earlier version, which is converted once', async () => {
    const old = new DatabaseSync(join(dir, 'old.sqlite'));
    old.exec(`PRAGMA journal_mode=WAL; ${MIGRATION}; PRAGMA user_version = 1;
      INSERT INTO t VALUES (1, 'kept');`);
    old.close();
    const db = open('old.sqlite');
    assert.equal((await db.countPages()).areReclaimable, true);
    const row = await db.read((sql) => sql.one<{ v: string }>('SELECT v FROM t'));
    assert.equal(row!.v, 'kept');
    assert.equal((await db.read((sql) => sql.one('PRAGMA journal_mode')))!.journal_mode, 'wal');
    await db.close();
  });

  it('a stopped loop waits for nothing', async () => {
    const db = open('stop.sqlite');
    await startReclaiming(db, silentLog)();
    await db.close();
  });
});

describe('the write-ahead log', () => {
  it('is cut after a reader that kept it long', async () => {
    const db = open('wal.sqlite');
    await fill(db, 1);
    const reader = new DatabaseSync(join(dir, 'wal.sqlite'), { readOnly: true });
    reader.exec('BEGIN');
    reader.prepare('SELECT * FROM t').all();
    // Unchanged pages are not written again.
    const update = (n: number) =>
      db.write((sql) => sql.run('UPDATE t SET v = ?', String(n % 10).repeat(1 << 20)));
    for (let n = 0; n < 80; n++) await update(n);
    assert.ok(sizeOf('wal.sqlite-wal') > 70 << 20);
    reader.close();
    for (let n = 0; n < 10; n++) await update(n);
    assert.ok(sizeOf('wal.sqlite-wal') <= 64 << 20);
    await db.close();
  });
});
