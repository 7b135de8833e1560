// SQLite as a Database: queued writes become durable together and are rolled back individually,
// reads see only committed data, and files of other versions are refused or migrated.
import assert from 'node:assert/strict';
import {
  chmodSync,
  chownSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { after, describe, it } from 'node:test';
import fc from 'fast-check';
import type { Fault } from '../../wire/errors.ts';
import { silentLog } from '../log.ts';
import type { Database } from './database.ts';
import { openSqlite } from './sqlite.ts';

const dir = mkdtempSync(join(tmpdir(), 'agentd-q-'));
after(() => rmSync(dir, { recursive: true, force: true }));
let made = 0;
const freshFile = () => join(dir, `${made++}.sqlite`);
const MIGRATIONS = ['CREATE TABLE t (k TEXT PRIMARY KEY, v BIGINT NOT NULL);'];
const open = (file = freshFile(), migrations = MIGRATIONS) => openSqlite({ file, migrations });
const put = (db: Database, k: string, v: number) =>
  db.write((sql) => sql.run('INSERT INTO t (k, v) VALUES (?, ?)', k, v));
const keys = async (db: Database) =>
  (await db.read((sql) => sql.all<{ k: string }>('SELECT k FROM t ORDER BY k'))).map((r) => r.k);

/** Reads the file as another process would see it: committed data only. */
function peek(file: string): string[] {
  const other = new DatabaseSync(file, { readOnly: true });
  const rows = other.prepare('SELECT k FROM t ORDER BY k').all() as { k: string }[];
  other.close();
  return rows.map((row) => row.k);
}

const NOBODY = 65_534;
/** Root may change the mode of every file. */
function asOtherUser<T>(work: () => T): T {
  process.seteuid!(NOBODY);
  try {
    return work();
  } finally {
    process.seteuid!(0);
  }
}

describe('sqlite: group commit', () => {
  it('makes its files private, also those that an earlier version left readable', async () => {
    const file = freshFile();
    const modes = () =>
      readdirSync(dir)
        .filter((name) => join(dir, name).startsWith(file))
        .map((name) => statSync(join(dir, name)).mode & 0o777);
    const before = process.umask(0);
    try {
      const first = open(file);
      await put(first, 'a', 1);
      assert.deepEqual(modes(), [0o600, 0o600, 0o600]);
      await first.close();
      chmodSync(file, 0o644);
      const second = open(file);
      await put(second, 'b', 2);
      assert.deepEqual(modes(), [0o600, 0o600, 0o600]);
      assert.deepEqual(await keys(second), ['a', 'b']);
      await second.close();
    } finally {
      process.umask(before);
    }
  });

  it('refuses a file that others can read if its mode cannot be changed', {
    skip: process.getuid?.() === 0 ? false : 'needs root, to switch to another user',
  }, async () => {
    const common = join(dir, 'common');
    mkdirSync(common);
    const file = join(common, 'db.sqlite');
    const putOpen = (name: string, owner: number): void => {
      writeFileSync(name, '');
      chmodSync(name, 0o666);
      chownSync(name, owner, owner);
    };
    chmodSync(dir, 0o711);
    chmodSync(common, 0o777);
    try {
      for (const name of [file, `${file}-wal`, `${file}-shm`]) {
        putOpen(name, 0);
        assert.throws(
          () => asOtherUser(() => open(file)),
          (error: Fault) => {
            assert.equal(error.code, 'storage_broken');
            assert.ok(error.message.startsWith(`${name} is open to other users`), error.message);
            assert.ok(error.hint.endsWith(`chmod 600 ${name}`), error.hint);
            assert.equal((error.cause as NodeJS.ErrnoException).code, 'EPERM');
            return true;
          },
        );
        rmSync(name);
      }
      // Control: this user's own files are made private and opened.
      rmSync(file, { force: true });
      putOpen(file, NOBODY);
      const db = asOtherUser(() => open(file));
      assert.equal(statSync(file).mode & 0o777, 0o600);
      await put(db, 'a', 1);
      await db.close();
    } finally {
      chmodSync(dir, 0o700);
      rmSync(common, { recursive: true });
    }
  });

  it('rolls back only the write that throws, not the rest of its group', async () => {
    const db = open();
    const all = await Promise.allSettled([
      put(db, 'a', 1),
      db.write(async (sql) => {
        await sql.run('INSERT INTO t (k, v) VALUES (?, ?)', 'half', 1);
        throw new Error('on purpose');
      }),
      put(db, 'a', 2),
      put(db, 'b', 1),
    ]);
    assert.deepEqual(
      all.map((one) => one.status),
      ['fulfilled', 'rejected', 'rejected', 'fulfilled'],
    );
    assert.deepEqual(await keys(db), ['a', 'b']);
    await db.close();
  });

  it('an acknowledged write exists after another process opens the file', async () => {
    const file = freshFile();
    const db = open(file);
    for (const k of ['a', 'b', 'c']) {
      await put(db, k, 1);
      assert.ok(peek(file).includes(k));
    }
    await db.close();
    const again = open(file);
    assert.deepEqual(await keys(again), ['a', 'b', 'c']);
    await again.close();
  });

  it('many writers at once, of whom some fail: exactly the acknowledged writes exist', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.record({ key: fc.nat(20), fails: fc.boolean() }), { maxLength: 60 }),
        async (writes) => {
          const file = freshFile();
          const db = open(file);
          const results = await Promise.allSettled(
            writes.map(({ key, fails }) =>
              db.write(async (sql) => {
                await sql.run('INSERT INTO t (k, v) VALUES (?, ?)', `k${key}`, key);
                if (fails) throw new Error('on purpose');
              }),
            ),
          );
          const acknowledged = writes.filter((_, i) => results[i]!.status === 'fulfilled');
          const wanted = [...new Set(acknowledged.map(({ key }) => `k${key}`))].sort();
          assert.deepEqual(peek(file), wanted);
          assert.equal(acknowledged.length, wanted.length, 'a key is written once');
          await db.close();
        },
      ),
      { numRuns: 40 },
    );
  });

  it('refuses with overloaded when the queue is full, and accepts writes again afterwards', async () => {
    const db = open();
    const count = (sql: { run(text: string): Promise<number> }) =>
      sql.run("INSERT INTO t (k, v) VALUES ('n', 1) ON CONFLICT (k) DO UPDATE SET v = t.v + 1");
    const waiting = Array.from({ length: 20_000 }, () => db.write(count));
    await assert.rejects(db.write(count), { code: 'overloaded' });
    await Promise.all(waiting);
    await db.write(count);
    const row = await db.read((sql) => sql.one<{ v: number }>("SELECT v FROM t WHERE k = 'n'"));
    assert.equal(row?.v, 20_001);
    await db.close();
  });
});

