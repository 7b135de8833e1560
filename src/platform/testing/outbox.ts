// Test helper for the outbox: one on its own database, and an audit log that can be down.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after } from 'node:test';
import { fault } from '../../wire/errors.ts';
import { NewEvent } from '../../wire/events.ts';
import { manualClock } from '../clock.ts';
import { silentLog } from '../log.ts';
import { OUTBOX_TABLES, type Outbox, openOutbox } from '../outbox.ts';
import type { Database } from '../sql/database.ts';
import { openSqlite } from '../sql/sqlite.ts';

const dir = mkdtempSync(join(tmpdir(), 'agentd-x-'));
after(() => rmSync(dir, { recursive: true, force: true }));
let made = 0;
export const newFile = (): string => join(dir, `${made++}.sqlite`);

export type Bench = {
  db: Database;
  outbox: Outbox;
  /** Events that the audit log received, in order, repeats included. */
  taken: NewEvent[];
  /** While set, the audit log rejects events. */
  down: { is: boolean };
  add(name: string, fails?: boolean): Promise<number>;
  close(): Promise<void>;
};

export async function openBench(file = newFile(), down = { is: false }): Promise<Bench> {
  const db = openSqlite({ file, migrations: [OUTBOX_TABLES] });
  const taken: NewEvent[] = [];
  const outbox = await openOutbox({
    db,
    source: 'toold',
    clock: manualClock(1_800_000_000_000),
    log: silentLog,
    async append(events) {
      await new Promise((resolve) => setImmediate(resolve));
      if (down.is) throw fault('unavailable', 'the log is away');
      taken.push(...events.map((event) => NewEvent.parse(event)));
    },
  });
  return {
    db,
    outbox,
    taken,
    down,
    add: (name, fails = false) =>
      db.write(async (sql) => {
        const seq = await outbox.add(sql, { id: name, event: 'task.created' });
        if (fails) throw new Error('on purpose');
        return seq;
      }),
    async close() {
      outbox.stop();
      await db.close();
    },
  };
}

export const listIds = (events: NewEvent[]) => events.map((event) => event.id);
