// Telling approvald that a call does not wait for people any more, because its run has ended. Told
// once: what does not arrive, approvald finds out when it looks at the runs that wait.
import type { Client } from '../../platform/link.ts';
import type { Log } from '../../platform/log.ts';
import type { approvaldRoutes } from '../../wire/approvald.ts';
import type { EventDraft } from '../../wire/events.ts';
import type { CallId, RunId } from '../../wire/primitives.ts';

type Approvald = Pick<Client<typeof approvaldRoutes>, 'withdrawApprovals'>;

export function withdrawCanceled(
  approvald: Approvald,
  events: readonly EventDraft[],
  log: Log,
): void {
  for (const { event, status, data, run_id, call_id } of events) {
    if (event !== 'wait.ended' || status !== 'canceled' || data?.kind !== 'approval') continue;
    const body = {
      run_id: run_id as RunId,
      call_id: call_id as CallId,
      reason: 'the run has ended',
    };
    approvald.withdrawApprovals({ body }).catch((error: unknown) => {
      log.debug('approvald was not told that a run has ended', { run_id, error });
    });
  }
}
