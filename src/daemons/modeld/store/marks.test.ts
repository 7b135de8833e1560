// The marks that stand for indexes: what still runs is found whatever a crash leaves, and what was
// made since a time, whatever the clock did.
import assert from 'node:assert/strict';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import fc from 'fast-check';
import { openSqlite, type SqlNow } from '../../../platform/sql/sqlite.ts';
import { freshStateDir } from '../testing/harness.ts';
import { intent, openJournal, outcome } from '../testing/journal.ts';
import { openSeqs, sumUsage } from './calls.ts';
import { MIGRATIONS } from './tables.ts';

const HOUR_MS = 3_600_000;
const dir = freshStateDir();
after(() => rmSync(dir, { recursive: true, force: true }));

const callsOf = async (db: Awaited<ReturnType<typeof openJournal>>['db'], sinceMs: number) => {
  const rows = await db.read((sql) =>
    sumUsage(sql, { agent: undefined, taskId: undefined, sinceMs }),
  );
  return rows.reduce((sum, { calls }) => sum + calls, 0);
};

describe('marks instead of indexes', () => {
  test('a call that runs for long is found after thousands that ended', async () => {
    const { journal, db, close } = await openJournal();
    const long = await journal.intent(intent(0));
    for (let n = 1; n <= 2_500; n += 250) {
      const some = Array.from({ length: 250 }, (_, i) => journal.intent(intent(n + i)));
      for (const { seq } of await Promise.all(some)) journal.outcomeSoon(outcome(seq));
      await journal.flush();
    }
    assert.deepEqual(await db.read(openSeqs), [long.seq]);
    const mark = () => db.read((sql) => sql.one<{ seq: number }>('SELECT seq FROM calls_open'));
    assert.equal((await mark())?.seq, 1);
    await journal.outcome(outcome(long.seq));
    await journal.intent(intent(9_999));
    assert.equal((await mark())?.seq, 2_502);
    assert.deepEqual(await db.read(openSeqs), [2_502]);
    await close();
  });

  test('what an earlier life left keeps the mark until it is settled', async () => {
    const { journal, db, close } = await openJournal({ lastSeq: 5_000, open: [7] });
    await journal.intent(intent(1));
    const mark = await db.read((sql) => sql.one<{ seq: number }>('SELECT seq FROM calls_open'));
    assert.equal(mark?.seq, 1);
    await close();
  });

  test('calls since a time are counted whatever the clock does', async () => {
    const hours = fc.array(fc.integer({ min: 0, max: 30 }), { minLength: 1, maxLength: 12 });
    await fc.assert(
      fc.asyncProperty(hours, fc.integer({ min: 0, max: 31 * 60 }), async (made, minute) => {
        const { journal, db, close } = await openJournal();
        const times = made.map((hour, i) => hour * HOUR_MS + i * 60_000);
        for (const [n, createdMs] of times.entries())
          await journal.intent(intent(n, { createdMs }));
        const sinceMs = minute * 60_000;
        assert.equal(await callsOf(db, sinceMs), times.filter((ms) => ms >= sinceMs).length);
        await close();
      }),
      { numRuns: 25 },
    );
  });

  test('a database from before gets its marks', async () => {
    const file = join(dir, 'old.sqlite');
    const old = openSqlite({ file, migrations: MIGRATIONS.slice(0, 4) });
    const add = (sql: SqlNow, seq: number, status: string, createdMs: number): void =>
      sql.run(
        `INSERT INTO model_calls (seq, call_id, attempt, status, principal, agent, via, model,
           provider, upstream_model, rehearsal, purpose, request_hash, context, params,
           reserved_tokens, reserved_cost, created_ms)
         VALUES (?, ?, 1, ?, 'p', '', 'openai', 'm', 'p', 'm', 0, '', '', x'00', '', 0, 0, ?)`,
        ...[seq, `call_${seq}`, status, createdMs],
      );
    await old.writeNow((sql) => {
      add(sql, 3, 'completed', 5 * HOUR_MS);
      add(sql, 4, 'running', 5 * HOUR_MS + 1);
      add(sql, 5, 'completed', 2 * HOUR_MS);
    });
    await old.close();
    const db = openSqlite({ file, migrations: MIGRATIONS });
    assert.deepEqual(await db.read(openSeqs), [4]);
    const hours = await db.read((sql) => sql.all('SELECT hour, seq FROM call_hours ORDER BY hour'));
    assert.deepEqual(
      hours.map((row) => ({ ...row })),
      [
        { hour: 2, seq: 5 },
        { hour: 5, seq: 3 },
      ],
    );
    await db.close();
  });
});
