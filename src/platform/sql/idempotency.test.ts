// Idempotency keys, on SQLite and on PostgreSQL.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { PGlite } from '@electric-sql/pglite';
import type { Database } from './database.ts';
import { IDEMPOTENCY_TABLE, IDEMPOTENCY_WINDOW_MS, runOnce } from './idempotency.ts';
import { openPostgres, type PostgresClient } from './postgres.ts';
import { openSqlite } from './sqlite.ts';

const MIGRATIONS = [`CREATE TABLE done (n BIGINT NOT NULL);${IDEMPOTENCY_TABLE}`];
const dir = mkdtempSync(join(tmpdir(), 'agentd-o-'));
after(() => rmSync(dir, { recursive: true, force: true }));

const databases: Record<string, () => Database | Promise<Database>> = {
  sqlite: () => openSqlite({ file: join(dir, 'x.sqlite'), migrations: MIGRATIONS }),
  postgres: async () =>
    openPostgres((await PGlite.create()) as unknown as PostgresClient, MIGRATIONS),
};

for (const [name, make] of Object.entries(databases)) {
  describe(`once per key on ${name}`, () => {
    let db: Database;
    before(async () => {
      db = await make();
    });
    after(() => db.close());
    const count = async () =>
      Number((await db.read((sql) => sql.one<{ c: number }>('SELECT COUNT(*) AS c FROM done')))!.c);
    let nowMs = 1_000;
    const work = (key: string | undefined, hash: string, scope = 'person:ann', fails = false) =>
      db.write((sql) =>
        runOnce(
          sql,
          key === undefined ? undefined : { scope, key, requestHash: hash },
          nowMs,
          async () => {
            await sql.run('INSERT INTO done (n) VALUES (?)', 1);
            if (fails) throw new Error('on purpose');
            return { made: hash, list: [1, null, 'é'] };
          },
        ),
      );

    it('the same key and request return the same result and run once', async () => {
      const answers = await Promise.all([work('k1', 'h1'), work('k1', 'h1'), work('k1', 'h1')]);
      for (const answer of answers) assert.deepEqual(answer, answers[0]);
      assert.deepEqual(await work('k1', 'h1'), answers[0]);
      assert.equal(await count(), 1);
    });

    it('the same key with another request is refused and does nothing', async () => {
      await assert.rejects(work('k1', 'h2'), { code: 'idempotency_mismatch' });
      assert.equal(await count(), 1);
    });

    it('another caller may use the same key', async () => {
      await work('k1', 'h2', 'person:bob');
      assert.equal(await count(), 2);
    });

    it('failed work is not recorded', async () => {
      await assert.rejects(work('k2', 'h1', 'person:ann', true));
      assert.equal(await count(), 2);
      await work('k2', 'h1');
      assert.equal(await count(), 3);
    });

    it('without a key the work runs every time', async () => {
      await Promise.all([work(undefined, 'h1'), work(undefined, 'h1')]);
      assert.equal(await count(), 5);
    });

    it('new keys delete expired ones, oldest first, and no others', async () => {
      const keys = async () => {
        const text = 'SELECT once_key AS k FROM once ORDER BY at_ms, scope, once_key';
        return (await db.read((sql) => sql.all<{ k: string }>(text))).map(({ k }) => k);
      };
      assert.deepEqual(await keys(), ['k1', 'k2', 'k1']);
      nowMs = 1_001;
      await work('k3', 'h1');
      nowMs = 1_001 + IDEMPOTENCY_WINDOW_MS;
      await work('k4', 'h1');
      assert.equal((await keys()).length, 3);
      await work('k5', 'h1');
      assert.deepEqual(await keys(), ['k3', 'k4', 'k5']);
      await work('k6', 'h1');
      assert.deepEqual(await keys(), ['k3', 'k4', 'k5', 'k6']);
      await work('k1', 'h2');
      assert.equal(await count(), 10, 'an expired key may be used anew');
    });
  });
}
