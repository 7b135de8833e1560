// Notifies approvald that calls of an ended run no longer wait for approval. Sent once, without
// retry: approvald also polls the runs that its open approvals belong to.
import type { Client } from '../../platform/link.ts';
import type { Log } from '../../platform/log.ts';
import type { approvaldRoutes } from '../../wire/approvald.ts';
import type { EventDraft } from '../../wire/events.ts';
import type { CallId, RunId } from '../../wire/primitives.ts';

type Approvald = Pick<Client<typeof approvaldRoutes>, 'withdrawApprovals'>;

export function withdrawApprovals(
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
      log.debug('notifying approvald that a run ended failed', { run_id, error });
    });
  }
}
