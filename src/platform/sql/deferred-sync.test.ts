// Deferred sync: commits share a sync, and after a failed one the process ends and nothing more is
// written.
import assert from 'node:assert/strict';
import { fdatasync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, it } from 'node:test';
import type { Fault } from '../../wire/errors.ts';
import { deferSync, type Sync } from './deferred-sync.ts';
import { openSqlite, type SqlNow } from './sqlite.ts';

const dir = mkdtempSync(join(tmpdir(), 'agentd-l-'));
after(() => rmSync(dir, { recursive: true, force: true }));
let made = 0;
const MIGRATIONS = ['CREATE TABLE t (k TEXT PRIMARY KEY);'];

async function open({ sync, isWalMissing = false }: { sync?: Sync; isWalMissing?: boolean } = {}) {
  const file = join(dir, `${made++}.sqlite`);
  const inner = openSqlite({ file, migrations: MIGRATIONS });
  const problems: Fault[] = [];
  const onFailedSync = (problem: Fault): void => void problems.push(problem);
  const options = sync === undefined ? { onFailedSync } : { onFailedSync, sync };
  return {
    problems,
    ...(await deferSync(inner, isWalMissing ? join(dir, 'gone') : file, options)),
  };
}
const put = (k: string) => (sql: SqlNow) => sql.run('INSERT INTO t (k) VALUES (?)', k);
const begun = async (syncs: unknown[]): Promise<void> => {
  while (syncs.length === 0) await new Promise((resolve) => setImmediate(resolve));
};
const BROKEN = { code: 'storage_broken', retry: false, message: /^syncing .*-wal .*failed/ };

describe('deferred sync', () => {
  it('a WAL that cannot be opened is a failed sync, and does not block closing', async () => {
    const db = await open({ isWalMissing: true });
    const { durable } = await db.commit(put('a'));
    await assert.rejects(durable, BROKEN);
    await assert.rejects(db.commit(put('b')), BROKEN);
    await assert.rejects(
      db.write((sql) => sql.run('INSERT INTO t (k) VALUES (?)', 'c')),
      BROKEN,
    );
    assert.deepEqual(
      db.problems.map(({ code }) => code),
      ['storage_broken'],
      'the process is ended once',
    );
    await db.close();
  });

  it('after a failed sync no later one reports success', async () => {
    const held: ((error: Error | null) => void)[] = [];
    const db = await open({ sync: (_fd, done) => held.push(done) });
    const first = await db.commit(put('a'));
    await begun(held);
    const second = await db.commit(put('b'));
    held.shift()?.(new Error('no disk'));
    await assert.rejects(first.durable, BROKEN);
    await assert.rejects(second.durable, BROKEN);
    assert.equal(held.length, 0);
    await db.close();
  });

  it('writes before the start of a sync share it, and later ones do not', async () => {
    const held: ((error: Error | null) => void)[] = [];
    const db = await open({ sync: (_fd, done) => held.push(done) });
    const first = await db.commit(put('a'));
    const second = await db.commit(put('b'));
    await begun(held);
    const late = await db.commit(put('c'));
    let isLateDurable = false;
    const reported = late.durable.then(() => {
      isLateDurable = true;
    });
    held.shift()?.(null);
    await Promise.all([first.durable, second.durable]);
    assert.equal(isLateDurable, false);
    await begun(held);
    assert.equal(isLateDurable, false);
    held.shift()?.(null);
    await reported;
    await db.close();
  });

  it('a commit is synced after the flush delay, or at once for a waiter', async (t) => {
    const held: ((error: Error | null) => void)[] = [];
    const db = await open({ sync: (_fd, done) => held.push(done) });
    t.mock.timers.enable({ apis: ['setTimeout'] });
    const soon = await db.commit(put('a'));
    const turns = async (): Promise<void> => {
      for (let i = 0; i < 5; i++) await new Promise((resolve) => setImmediate(resolve));
    };
    await turns();
    assert.equal(held.length, 0);
    t.mock.timers.tick(20);
    await begun(held);
    held.shift()?.(null);
    await soon.durable;
    const first = await db.commit(put('b'));
    const second = await db.commit(put('c'));
    const now = second.syncNow();
    await begun(held);
    held.shift()?.(null);
    await Promise.all([first.durable, second.durable, now]);
    assert.equal(held.length, 0);
    t.mock.timers.reset();
    await db.close();
  });

  it('closing waits for a deferred sync', async () => {
    let syncs = 0;
    const db = await open({
      sync: (fd, done) => {
        syncs++;
        fdatasync(fd, done);
      },
    });
    const { durable } = await db.commit(put('a'));
    await db.close();
    await durable;
    assert.equal(syncs, 1);
  });

  it('a sync that completes synchronously, with or without an error, ends', async () => {
    for (const error of [null, new Error('no disk')]) {
      const db = await open({ sync: (_fd, done) => done(error) });
      const { durable } = await db.commit(put('a'));
      await (error === null ? durable : assert.rejects(durable, BROKEN));
      await db.close();
    }
  });

  it('synced data is durable', async () => {
    let syncs = 0;
    const sync: Sync = (fd, done) => {
      syncs++;
      fdatasync(fd, done);
    };
    const db = await open({ sync });
    await (await db.commit(put('a'))).durable;
    await (await db.commit(put('b'))).durable;
    assert.equal(syncs, 2);
    await db.close();
  });
});