describe('sqlite: reads', () => {
  it('never see a transaction that is still open', async () => {
    const db = open();
    await put(db, 'left', 100);
    await put(db, 'right', 0);
    const sums: number[] = [];
    const look = () =>
      db.read(async (sql) => {
        const left = await sql.one<{ v: number }>("SELECT v FROM t WHERE k = 'left'");
        const right = await sql.one<{ v: number }>("SELECT v FROM t WHERE k = 'right'");
        sums.push(left!.v + right!.v);
      });
    const move = (fails: boolean) =>
      db.write(async (sql) => {
        await sql.run("UPDATE t SET v = v - 1 WHERE k = 'left'");
        // A reader reads while half of the transfer is done.
        reads.push(look());
        await sql.run("UPDATE t SET v = v + 1 WHERE k = 'right'");
        if (fails) throw new Error('on purpose');
      });
    const reads: Promise<void>[] = [];
    for (let round = 0; round < 20; round++) {
      const moves = Array.from({ length: 10 }, (_, i) => move(i % 3 === 0).catch(() => undefined));
      reads.push(look(), ...moves.map((one) => one.then(look)));
      if (round % 2 === 0) await Promise.all(moves);
    }
    await new Promise((resolve) => setTimeout(resolve, 20));
    await Promise.all(reads);
    assert.ok(sums.length > 200);
    assert.deepEqual([...new Set(sums)], [100]);
    await db.close();
  });

  it('a rejected writer that reads at once does not see other writes of its group before they are durable', async () => {
    const file = freshFile();
    const db = open(file);
    const first = put(db, 'a', 1);
    const seen = db
      .write(() => Promise.reject(new Error('on purpose')))
      .catch(async () => ({ here: await keys(db), there: peek(file) }));
    await first;
    const { here, there } = (await seen) as { here: string[]; there: string[] };
    assert.deepEqual(here, there);
    await db.close();
  });
});

