// PostgreSQL behind drivers that return wide numbers differently. Stores are tested on a real
// PostgreSQL elsewhere.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { openPostgres, type PostgresClient } from './postgres.ts';

type Answer = Awaited<ReturnType<PostgresClient['query']>>;

/** Returns the same rows for every statement, and records the parameters. */
function fakeClient(answer: Answer) {
  const statements: unknown[][] = [];
  const query: PostgresClient['query'] = async (text, values = []) => {
    if (text.includes('schema_version')) return { rows: [] };
    statements.push(values);
    return answer;
  };
  const client: PostgresClient = {
    query,
    exec: async () => undefined,
    transaction: (work) => work({ query }),
    close: async () => undefined,
  };
  return { client, statements };
}

const fields = [
  { name: 'seq', dataTypeID: 20 },
  { name: 'total', dataTypeID: 1700 },
  { name: 'n', dataTypeID: 23 },
  { name: 'digits', dataTypeID: 25 },
];
const read = async (answer: Answer) => {
  const db = await openPostgres(fakeClient(answer).client, []);
  return db.read((sql) => sql.all('SELECT * FROM x'));
};

describe('postgres', () => {
  it('returns wide numbers as numbers, whether the driver returns text, bigint or number', async () => {
    const plain = { seq: 12, total: 30, n: 4, digits: '0012' };
    for (const row of [
      { ...plain, seq: '12', total: '30' },
      { ...plain, seq: 12n, total: 30n },
      plain,
    ])
      assert.deepEqual(await read({ rows: [row], fields }), [plain]);
    const none = { seq: null, total: null, n: null, digits: null };
    assert.deepEqual(await read({ rows: [none], fields }), [none]);
  });

  it('throws on a number that would lose digits', async () => {
    for (const seq of ['9007199254740993', 9007199254740993n])
      await assert.rejects(read({ rows: [{ seq }], fields }), { code: 'storage_broken' });
  });

  it('text with NUL is refused before it reaches the database', async () => {
    const { client, statements } = fakeClient({ rows: [], affectedRows: 1 });
    const db = await openPostgres(client, []);
    for (const call of ['run', 'all', 'one'] as const)
      await assert.rejects(
        db.write(async (sql) => sql[call]('UPDATE x SET a = ?', 'a\0b')),
        { code: 'bad_request' },
      );
    assert.deepEqual(statements, []);
    await db.write((sql) => sql.run('UPDATE x SET a = ?', 'a\\u0000b'));
    assert.deepEqual(statements, [['a\\u0000b']]);
  });
});
