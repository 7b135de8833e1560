// modeld's rows of admitted runs behave as the run registry expects.
import { join } from 'node:path';
import { it } from 'node:test';
import { openSqlite } from '../../../platform/sql/sqlite.ts';
import { assertRunRows } from '../../../platform/testing/run-rows.ts';
import { admission, freshStateDir } from '../testing/harness.ts';
import { runRows } from './run-rows.ts';
import { MIGRATIONS } from './tables.ts';

it('keeps the highest fence of a run, admitted or dismissed, and its live admission', async () => {
  const file = join(freshStateDir(), 'modeld.sqlite');
  const db = openSqlite({ file, migrations: MIGRATIONS });
  await assertRunRows(db, runRows, (_id, fence) => admission(1, { fence }));
  await db.close();
});
