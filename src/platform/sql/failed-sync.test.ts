// A disk that fails a sync, as seen from outside: the process ends with a log line, and the next
// one finds what was acknowledged. The sync fails below Node, in a library loaded before libc.
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { openSqlite } from './sqlite.ts';
import { sqliteFault } from './sqlite-fault.ts';

const dir = mkdtempSync(join(tmpdir(), 'agentd-y-'));
after(() => rmSync(dir, { recursive: true, force: true }));
const library = join(dir, 'fail-sync.so');
const trigger = join(dir, 'fail-now');
const MIGRATIONS = ['CREATE TABLE t (k TEXT PRIMARY KEY);'];

const FAIL_SYNC = `
#include <errno.h>
#include <unistd.h>
static int sync_or_fail(void) {
  if (access("${trigger}", F_OK) != 0) return 0;
  errno = EIO;
  return -1;
}
int fsync(int fd) { (void)fd; return sync_or_fail(); }
int fdatasync(int fd) { (void)fd; return sync_or_fail(); }
`;

const WRITER = `
import { writeFileSync } from 'node:fs';
import { openSqlite } from '${import.meta.resolve('./sqlite.ts')}';
import { deferSync } from '${import.meta.resolve('./deferred-sync.ts')}';
const [file, isLate, mayFail] = process.argv.slice(2);
const inner = openSqlite({ file, migrations: ${JSON.stringify(MIGRATIONS)} });
const db = isLate === 'late' ? await deferSync(inner, file) : inner;
const put = (k) => db.write((sql) => sql.run('INSERT INTO t (k) VALUES (?)', k));
await put('a');
if (mayFail === 'fails') writeFileSync('${trigger}', '');
await put('b').catch((error) => console.log(error.code));
console.log('still here');
`;

describe('a failed sync of a database', () => {
  before(() => {
    const source = join(dir, 'fail-sync.c');
    writeFileSync(source, FAIL_SYNC);
    execFileSync('cc', ['-shared', '-fPIC', '-o', library, source]);
    writeFileSync(join(dir, 'writer.mjs'), WRITER);
  });

  const write = (file: string, ...args: string[]) => {
    rmSync(trigger, { force: true });
    const ran = spawnSync(process.execPath, [join(dir, 'writer.mjs'), file, ...args], {
      encoding: 'utf8',
      env: { ...process.env, LD_PRELOAD: library },
    });
    rmSync(trigger, { force: true });
    return ran;
  };
  const keys = async (file: string): Promise<string[]> => {
    const db = openSqlite({ file, migrations: MIGRATIONS });
    const rows = await db.read((sql) => sql.all<{ k: string }>('SELECT k FROM t ORDER BY k'));
    await db.close();
    return rows.map(({ k }) => k);
  };

  for (const how of ['late', 'with the commit']) {
    it(`ends the process, and logs why (synced ${how})`, async () => {
      const file = join(dir, `${how}.sqlite`);
      const ran = write(file, how, 'fails');
      assert.equal(ran.status, 70, ran.stderr);
      assert.equal(ran.stdout, '', 'the writer is not answered');
      const line = JSON.parse(ran.stderr.trim().split('\n').at(-1)!);
      assert.equal(line.level, 'error');
      assert.match(line.message, /syncing its database failed/);
      assert.equal(line.error.code, 'storage_broken');
      assert.match(line.hint, /dmesg/);
      const found = await keys(file);
      assert.ok(found.includes('a'), 'what was acknowledged is there');
    });

    it(`control: a disk that syncs is written to (synced ${how})`, async () => {
      const file = join(dir, `${how} well.sqlite`);
      const ran = write(file, how, 'never');
      assert.deepEqual([ran.status, ran.stdout], [0, 'still here\n'], ran.stderr);
      assert.deepEqual(await keys(file), ['a', 'b']);
    });
  }

  it('the WAL that an ended process left is written to the database at the next start', async () => {
    const file = join(dir, 'left.sqlite');
    write(file, 'with the commit', 'fails');
    const db = openSqlite({ file, migrations: MIGRATIONS });
    // Without its WAL, which is new, the file has everything.
    const [row] = await db.read((sql) =>
      sql.all<{ log: number; checkpointed: number }>('PRAGMA wal_checkpoint(PASSIVE)'),
    );
    assert.equal(row?.log, 0);
    await db.close();
    assert.ok((await keys(file)).includes('a'));
  });
});

describe('errors of SQLite', () => {
  const codeFor = (errcode: number, file = join(dir, 'x')): unknown => {
    const error = Object.assign(new Error('disk I/O error'), { code: 'ERR_SQLITE_ERROR', errcode });
    return (sqliteFault(error, file) as { code: unknown }).code;
  };

  it('distinguish a full disk from a broken one', () => {
    const [full, failedWrite, failedRead, failedSync] = [13, 778, 266, 1_034];
    assert.equal(codeFor(full), 'storage_full');
    for (const errcode of [failedWrite, failedRead, failedSync])
      assert.equal(codeFor(errcode), 'storage_broken');
    assert.equal(codeFor(19), 'ERR_SQLITE_ERROR', 'a constraint is not of the disk');
  });
});
