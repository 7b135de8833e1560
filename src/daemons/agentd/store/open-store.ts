// Opens agentd's store: combines the methods of the other files over one database.
import type { Clock } from '../../../platform/clock.ts';
import type { NewId } from '../../../platform/ids.ts';
import type { Log } from '../../../platform/log.ts';
import { type AppendEvents, openOutbox } from '../../../platform/outbox.ts';
import type { Database } from '../../../platform/sql/database.ts';
import { findRecorded } from '../../../platform/sql/idempotency.ts';
import { makeArtifactPruneMethods } from './artifact-pruning.ts';
import { callKey, makeCallMethods } from './call-methods.ts';
import { makeEpisodeMethods } from './episodes.ts';
import { makeErasureMethods } from './erasures.ts';
import { makeKeepMethods } from './kept-trees.ts';
import { makeLayerActionMethods } from './layer-actions.ts';
import { makeNoticeMethods } from './notices.ts';
import { makeProgramMethods } from './program-methods.ts';
import { makePruneMethods } from './prune-methods.ts';
import { makePrunePartMethods } from './prune-part.ts';
import { makeRunMethods } from './run-methods.ts';
import { makeSharedArtifactMethods } from './shared-artifacts.ts';
import type { AgentdStore } from './store.ts';
import { makeAgentMethods, makeTaskMethods } from './task-methods.ts';
import { makeTimeMethods } from './time-methods.ts';
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
    findRecorded: (once) => db.read((sql) => findRecorded(sql, once)),
    findRecordedCall: (call) => db.read((sql) => findRecorded(sql, callKey(call))),
    ...makeAgentMethods(write),
    ...makeTaskMethods(write),
    ...makeRunMethods(write),
    ...makeProgramMethods(write),
    ...makeCallMethods(write),
    ...makeTimeMethods(write),
    ...makeKeepMethods(write),
    ...makeEpisodeMethods(db, write),
    ...makeNoticeMethods(db, write),
    ...makeErasureMethods(db, write),
    ...makeLayerActionMethods(db, write),
    ...makePruneMethods(db, write),
    ...makePrunePartMethods(db, write),
    ...makeArtifactPruneMethods(db, write),
    ...makeSharedArtifactMethods(db, write),
    outbox,
    async close() {
      await outbox.drain(2_000);
      outbox.stop();
      await db.close();
    },
  };
}
