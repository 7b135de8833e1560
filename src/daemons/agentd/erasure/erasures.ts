// Has every daemon remove the copies of forgotten memories. The order is durable before memoryd is
// answered, and its texts are kept until each daemon has looked through all it has and found
// nothing more; after a crash, or while a daemon is away, it begins again.
import type { Clock } from '../../../platform/clock.ts';
import { makeEraseRecords } from '../../../platform/copies/erase-records.ts';
import { makeRedactor } from '../../../platform/copies/redact.ts';
import { makeSeal } from '../../../platform/copies/seal.ts';
import type { Handlers } from '../../../platform/dispatch.ts';
import type { Log } from '../../../platform/log.ts';
import type { SqliteDatabase } from '../../../platform/sql/sqlite.ts';
import { makeWakeLoop } from '../../../platform/wake-loop.ts';
import type {
  EraseCopies,
  ErasedCopies,
  erasureRoutes,
  ForgottenMemory,
} from '../../../wire/copies.ts';
import { FORGOTTEN_MEMORIES_MAX } from '../../../wire/copies.ts';
import { COPY_PLACES, type CopyCounts, type OpenErasure } from '../store/erasures.ts';
import type { AgentdStore, RunKey } from '../store/store.ts';
import { type EraseArtifactsDeps, eraseArtifacts } from './erase-artifacts.ts';

type ErasePeer = {
  eraseCopies(
    request: { body: EraseCopies },
    options: { deadlineMs: number },
  ): Promise<ErasedCopies>;
};

export type Erasures = {
  handlers: Handlers<typeof erasureRoutes>;
  begin(): void;
  stop(): Promise<void>;
};

const BACKOFF_MS = { min: 200, max: 30_000 };
/** The last step of a daemon may write its database anew. */
const PEER_OPTIONS = { deadlineMs: 300_000 } as const;
/** A pass finds what a process wrote this long before it. */
const SETTLE_MS = 500;
const STOP_REASON = 'a memory that it knew was forgotten';

type Pass = { counts: CopyCounts; runIds: string[] };

export function makeErasures(deps: {
  store: AgentdStore;
  database: SqliteDatabase;
  blobs: EraseArtifactsDeps['blobs'];
  /** Every other daemon that may have a copy. */
  peers: Readonly<Record<string, ErasePeer>>;
  /** Resolves when the process is gone. */
  stopRun(run: RunKey, reason: string): Promise<void>;
  clock: Clock;
  log: Log;
  failpoint(name: string): void;
}): Erasures {
  const { store, database, peers, stopRun, clock, log, failpoint } = deps;
  const seal = makeSeal({ db: database, log });
  // Its own database is sealed when it no longer has the order.
  const own: ErasePeer = {
    eraseCopies: ({ body }) => eraseOwn(body),
  };
  const eraseOwn = makeEraseRecords({ db: database, places: COPY_PLACES, seal: async () => {} });

  const eraseAt = async (peer: ErasePeer, forgotten: ForgottenMemory[]): Promise<ErasedCopies> => {
    const total: ErasedCopies = { cursor: null, found: 0, run_ids: [] };
    for (let cursor: string | undefined; ; ) {
      const body = { forgotten, ...(cursor === undefined ? {} : { cursor }) };
      const step = await peer.eraseCopies({ body }, PEER_OPTIONS);
      total.found += step.found;
      total.run_ids.push(...step.run_ids);
      if (step.cursor === null) return total;
      cursor = step.cursor;
    }
  };

  /** Looks through everything once. */
  const pass = async (forgotten: ForgottenMemory[]): Promise<Pass> => {
    const counts: CopyCounts = {};
    const runIds = new Set<string>();
    const artifacts = await eraseArtifacts(deps, makeRedactor(forgotten));
    for (const [name, peer] of Object.entries({ agentd: own, ...peers })) {
      failpoint('agentd.before-erase-copies');
      const { found, run_ids } = await eraseAt(peer, forgotten);
      const all = found + (name === 'agentd' ? artifacts : 0);
      if (all > 0) counts[name] = all;
      for (const id of run_ids) runIds.add(id);
    }
    return { counts, runIds: [...runIds] };
  };

  const eraseAll = async (open: readonly OpenErasure[]): Promise<void> => {
    const forgotten = toForgotten(open);
    if (forgotten.length === 0) return;
    const ids = forgotten.map(({ memory_id }) => memory_id);
    for (;;) {
      const { counts, runIds } = await pass(forgotten);
      if (Object.keys(counts).length === 0) break;
      await store.addCopies(ids, counts);
      const requeued = await store.requeueForgotten(runIds);
      await Promise.all(requeued.map((run) => stopRun(run, STOP_REASON)));
      if (requeued.length > 0) await new Promise((resolve) => setTimeout(resolve, SETTLE_MS));
    }
    failpoint('agentd.after-erase-copies');
    await store.dropForgottenTexts(ids);
  };

  const loop = makeWakeLoop({
    clock,
    async work() {
      const open = await store.openErasures(FORGOTTEN_MEMORIES_MAX);
      if (open.length === 0) return undefined;
      await eraseAll(open);
      await seal(makeRedactor(toForgotten(open)));
      failpoint('agentd.before-end-erasures');
      await store.endErasures(open.map(({ memoryId }) => memoryId));
      return clock.nowMs();
    },
    backoffMs: BACKOFF_MS,
    onError: (error) =>
      log.warn('removing the copies of a forgotten memory failed; retrying', { error }),
  });

  return {
    handlers: {
      async startErasure({ body }) {
        await store.orderErasures(body.forgotten);
        loop.wake();
        return { accepted: body.forgotten.length };
      },
      getErasure: async ({ params }) => ({
        erasure: (await store.findErasure(params.id)) ?? null,
      }),
    },
    begin: () => loop.wake(),
    stop: () => loop.stop(),
  };
}

const toForgotten = (open: readonly OpenErasure[]): ForgottenMemory[] =>
  open.flatMap(({ memoryId, texts }) =>
    texts === null ? [] : [{ memory_id: memoryId, texts } as ForgottenMemory],
  );
