// Snapshots of a database in use: a hold lets writes wait and ends by itself, and the copy has what
// was committed when it was opened, whatever was written since.
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { after, describe, it } from 'node:test';
import type { Caller } from '../wire/caller.ts';
import type { Fault } from '../wire/errors.ts';
import { systemClock } from './clock.ts';
import type { HandlerContext, RawReply } from './dispatch.ts';
import { makeIdMaker } from './ids.ts';
import { silentLog } from './log.ts';
import { makeSnapshots, type SnapshotSource } from './snapshots.ts';
import { deferSync } from './sql/deferred-sync.ts';
import { openSqlite, type SqliteDatabase } from './sql/sqlite.ts';

const made: string[] = [];
const closing: SqliteDatabase[] = [];
after(async () => {
  for (const db of closing) await db.close();
  for (const dir of made) rmSync(dir, { recursive: true, force: true });
});

const OPERATOR: Caller = { kind: 'operator', principal: 'person:operator' };
const FOR_LONG = 2_000;

function setUp() {
  const stateDir = mkdtempSync(join(tmpdir(), 'agentd-s-'));
  made.push(stateDir);
  const db = openSqlite({
    file: join(stateDir, 'toold.sqlite'),
    migrations: ['CREATE TABLE t (k BIGINT PRIMARY KEY, v TEXT)'],
  });
  closing.push(db);
  return { stateDir, db, ...serve(stateDir, db) };
}

function serve(stateDir: string, source: SnapshotSource | undefined) {
  const newId = makeIdMaker(systemClock());
  const snapshots = makeSnapshots({ name: 'toold', stateDir, source, newId, log: silentLog });
  const { signal } = new AbortController();
  const context = (more: object, caller = OPERATOR) =>
    ({ caller, signal, ...more }) as unknown as HandlerContext<never>;
  const { handlers } = snapshots;
  return {
    snapshots,
    async open(holdMs: number, caller?: Caller) {
      const body = { hold_ms: holdMs };
      const response = await handlers.openSnapshot(context({ body }, caller));
      return (response as { snapshot: { id: string; size_bytes: number } | null }).snapshot;
    },
    async release(id: string) {
      const response = await handlers.releaseSnapshot(context({ params: { id } }));
      return (response as { held: boolean }).held;
    },
    async read(id: string): Promise<Buffer> {
      const reply = (await handlers.readSnapshot(context({ params: { id } }))) as RawReply;
      const chunks: Buffer[] = [];
      for await (const chunk of reply.body as AsyncIterable<Buffer>) chunks.push(chunk);
      assert.equal(reply.headers['content-length'], String(Buffer.concat(chunks).length));
      return Buffer.concat(chunks);
    },
    async drop(id: string) {
      const response = await handlers.dropSnapshot(context({ params: { id } }));
      return (response as { dropped: boolean }).dropped;
    },
  };
}

const put = (db: SqliteDatabase, k: number) =>
  db.write((sql) => sql.run('INSERT INTO t (k, v) VALUES (?, ?)', k, 'x'.repeat(5_000)));
const count = async (db: SqliteDatabase) =>
  (await db.read((sql) => sql.one<{ n: number }>('SELECT COUNT(*) AS n FROM t')))!.n;
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
/** Tells whether it has settled by now. */
const state = (promise: Promise<unknown>) =>
  Promise.race([promise.then(() => 'done'), pause(50).then(() => 'waits')]);

function rowsIn(dir: string, bytes: Buffer): number {
  const file = join(dir, 'copy.sqlite');
  writeFileSync(file, bytes);
  const db = new DatabaseSync(file);
  const check = db.prepare('PRAGMA integrity_check').get() as { integrity_check: string };
  assert.equal(check.integrity_check, 'ok');
  const { n } = db.prepare('SELECT COUNT(*) AS n FROM t').get() as { n: number };
  db.close();
  return n;
}

