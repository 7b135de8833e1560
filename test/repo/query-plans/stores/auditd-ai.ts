// Runs every statement of the audit log's index.
import { dirname, join } from 'node:path';
import { openLog } from '../../../../src/daemons/auditd-ai/log/log.ts';
import { openIndex, type TailFilter } from '../../../../src/daemons/auditd-ai/store/store.ts';
import { MIGRATIONS, writeTail } from '../../../../src/daemons/auditd-ai/store/tables.ts';
import { Tail } from '../../../../src/daemons/auditd-ai/store/tail.ts';
import { systemClock } from '../../../../src/platform/clock.ts';
import { silentLog } from '../../../../src/platform/log.ts';
import { openSqlite } from '../../../../src/platform/sql/sqlite.ts';
import type { NewEvent } from '../../../../src/wire/events.ts';
import { HISTORY, listChoices, type StoreUse } from '../record.ts';

const COLUMNS = ['task_id', 'root_task_id', 'agent', 'tool', 'event', 'run_id'] as const;

const eventOf = (n: number): NewEvent => ({
  id: `e${n}`,
  ts: '2026-01-01T00:00:00Z',
  event: 'tool.call.ended',
  source: 'toold',
  source_store: 's',
  source_seq: n + 1,
  agent: 'worker',
  tool: 'test.echo',
  task_id: `task_${n}`,
  root_task_id: `task_${n}`,
  run_id: `run_${n}`,
});

async function use(file: string): Promise<void> {
  const log = await openLog({
    dir: join(dirname(file), 'audit'),
    clock: systemClock(),
    origin: 'test/audit',
    segmentBytesMax: 1 << 20,
    checkpointEveryMs: 1_000,
  });
  const events = Array.from({ length: HISTORY }, (_, n) => eventOf(n));
  await log.append(events.map((event) => JSON.stringify(event)));
  const index = await openIndex({ file, log, logger: silentLog });
  // Tails are written when they are full; here each has one event.
  const db = openSqlite({ file, migrations: MIGRATIONS });
  for (const [n, event] of events.entries()) {
    const tail = new Tail(n);
    tail.add(event);
    const root = log.rootAt(n + 1).toString('hex');
    await db.write((sql) => writeTail(sql, tail, { size: n + 1, root }));
  }
  await db.close();
  await index.close();
  const again = await openIndex({ file, log, logger: silentLog });
  for (const chosen of listChoices(Object.fromEntries(COLUMNS.map((column) => [column, 'x']))))
    for (const order of ['asc', 'desc'] as const) {
      const where = Object.entries(chosen).map(
        ([column, value]) => ({ column, value }) as TailFilter,
      );
      await again.find({ where, order, limit: 10 });
    }
  await again.findId('e1');
  await again.readHighWaterMarks();
  await again.close();
  await log.close();
}

export const auditdAi: StoreUse = {
  daemon: 'auditd-ai',
  smallTables: {
    sources: 'one row for each store of a daemon',
    progress: 'one row',
  },
  use,
};
