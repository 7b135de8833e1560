// toold's rows of admitted runs behave as the run registry expects.
import { join } from 'node:path';
import { it } from 'node:test';
import { openSqlite } from '../../../platform/sql/sqlite.ts';
import { assertRunRows } from '../../../platform/testing/run-rows.ts';
import { admission, makeWorld } from '../testing/host.ts';
import { makeRunRows } from './run-rows.ts';
import { MIGRATIONS } from './schema.ts';

it('keeps the highest fence of a run, admitted or dismissed, and its live admission', async () => {
  const world = makeWorld();
  const db = openSqlite({ file: join(world.dir, 'rows.sqlite'), migrations: MIGRATIONS });
  const rows = makeRunRows(() => 1);
  await assertRunRows(db, rows, (id, fence) => admission(id, { fence }));
  await db.close();
  world.remove();
});
