// Tests that databases of earlier versions open with all their data.
import assert from 'node:assert/strict';
import { existsSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { sha256Hex } from '../../../platform/json.ts';
import { openSqlite, type SqlNow } from '../../../platform/sql/sqlite.ts';
import { freshStateDir } from '../testing/harness.ts';
import { readRunningCalls } from './calls.ts';
import { readPart, writePart } from './parts.ts';
import { MIGRATIONS } from './tables.ts';
import { sumUsage } from './usage-report.ts';

const dir = freshStateDir();
after(() => rmSync(dir, { recursive: true, force: true }));
const names = Array.from({ length: 1_500 }, (_, i) => `part ${i}`);

async function writeFirstRelease(file: string): Promise<void> {
  const db = openSqlite({ file, migrations: MIGRATIONS.slice(0, 1) });
  await db.writeNow((sql) => {
    for (const [i, name] of names.entries())
      sql.run(
        'INSERT INTO parts (hash, body, labels, source, created_ms) VALUES (?, ?, ?, ?, ?)',
        sha256Hex(name),
        i === 7 ? null : JSON.stringify(name),
        i % 4,
        'agent:coder',
        i,
      );
    sql.run("INSERT INTO outbox (seq, event) VALUES (41, '{}'), (42, '{}')");
    sql.run("INSERT INTO outbox_store (id) VALUES ('here')");
  });
  await db.close();
}

describe("modeld's database of the first release", () => {
  test('upgrades parts, keeps outbox numbers, and leaves a backup', async () => {
    const file = join(dir, 'modeld.sqlite');
    await writeFirstRelease(file);
    const db = openSqlite({ file, migrations: MIGRATIONS });
    for (const [i, name] of names.entries()) {
      const part = await db.read((sql) => readPart(sql, sha256Hex(name)));
      assert.equal(part?.body, i === 7 ? null : JSON.stringify(name));
      assert.deepEqual([part.labels, part.source], [i % 4, 'agent:coder']);
    }
    const count = (text: string) => db.read((sql) => sql.one<{ n: number }>(text));
    assert.equal((await count('SELECT SUM(seq) AS n FROM outbox'))?.n, 83);
    const again = { hash: sha256Hex('part 3'), body: '"part 3"', labels: 8, source: 's' };
    const fresh = { hash: sha256Hex('new'), body: '"new"', labels: 0, source: 's' };
    await db.writeNow((sql) => {
      for (const part of [again, fresh]) writePart(sql, part, 1);
    });
    assert.equal((await count('SELECT COUNT(*) AS n FROM parts'))?.n, names.length + 1);
    assert.equal((await db.read((sql) => readPart(sql, again.hash)))?.labels, 3 | 8);
    assert.equal((await db.read((sql) => readPart(sql, fresh.hash)))?.body, '"new"');
    await db.close();
    assert.ok(existsSync(`${file}.before-1`));
    const before = openSqlite({ file: `${file}.before-1`, migrations: MIGRATIONS.slice(0, 1) });
    const kept = await before.read((sql) =>
      sql.one<{ n: number }>('SELECT COUNT(*) AS n FROM parts'),
    );
    assert.equal(kept?.n, names.length);
    await before.close();
  });
});

test('calls written while the indexes were absent are found by time and by status', async () => {
  const file = join(dir, 'marks.sqlite');
  const old = openSqlite({ file, migrations: MIGRATIONS.slice(0, 5) });
  const add = (sql: SqlNow, seq: number, status: string, createdMs: number): void =>
    sql.run(
      `INSERT INTO model_calls (seq, call_id, attempt, status, principal, agent, via, model,
         provider, upstream_model, rehearsal, purpose, request_hash, context, params,
         reserved_tokens, reserved_cost, created_ms)
       VALUES (?, ?, 1, ?, 'p', '', 'openai', 'm', 'p', 'm', 0, '', '', x'00', '', 0, 0, ?)`,
      seq,
      `call_${seq}`,
      status,
      createdMs,
    );
  await old.writeNow((sql) => {
    add(sql, 3, 'completed', 5_000);
    add(sql, 4, 'running', 6_000);
    // The clock was set back.
    add(sql, 5, 'completed', 2_000);
  });
  await old.close();
  const db = openSqlite({ file, migrations: MIGRATIONS });
  assert.deepEqual(
    (await db.read(readRunningCalls)).map(({ seq }) => seq),
    [4],
  );
  const since = async (sinceMs: number): Promise<number | undefined> => {
    const query = { agent: undefined, taskId: undefined, sinceMs };
    return (await db.read((sql) => sumUsage(sql, query)))[0]?.calls;
  };
  assert.deepEqual([await since(0), await since(5_000), await since(6_001)], [3, 2, undefined]);
  await db.close();
});