describe('snapshots of a database in use', () => {
  it('hold writes until released, and let reads continue', async () => {
    const { db, open, release } = setUp();
    await put(db, 1);
    const snapshot = (await open(FOR_LONG))!;
    const queued = put(db, 2);
    const now = db.writeNow((sql) => sql.run('INSERT INTO t (k) VALUES (3)'));
    assert.deepEqual([await state(queued), await state(now)], ['waits', 'waits']);
    assert.equal(await count(db), 1);
    assert.equal(await release(snapshot.id), true);
    await Promise.all([queued, now]);
    assert.equal(await count(db), 3);
    assert.equal(await release(snapshot.id), false, 'it was released before');
  });

  it('hold writes whose sync is deferred, too', async () => {
    const { db, open, release } = setUp();
    const late = await deferSync(db, db.file);
    const snapshot = (await open(FOR_LONG))!;
    const commit = late.commit((sql) => sql.run('INSERT INTO t (k) VALUES (1)'));
    assert.equal(await state(commit), 'waits');
    await release(snapshot.id);
    await commit;
  });

  it('end a hold by themselves, and say so', async () => {
    const { db, open, release } = setUp();
    const snapshot = (await open(20))!;
    await put(db, 1);
    assert.equal(await release(snapshot.id), false);
  });

  it('wait for a transaction that is open', async () => {
    const { db, open, release } = setUp();
    const ended = Promise.withResolvers<void>();
    const writing = db.write(async (sql) => {
      await sql.run('INSERT INTO t (k) VALUES (1)');
      await ended.promise;
    });
    await pause(10);
    const opening = open(FOR_LONG);
    assert.equal(await state(opening), 'waits');
    ended.resolve();
    await writing;
    await release((await opening)!.id);
  });

  it('copy what was committed when they were opened, whatever comes after', async () => {
    const { db, stateDir, open, release, read } = setUp();
    for (let k = 0; k < 500; k++) void put(db, k);
    await put(db, 500);
    const snapshot = (await open(FOR_LONG))!;
    await release(snapshot.id);
    let isCopied = false;
    const writes = (async () => {
      for (let k = 1_000; !isCopied || k < 1_200; k++) await put(db, k);
    })();
    await pause(20);
    const bytes = await read(snapshot.id);
    isCopied = true;
    await writes;
    assert.equal(bytes.length, snapshot.size_bytes);
    assert.equal(rowsIn(stateDir, bytes), 501);
    assert.ok((await count(db)) > 600);
    assert.deepEqual(readdirSync(join(stateDir, 'snapshots')), [], 'no copy is left');
    await assert.rejects(read(snapshot.id), (e: Fault) => e.code === 'not_found');
  });

  it('are dropped on request, and the oldest when too many are unread', async () => {
    const { open, drop, read } = setUp();
    const ids: string[] = [];
    for (let n = 0; n < 6; n++) ids.push((await open(1))!.id);
    for (const id of ids.slice(0, 2))
      await assert.rejects(read(id), (e: Fault) => e.code === 'not_found');
    assert.equal(await drop(ids[2]!), true);
    assert.equal(await drop(ids[2]!), false);
    for (const id of ids.slice(3)) assert.ok((await read(id)).length > 0);
  });

  it('need the operator key, not a key of one person', async () => {
    const { open } = setUp();
    const ann: Caller = { kind: 'operator', principal: 'person:ann', key: 'people/ann' };
    await assert.rejects(open(1, ann), (e: Fault) => e.code === 'forbidden_caller');
  });

  it('are null where there is no database', async () => {
    const { stateDir } = setUp();
    assert.equal(await serve(stateDir, undefined).open(1), null);
  });

  it('end with the daemon, and what a killed one left is removed', async () => {
    const { db, stateDir, snapshots, open, read } = setUp();
    const snapshot = (await open(FOR_LONG))!;
    const queued = put(db, 1);
    await snapshots.stop();
    await queued;
    await assert.rejects(read(snapshot.id), (e: Fault) => e.code === 'not_found');
    const left = join(stateDir, 'snapshots');
    mkdirSync(left);
    for (const name of ['toold', 'modeld'])
      writeFileSync(join(left, `${name}-snapshot_1.sqlite`), '');
    serve(stateDir, db);
    assert.deepEqual(readdirSync(left), ['modeld-snapshot_1.sqlite'], "another daemon's stays");
  });
});
