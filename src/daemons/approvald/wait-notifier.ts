// Notifies agentd, until it acknowledges, that calls no longer wait for an approval, and memoryd
// that a proposal was decided; and withdraws the approval requests of runs that have ended.
import type { Clock } from '../../platform/clock.ts';
import { isFault } from '../../platform/daemon.ts';
import type { Client } from '../../platform/link.ts';
import type { Log } from '../../platform/log.ts';
import { makeWakeLoop } from '../../platform/wake-loop.ts';
import type { agentdRoutes } from '../../wire/agentd.ts';
import type { MemoryId } from '../../wire/memoryd/records.ts';
import type { memorydRoutes } from '../../wire/memoryd.ts';
import type { RunId } from '../../wire/primitives.ts';
import type { ApprovaldStore, PendingNotification } from './store/store.ts';

type Agentd = Pick<Client<typeof agentdRoutes>, 'approvalEnded' | 'getRun'>;
type WaitNotifier = {
  /** An approval was decided or has expired: notify agentd now. */
  wake(): void;
  reconcile(): Promise<void>;
  stop(): Promise<void>;
};

const BACKOFF_MS = { min: 100, max: 5_000 };
/** A call that died before it opened its wait is not retried for ever. */
const GIVE_UP_AFTER_MS = 600_000;

/** The run never existed here, or was pruned. */
const isGone = (error: unknown): boolean => isFault(error, 'not_found') || isFault(error, 'pruned');

export function makeWaitNotifier(options: {
  store: Pick<ApprovaldStore, 'listUnsent' | 'markNotified' | 'listWaitingRuns' | 'withdraw'>;
  agentd: Agentd;
  memoryd: Pick<Client<typeof memorydRoutes>, 'proposalDecided'>;
  clock: Clock;
  log: Log;
}): WaitNotifier {
  const { store, agentd, memoryd, clock, log } = options;
  let retryMs = BACKOFF_MS.min;

  /** Answered when the decision is done. */
  const notifyMemoryd = async (
    call: PendingNotification,
    memory_id: MemoryId,
  ): Promise<boolean> => {
    const { version } = JSON.parse(call.arguments) as { version: number };
    await memoryd.proposalDecided({ body: { approval_id: call.approval_id, memory_id, version } });
    await store.markNotified(call.call_id);
    return true;
  };

  const notify = async (call: PendingNotification): Promise<boolean> => {
    if (call.memory_id !== null) return notifyMemoryd(call, call.memory_id);
    const { ended } = await agentd.approvalEnded({
      params: { id: call.approval_id },
      body: {
        run_id: call.run_id,
        call_id: call.call_id,
        outcome: call.status === 'expired' ? 'expired' : 'answered',
        decision: call.status === 'pending' ? 'canceled' : call.status,
        by: call.decided_by ?? 'service:approvald',
      },
    });
    // Not ended: the call has not opened its wait yet.
    const isDone = ended || clock.nowMs() > Number(call.expires_ms) + GIVE_UP_AFTER_MS;
    if (isDone) await store.markNotified(call.call_id);
    return isDone;
  };

  const notifyAll = async (): Promise<number | undefined> => {
    const calls = await store.listUnsent();
    let remaining = 0;
    for (const call of calls) {
      const isDone = await notify(call).catch((error: unknown) => {
        if (isGone(error)) return store.markNotified(call.call_id).then(() => true);
        log.debug('notifying a daemon of a decision failed; retrying', { error });
        return false;
      });
      if (!isDone) remaining++;
    }
    if (remaining === 0) {
      retryMs = BACKOFF_MS.min;
      // The store returns a limited number at a time.
      return calls.length === 0 ? undefined : clock.nowMs();
    }
    const nextMs = clock.nowMs() + retryMs;
    retryMs = Math.min(2 * retryMs, BACKOFF_MS.max);
    return nextMs;
  };

  const loop = makeWakeLoop({
    clock,
    work: notifyAll,
    backoffMs: BACKOFF_MS,
    onError: (error) => log.warn('notifying daemons of decisions failed; retrying', { error }),
  });

  return {
    wake() {
      retryMs = BACKOFF_MS.min;
      loop.wake();
    },
    async reconcile() {
      for (const runId of await store.listWaitingRuns()) {
        const hasEnded = await agentd
          .getRun({ params: { id: runId as RunId } })
          .then(({ run }) => run.status === 'ended', isGone);
        if (hasEnded) await store.withdraw({ run_id: runId });
      }
    },
    stop: loop.stop,
  };
}
