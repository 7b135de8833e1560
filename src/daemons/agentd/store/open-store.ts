// Opens agentd's store: puts the methods of the files beside this one together over one database.
import type { Clock } from '../../../platform/clock.ts';
import type { NewId } from '../../../platform/ids.ts';
import type { Log } from '../../../platform/log.ts';
import { type AppendEvents, openOutbox } from '../../../platform/outbox.ts';
import type { Database } from '../../../platform/sql/database.ts';
import { recallOnce } from '../../../platform/sql/idempotency.ts';
import { callMethods, onceFor } from './call-methods.ts';
import { runMethods } from './run-methods.ts';
import type { AgentdStore } from './store.ts';
import { agentMethods, taskMethods } from './task-methods.ts';
import { timeMethods } from './time-methods.ts';
import { type CommittedWrite, makeWriteTx } from './tx.ts';
import { makeViews } from './views.ts';

export type StoreOptions = {
  db: Database;
  clock: Clock;
  newId: NewId;
  append: AppendEvents;
  log: Log;
  onCommitted: (committed: CommittedWrite) => void;
};

export async function openStore(options: StoreOptions): Promise<AgentdStore> {
  const { db, clock } = options;
  const outbox = await openOutbox({
    db,
    source: 'agentd',
    clock,
    append: options.append,
    log: options.log,
  });
  const write = makeWriteTx({ ...options, outbox });
  return {
    ...makeViews(db, clock),
    recall: (once) => db.read((sql) => recallOnce(sql, once)),
    recallCall: (call) => db.read((sql) => recallOnce(sql, onceFor(call))),
    ...agentMethods(write),
    ...taskMethods(write),
    ...runMethods(write),
    ...callMethods(write),
    ...timeMethods(write),
    outbox,
    async close() {
      await outbox.drain(2_000);
      outbox.stop();
      await db.close();
    },
  };
}
