// Ids are found by their beginning, a few at a time, and only of the kinds that a daemon declares.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import type { Caller } from '../wire/caller.ts';
import { findIds, type IdSource } from './find-ids.ts';
import { openSqlite } from './sql/sqlite.ts';

const dir = mkdtempSync(join(tmpdir(), 'find-ids-'));
const db = openSqlite({
  file: join(dir, 'ids.sqlite'),
  migrations: [
    'CREATE TABLE things (id TEXT NOT NULL, secret TEXT); CREATE INDEX i ON things (id);',
  ],
});
after(async () => {
  await db.close();
  rmSync(dir, { recursive: true });
});
const source = { db, columns: { thing: ['things', 'id'] } } as const;
const id = (start: string) => `thing_${start.padEnd(26, '0')}`;
const caller: Caller = { kind: 'operator', principal: 'person:alice' };
const find = (prefix: string, isFindable?: IdSource['isFindable']) =>
  findIds(isFindable === undefined ? source : { ...source, isFindable }, prefix, caller);

test('ids are found by their beginning, in order and once each', async () => {
  const starts = ['zzzz', 'ab01', 'ab02', 'ab02', 'b'];
  await db.write(async (sql) => {
    for (const start of starts) await sql.run('INSERT INTO things (id) VALUES (?)', id(start));
  });
  assert.deepEqual(await find('thing_ab'), [id('ab01'), id('ab02')]);
  assert.deepEqual(await find('thing_ab02'), [id('ab02')]);
  assert.deepEqual(await find('thing_zzzz'), [id('zzzz')]);
  assert.deepEqual(await find('thing_c'), []);
  const letters = '0123456789abc';
  await db.write(async (sql) => {
    for (const letter of letters)
      await sql.run('INSERT INTO things (id) VALUES (?)', id(`many${letter}`));
  });
  assert.equal((await find('thing_many')).length, 10);
});

test('other kinds have none, whatever their name', async () => {
  for (const prefix of ['task_ab', 'constructor_ab', 'thin_ab'])
    assert.deepEqual(await find(prefix), []);
  assert.deepEqual(await findIds(undefined, 'thing_ab', caller), []);
});
