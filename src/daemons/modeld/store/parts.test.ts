// Tests that parts are stored once each, also after a restart.
import assert from 'node:assert/strict';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { sha256Hex } from '../../../platform/json.ts';
import { openSqlite } from '../../../platform/sql/sqlite.ts';
import { freshStateDir } from '../testing/harness.ts';
import { type ContextPart, forgetBody, readPart, writePart } from './parts.ts';
import { MIGRATIONS } from './tables.ts';

const dir = freshStateDir();
after(() => rmSync(dir, { recursive: true, force: true }));
let made = 0;

function part(name: string, labels = 0): ContextPart {
  return { hash: sha256Hex(name), body: JSON.stringify(name), labels, source: 's' };
}

function openParts(file = join(dir, `${made++}.sqlite`)) {
  const db = openSqlite({ file, migrations: MIGRATIONS });
  return {
    file,
    db,
    write: (...parts: ContextPart[]) =>
      db.writeNow((sql) => {
        for (const part of parts) writePart(sql, part, 1);
      }),
    read: (name: string) => db.read((sql) => readPart(sql, sha256Hex(name))),
    count: async (table: string) =>
      (await db.read((sql) => sql.one<{ n: number }>(`SELECT COUNT(*) AS n FROM ${table}`)))!.n,
  };
}

describe('parts', () => {
  test('each is stored once and found, also after a restart', async () => {
    const { write, read, db, file } = openParts();
    const names = Array.from({ length: 250 }, (_, i) => `part ${i}`);
    await write(...names.map((name) => part(name)));
    for (const name of names) assert.equal((await read(name))?.body, JSON.stringify(name));
    assert.equal(await read('another'), undefined);
    await db.close();
    const again = openParts(file);
    await again.write(...names.map((name) => part(name, 2)), part('new'));
    assert.equal(await again.count('parts'), names.length + 1);
    for (const name of names) assert.equal((await again.read(name))?.labels, 2);
    await again.db.close();
  });

  test('labels accumulate, and a forgotten body stays forgotten', async () => {
    const { write, read, db, file } = openParts();
    await write(part('a', 1), part('a', 4));
    await write(part('a', 2));
    assert.equal((await read('a'))?.labels, 7);
    const forget = () => db.write((sql) => forgetBody(sql, sha256Hex('a')));
    assert.deepEqual([await forget(), await forget()], [true, false]);
    await write(part('a', 8));
    await db.close();
    const again = openParts(file);
    await again.write(part('a', 16));
    assert.deepEqual(
      { body: (await again.read('a'))?.body, labels: (await again.read('a'))?.labels },
      { body: null, labels: 31 },
    );
    assert.equal(await again.count('parts'), 1);
    await again.db.close();
  });
});