describe('sqlite: closing', () => {
  it('commits queued writes, then refuses with stopping', async () => {
    const file = freshFile();
    const db = open(file);
    const waiting = ['a', 'b', 'c'].map((k) => put(db, k, 1));
    const closing = db.close();
    await assert.rejects(put(db, 'late', 1), { code: 'stopping' });
    await Promise.all([...waiting, closing, db.close()]);
    await assert.rejects(keys(db), { code: 'stopping' });
    await assert.rejects(put(db, 'later', 1), { code: 'stopping' });
    assert.deepEqual(peek(file), ['a', 'b', 'c']);
  });
});

describe('sqlite: versions', () => {
  const two = [...MIGRATIONS, "CREATE TABLE u (x TEXT); INSERT INTO u VALUES ('new');"];

  it('refuses a file of a newer version, and leaves it unchanged', async () => {
    const file = freshFile();
    await open(file, two).close();
    assert.throws(() => open(file), { code: 'state_newer' });
    const again = open(file, two);
    assert.equal((await again.read((sql) => sql.all('SELECT x FROM u'))).length, 1);
    await again.close();
  });

  it('backs an older file up, then migrates it, once', async () => {
    const file = freshFile();
    const old = open(file);
    await put(old, 'kept', 7);
    await old.close();
    const migrated = open(file, two);
    assert.deepEqual(await keys(migrated), ['kept']);
    assert.equal((await migrated.read((sql) => sql.all('SELECT x FROM u'))).length, 1);
    await migrated.close();
    assert.deepEqual(peek(`${file}.before-1`), ['kept'], 'the backup is the old file');
    assert.throws(() => open(file), { code: 'state_newer' });
    await open(`${file}.before-1`).close();
    await open(file, two).close();
  });

  it('a migration that fails leaves the old version in force', async () => {
    const file = freshFile();
    const old = open(file);
    await put(old, 'kept', 7);
    await old.close();
    const broken = [...MIGRATIONS, 'CREATE TABLE u (x TEXT); CREATE TABLE t (x TEXT);'];
    assert.throws(
      () => open(file, broken),
      (error: Fault) => {
        assert.equal(error.code, 'storage_broken');
        assert.match(error.message, /from version 1 to 2 failed: table t already exists/);
        assert.ok(error.hint.includes(`${file}.before-1`), error.hint);
        return true;
      },
    );
    const again = open(file);
    assert.deepEqual(await keys(again), ['kept']);
    await again.close();
  });

  it('makes the backup once, and never overwrites it', async () => {
    const file = freshFile();
    const old = open(file);
    await put(old, 'first', 1);
    await old.close();
    const broken = [...MIGRATIONS, 'CREATE TABLE t (x TEXT);'];
    for (let n = 0; n < 3; n++) assert.throws(() => open(file, broken));
    assert.equal(existsSync(`${file}.before-1.2`), false, 'the same bytes are not copied again');
    // The old version runs again for a while.
    const back = open(file);
    await put(back, 'second', 2);
    await back.close();
    await open(file, two).close();
    assert.deepEqual(peek(`${file}.before-1`), ['first']);
    assert.deepEqual(peek(`${file}.before-1.2`), ['first', 'second']);
  });

  it('copies the WAL of a killed process too, and logs the migration', async () => {
    const file = freshFile();
    const live = open(file);
    await put(live, 'in the log', 1);
    const copied = freshFile();
    for (const end of ['', '-wal', '-shm']) copyFileSync(file + end, copied + end);
    await live.close();
    const logged: unknown[] = [];
    const log = { ...silentLog, info: (_: string, fields?: object) => void logged.push(fields) };
    await openSqlite({ file: copied, migrations: two, log }).close();
    assert.deepEqual(peek(`${copied}.before-1`), ['in the log']);
    assert.deepEqual(logged, [{ file: copied, from: 1, to: 2, as_it_was: `${copied}.before-1` }]);
  });

  it('reports a file that is not a database as damaged', () => {
    const file = freshFile();
    writeFileSync(
      file,
      'this is not a database, but it is long enough to be taken for one. '.repeat(99),
    );
    assert.throws(() => open(file), { code: 'storage_broken' });
  });
});
