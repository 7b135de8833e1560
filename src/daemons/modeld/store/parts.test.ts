// Parts are stored once, whether they are in the tree of hashes yet or not, also after a start.
import assert from 'node:assert/strict';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { sha256Hex } from '../../../platform/json.ts';
import { openSqlite } from '../../../platform/sql/sqlite.ts';
import { freshStateDir } from '../testing/harness.ts';
import { type ContextPart, forgetBody, PartWriter, readPart } from './parts.ts';
import { MIGRATIONS } from './tables.ts';

const dir = freshStateDir();
after(() => rmSync(dir, { recursive: true, force: true }));
let made = 0;

function part(name: string, labels = 0): ContextPart {
  return { hash: sha256Hex(name), body: JSON.stringify(name), labels, source: 's' };
}

function openParts(file = join(dir, `${made++}.sqlite`)) {
  const db = openSqlite({ file, migrations: MIGRATIONS });
  const writer = new PartWriter();
  return {
    file,
    db,
    write: (...parts: ContextPart[]) => db.writeNow((sql) => writer.writeAll(sql, parts, 1)),
    read: (name: string) => db.read((sql) => readPart(sql, sha256Hex(name))),
    count: async (table: string) =>
      (await db.read((sql) => sql.one<{ n: number }>(`SELECT COUNT(*) AS n FROM ${table}`)))!.n,
  };
}

describe('parts', () => {
  test('each is stored once and found, loose or in the tree', async () => {
    const { write, read, count, db, file } = openParts();
    const names = Array.from({ length: 2_500 }, (_, i) => `part ${i}`);
    for (let i = 0; i < names.length; i += 100)
      await write(...names.slice(i, i + 100).map((name) => part(name)));
    const inTree = await count('part_keys');
    assert.ok(inTree > 0 && inTree < names.length, 'some are in the tree and some are not');
    for (const name of names) assert.equal((await read(name))?.body, JSON.stringify(name));
    assert.equal(await read('another'), undefined);
    await db.close();
    const again = openParts(file);
    // None of them is in this writer's memory.
    for (let i = 0; i < names.length; i += 500)
      await again.write(...names.slice(i, i + 500).map((name) => part(name, 2)), part(`new ${i}`));
    assert.equal(await again.count('parts'), names.length + 5);
    for (const name of names) assert.equal((await again.read(name))?.labels, 2);
    await again.db.close();
  });

  test('labels add up, and what was forgotten stays so', async () => {
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

  test('what was rolled back is not taken for stored', async () => {
    const { db, read } = openParts();
    const writer = new PartWriter();
    const failed = db.writeNow((sql) => {
      writer.writeAll(sql, [part('x')], 1);
      throw new Error('on purpose');
    });
    await assert.rejects(failed, /on purpose/);
    await db.writeNow((sql) => writer.writeAll(sql, [part('x')], 1));
    assert.equal((await read('x'))?.body, '"x"');
    await db.close();
  });
});
