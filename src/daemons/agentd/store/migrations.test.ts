// A database of the first release: recorded responses are still found under their keys, so that a
// repeated request of a run or client has no second effect.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, it } from 'node:test';
import { PGlite } from '@electric-sql/pglite';
import type { Database, Migrations } from '../../../platform/sql/database.ts';
import { openPostgres, type PostgresClient } from '../../../platform/sql/postgres.ts';
import { openSqlite } from '../../../platform/sql/sqlite.ts';
import { callKey } from './call-methods.ts';
import { MIGRATIONS } from './schema.ts';

const dir = mkdtempSync(join(tmpdir(), 'agentd-m-'));
after(() => rmSync(dir, { recursive: true, force: true }));

const RUN = 'run_01m7fq1xzq9xdbvws3t9aq5dr6';
const OTHER = 'run_01m7fq1sfj08e5qre7n3fg3fgb';
const CALL = 'call_1000001xzq9xdbvws3t9aq5dr6';
const OF_OTHER = 'call_1002011sfj08e5qre7n3fg3fgb';
const OF_NO_RUN = 'call_10000000000000000000000000';

/** Scope, key and response as the first release wrote them, and the current scope. */
const ROWS: [scope: string, key: string, answer: string, now: string][] = [
  ['run-call', CALL, '{"task":{}}', `run-call ${RUN}`],
  ['run-call', `${CALL}/result`, '{"id":"artifact_1"}', `run-call ${RUN}`],
  ['run-call', OF_OTHER, '{}', `run-call ${OTHER}`],
  ['run-call', OF_NO_RUN, '{}', 'run-call'],
  ['person:ann', 'a', '{"id":"task_1","retry_of":null,"result":null}', 'person:ann createTask'],
  [
    'person:ann',
    'b',
    String.raw`{"id":"task_2","goal":"x\",\"retry_of\":null,","retry_of":"task_1","result":null}`,
    'person:ann retryTask',
  ],
  ['person:ann', 'c', '{"id":"msg_1","type":"Message"}', 'person:ann sendMessage'],
  ['person:ann', 'd', '{"id":"artifact_2","name":"x"}', 'person:ann putArtifact'],
  ['person:ann task', 'c', '{"id":"task_3"}', 'person:ann sendMessage task'],
  ['retry person:ann', 'task_1', '{"id":"task_4"}', 'retry person:ann'],
];

async function fill(db: Database): Promise<void> {
  await db.write(async (sql) => {
    for (const id of [RUN, OTHER])
      await sql.run(
        `INSERT INTO runs (id, task_id, agent, priority, fence, status, activations, crashes,
           not_before_ms, created_ms) VALUES (?, 'task_1', 'coder', 0, 1, 'live', 1, 0, 0, 1)`,
        id,
      );
    for (const [scope, key, answer] of ROWS)
      await sql.run(
        "INSERT INTO once (scope, once_key, request_hash, answer, at_ms) VALUES (?, ?, 'h', ?, 1)",
        scope,
        key,
        answer,
      );
  });
}

const databases: Record<string, () => (migrations: Migrations) => Promise<Database>> = {
  sqlite: () => async (migrations) => openSqlite({ file: join(dir, 'a.sqlite'), migrations }),
  postgres() {
    const client = PGlite.create();
    after(async () => (await client).close());
    return async (migrations) => {
      const made = (await client) as unknown as PostgresClient;
      const shared = { query: made.query.bind(made), exec: made.exec.bind(made) };
      const transaction = made.transaction.bind(made);
      return openPostgres({ ...shared, transaction, close: async () => {} }, migrations);
    };
  },
};

for (const [name, make] of Object.entries(databases)) {
  describe(`agentd's database of the first release, on ${name}`, () => {
    const open = make();

    it('recorded responses are found under the current scope', async () => {
      const old = await open(MIGRATIONS.slice(0, 1));
      await fill(old);
      await old.close();
      const db = await open(MIGRATIONS);
      const rows = await db.read((sql) =>
        sql.all<{ scope: string; once_key: string; answer: string }>('SELECT * FROM once'),
      );
      const seen = rows.map(({ scope, once_key, answer }) => [once_key, answer, scope]);
      const wanted = ROWS.map(([, key, answer, now]) => [key, answer, now]);
      assert.deepEqual(seen.sort(), wanted.sort());
      const call = { runId: RUN, fence: 2, callId: CALL, requestHash: 'h' };
      assert.equal(callKey(call).scope, `run-call ${RUN}`);
      await db.close();
    });
  });
}
