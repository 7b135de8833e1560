// Telling agentd that a call need not wait any more, until agentd has said that it knows; and
// finding out which runs have ended, so that nobody is asked for what is not wanted any more.
import type { Clock, Timer } from '../../platform/clock.ts';
import { isFault } from '../../platform/daemon.ts';
import type { Client } from '../../platform/link.ts';
import type { Log } from '../../platform/log.ts';
import type { agentdRoutes } from '../../wire/agentd.ts';
import type { RunId } from '../../wire/words.ts';
import type { Store, Untold } from './store/store.ts';

type Agentd = Pick<Client<typeof agentdRoutes>, 'approvalEnded' | 'getRun'>;
export type Telling = {
  /** Something has ended: tell it now. */
  poke(): void;
  /** Withdraws the asks of runs that have ended. */
  reconcile(): Promise<void>;
  stop(): Promise<void>;
};

const PAUSE_MS_MIN = 100;
const PAUSE_MS_MAX = 5_000;
/** A call that never opened a wait (it died on the way) is not told for ever. */
const GIVE_UP_AFTER_MS = 600_000;

export function makeTelling(parts: {
  store: Pick<Store, 'untold' | 'markTold' | 'waitingRuns' | 'withdraw'>;
  agentd: Agentd;
  clock: Clock;
  log: Log;
}): Telling {
  const { store, agentd, clock, log } = parts;
  let running: Promise<void> | undefined;
  let again = false;
  let stopped = false;
  let pauseMs = PAUSE_MS_MIN;
  let timer: Timer | undefined;

  const tellOne = async (one: Untold): Promise<boolean> => {
    const expired = one.status === 'expired';
    const { ended } = await agentd.approvalEnded({
      params: { id: one.approval_id },
      body: {
        run_id: one.run_id,
        call_id: one.call_id,
        outcome: expired ? 'expired' : 'answered',
        decision: one.status === 'pending' ? 'canceled' : one.status,
        by: one.decided_by ?? 'service:approvald',
      },
    });
    // Not ended: the call is still on its way to open its wait.
    const late = clock.nowMs() > Number(one.expires_ms) + GIVE_UP_AFTER_MS;
    if (ended || late) await store.markTold(one.call_id);
    return ended || late;
  };

  const tellAll = async (): Promise<void> => {
    let left = 0;
    do {
      again = false;
      left = 0;
      for (const one of await store.untold()) {
        const told = await tellOne(one).catch((error: unknown) => {
          if (isFault(error, 'not_found')) return store.markTold(one.call_id).then(() => true);
          log.debug('agentd was not told of an answer; trying again', { error });
          return false;
        });
        if (!told) left++;
      }
    } while (again && !stopped);
    if (left === 0) {
      pauseMs = PAUSE_MS_MIN;
      return;
    }
    if (stopped) return;
    timer?.cancel();
    timer = clock.at(clock.nowMs() + pauseMs, poke);
    pauseMs = Math.min(pauseMs * 2, PAUSE_MS_MAX);
  };

  function poke(): void {
    again = true;
    if (stopped || running !== undefined) return;
    running = tellAll()
      .catch((error: unknown) => {
        if (!stopped) log.warn('answers could not be passed on', { error });
      })
      .finally(() => {
        running = undefined;
        // Poked after the last look at what is untold.
        if (again) poke();
      });
  }

  return {
    poke() {
      pauseMs = PAUSE_MS_MIN;
      poke();
    },
    async reconcile() {
      for (const runId of await store.waitingRuns()) {
        const isOver = await agentd.getRun({ params: { id: runId as RunId } }).then(
          ({ run }) => run.status === 'ended',
          (error: unknown) => isFault(error, 'not_found'),
        );
        if (isOver) await store.withdraw({ run_id: runId });
      }
    },
    async stop() {
      stopped = true;
      timer?.cancel();
      await running;
    },
  };
}
