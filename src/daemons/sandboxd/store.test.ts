// sandboxd's store deletes the records of old boxes in small steps.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { manualClock } from '../../platform/clock.ts';
import { makeIdMaker } from '../../platform/ids.ts';
import { silentLog } from '../../platform/log.ts';
import { openOutbox } from '../../platform/outbox.ts';
import { openSqlite } from '../../platform/sql/sqlite.ts';
import type { BoxId, RunId, TaskId } from '../../wire/primitives.ts';
import { KEEP_BOXES_MS, MIGRATIONS, makeStore } from './store.ts';

test('a new box deletes two boxes that were closed long ago, and no other', async (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'sandboxd-store-'));
  t.after(() => rmSync(dir, { recursive: true, force: true }));
  const clock = manualClock(1_800_000_000_000);
  const newId = makeIdMaker(clock);
  const db = openSqlite({ file: join(dir, 'x.sqlite'), migrations: MIGRATIONS });
  const options = { db, source: 'sandboxd', clock, append: async () => {}, log: silentLog };
  const outbox = await openOutbox(options);
  const store = makeStore(db, outbox, () => clock.nowMs());
  const open = async (): Promise<BoxId> => {
    const id = newId<BoxId>('box');
    const ids = { run_id: newId<RunId>('run'), task_id: newId<TaskId>('task') };
    const kinds = { kind: 'tools', level: 'L2' } as const;
    const box = { ...ids, ...kinds, id, root_task_id: ids.task_id, fence: 1, agent: 'a', uid: 1 };
    await store.recordOpened(box);
    return id;
  };
  const list = async () => (await store.list({ before: 1e9, limit: 100 })).map(({ id }) => id);
  const old = [await open(), await open(), await open()];
  const stillOpen = await open();
  for (const id of old) await store.recordClosed(id, { endedBy: 'exit' });
  clock.advance(KEEP_BOXES_MS);
  const first = await open();
  assert.equal((await list()).length, 5, 'they are not old enough');
  clock.advance(1);
  const second = await open();
  assert.deepEqual(await list(), [second, first, stillOpen, old[2]]);
  const third = await open();
  assert.deepEqual(await list(), [third, second, first, stillOpen]);
  outbox.stop();
  await db.close();
});
