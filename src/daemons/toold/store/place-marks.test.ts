// Tests which places the marks of a directory count for, and how long they stay.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, it } from 'node:test';
import { openSqlite } from '../../../platform/sql/sqlite.ts';
import { makePlaceMarks } from './place-marks.ts';
import { makeCallPruning } from './prune.ts';
import { MIGRATIONS } from './schema.ts';

describe('marks of places', () => {
  const dir = mkdtempSync(join(tmpdir(), 'place-marks-'));
  after(() => rmSync(dir, { recursive: true }));
  let opened = 0;
  const open = (file = join(dir, `${opened++}.sqlite`)) =>
    openSqlite({ file, migrations: MIGRATIONS });

  it('count for directories above and below, and for no other', async () => {
    const db = open();
    const { placeMarks, markPlaces } = makePlaceMarks(db);
    await markPlaces(['task_1', '/srv/a/b'], ['outside']);
    for (const path of ['/srv/a/b', '/srv/a/b/c/d', '/srv/a', '/srv', '/'])
      assert.deepEqual(await placeMarks(['task_2', path]), ['outside'], path);
    for (const path of ['/srv/a/b2', '/srv/a/b-c', '/srv/a/c', '/srv/ab', '/s', '/0', 'task_2'])
      assert.deepEqual(await placeMarks([path]), [], path);
    await db.close();
  });

  it('of the root directory count everywhere', async () => {
    const db = open();
    const { placeMarks, markPlaces } = makePlaceMarks(db);
    await markPlaces(['/'], ['secret']);
    assert.deepEqual(await placeMarks(['task_2', '/srv/a']), ['secret']);
    assert.deepEqual(await placeMarks(['/']), ['secret']);
    assert.deepEqual(await placeMarks(['task_2']), [], 'a tree with its own directory');
    await db.close();
  });

  it('made by a version that knew workspaces only count in the same way', async () => {
    const file = join(dir, 'old.sqlite');
    const old = openSqlite({ file, migrations: MIGRATIONS.slice(0, 7) });
    await old.write((sql) =>
      sql.run("INSERT INTO workspace_marks VALUES ('/srv/a/b', 'outside'), ('task_1', 'secret')"),
    );
    await old.close();
    const db = open(file);
    const { placeMarks } = makePlaceMarks(db);
    for (const path of ['/srv/a/b', '/srv/a/b/c', '/srv/a', '/srv', '/'])
      assert.deepEqual(await placeMarks([path]), ['outside'], path);
    for (const path of ['/srv/a/c', '/srv/ab'])
      assert.deepEqual(await placeMarks([path]), [], path);
    assert.deepEqual(await placeMarks(['task_1']), ['secret']);
    await db.close();
  });

  it('survive a restart; of a pruned tree only those of directories stay', async () => {
    const file = join(dir, 'kept.sqlite');
    const first = open(file);
    await makePlaceMarks(first).markPlaces(['task_1', '/srv/a'], ['outside']);
    await first.close();
    const db = open(file);
    const { placeMarks } = makePlaceMarks(db);
    assert.deepEqual(await placeMarks(['task_1']), ['outside']);
    const tree = { root_task_id: 'task_1', task_ids: [], run_ids: [] };
    await makeCallPruning(db).pruneCalls(tree as never, 1);
    assert.deepEqual(await placeMarks(['task_1']), []);
    assert.deepEqual(await placeMarks(['/srv/a/b']), ['outside']);
    await db.close();
  });
});
