// A database with a journal: the items of a group are appended together, before their commit and
// only with it.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { fault } from '../../wire/errors.ts';
import { type CommitJournal, openSqlite, type SqliteDatabase } from './sqlite.ts';

const dir = mkdtempSync(join(tmpdir(), 'agentd-j-'));
after(() => rmSync(dir, { recursive: true, force: true }));
let made = 0;

/** The second constraint is checked at the commit. */
const MIGRATIONS = [
  'CREATE TABLE t (k TEXT PRIMARY KEY); CREATE TABLE u (k TEXT REFERENCES t (k) DEFERRABLE INITIALLY DEFERRED);',
];

function open(more: Partial<CommitJournal> = {}) {
  const appends: unknown[][] = [];
  const journal: CommitJournal = {
    append: (items) => void appends.push([...items]),
    takeBack: () => void appends.pop(),
    ...more,
  };
  const file = join(dir, `${made++}.sqlite`);
  return { db: openSqlite({ file, migrations: MIGRATIONS, journal }), appends };
}
const put = (db: SqliteDatabase, k: string, fails = false) =>
  db.write(async (sql) => {
    await sql.run('INSERT INTO t (k) VALUES (?)', k);
    sql.addToJournal!(k);
    if (fails) throw new Error('on purpose');
  });
const keys = (db: SqliteDatabase) =>
  db.read(async (sql) => (await sql.all<{ k: string }>('SELECT k FROM t')).map(({ k }) => k));

test('a group is appended at once, without what was rolled back', async () => {
  const { db, appends } = open();
  const results = await Promise.allSettled([put(db, 'a'), put(db, 'b', true), put(db, 'c')]);
  assert.deepEqual(
    results.map(({ status }) => status),
    ['fulfilled', 'rejected', 'fulfilled'],
  );
  assert.deepEqual(appends, [['a', 'c']]);
  await db.write((sql) => sql.run("DELETE FROM t WHERE k = 'a'"));
  assert.equal(appends.length, 1, 'a group without items appends nothing');
  await db.close();
});

test('if the append fails, nothing is committed, and the next group does not have it', async () => {
  let isFull = true;
  const { db } = open({
    append() {
      if (isFull) throw fault('storage_full', 'the disk is full');
    },
  });
  await assert.rejects(put(db, 'a'), { code: 'storage_full' });
  assert.deepEqual(await keys(db), []);
  isFull = false;
  await put(db, 'b');
  assert.deepEqual(await keys(db), ['b']);
  await db.close();
});

test('if the commit fails, the append is taken back', async () => {
  const { db, appends } = open();
  const failing = db.write(async (sql) => {
    await sql.run("INSERT INTO u (k) VALUES ('nowhere')");
    sql.addToJournal!('u');
  });
  await assert.rejects(failing);
  assert.deepEqual(appends, []);
  await put(db, 'a');
  assert.deepEqual(appends, [['a']]);
  await db.close();
});
