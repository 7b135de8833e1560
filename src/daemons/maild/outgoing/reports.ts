// Reports what became of mail to others: to agentd, whose call waits for it, until it acknowledges;
// and as a mail to the person whose task it was, when it has failed.
import { isTransient } from '../../../platform/backoff.ts';
import type { Clock } from '../../../platform/clock.ts';
import { isFault } from '../../../platform/daemon.ts';
import type { Client } from '../../../platform/link.ts';
import type { Log } from '../../../platform/log.ts';
import { makeWakeLoop } from '../../../platform/wake-loop.ts';
import type { agentdRoutes } from '../../../wire/agentd.ts';
import type { ExternalMailOutcome } from '../../../wire/maild/external.ts';
import type { MaildConfig } from '../config.ts';
import type { Delivery } from '../delivery.ts';
import type { FindTaskOwner } from '../notices.ts';
import {
  type OutgoingRecipient,
  type OutgoingRow,
  type OutgoingStore,
  readRecipients,
} from '../store/outgoing.ts';
import { toWaitId } from './outgoing.ts';

export type MailReports = { wake(): void; stop(): Promise<void> };

const BATCH_MAX = 32;
const RETRY_MS = { min: 100, max: 5_000 };
const BACKOFF_MS = { min: 200, max: 5_000 };
/** A call that died before it opened its wait is not retried for ever. */
const REPORTED_FOR_MS = 86_400_000;

export function makeMailReports(deps: {
  store: Pick<OutgoingStore, 'listUnreported' | 'markReported'>;
  agentd: Pick<Client<typeof agentdRoutes>, 'mailEnded'>;
  findTaskOwner: FindTaskOwner;
  delivery: Pick<Delivery, 'deliver'>;
  config: Pick<MaildConfig, 'postmaster' | 'domain'>;
  clock: Clock;
  log: Log;
}): MailReports {
  const { store, agentd, clock, log } = deps;
  let retryMs = RETRY_MS.min;

  const notifyOwner = async (row: OutgoingRow): Promise<void> => {
    const { box, contextId } = await deps.findTaskOwner(row.root_task_id);
    await deps.delivery.deliver([
      {
        id: `${toWaitId(row)}.not-sent`,
        box: box ?? deps.config.postmaster,
        kind: 'not-sent',
        from: { name: 'agentd', address: `postmaster@${deps.config.domain}` },
        title: `mail of ${row.agent} was not accepted`,
        text: describeFailure(row),
        contextId: contextId ?? null,
        taskId: row.task_id,
        atMs: Number(row.ended_ms),
        isAutomatic: true,
        by: 'service:maild',
      },
    ]);
  };

  /** Resolves to false while the call has not opened its wait. */
  const report = async (row: OutgoingRow): Promise<boolean> => {
    if (row.status === 'failed' || row.status === 'partly') await notifyOwner(row);
    const { run_id, call_id } = row;
    const outcome = toOutcome(row);
    const params = { id: toWaitId(row) };
    const { ended } = await agentd
      .mailEnded({ params, body: { run_id, call_id, outcome } })
      .catch((error: unknown) => {
        if (isFault(error, 'not_found') || isFault(error, 'pruned')) return { ended: true };
        throw error;
      });
    const isDone = ended || clock.nowMs() > Number(row.ends_ms) + REPORTED_FOR_MS;
    if (isDone) await store.markReported(row);
    return isDone;
  };

  const loop = makeWakeLoop({
    clock,
    async work() {
      let left = 0;
      for (const row of await store.listUnreported(BATCH_MAX))
        if (!(await report(row).catch((error: unknown) => logFailure(row, error)))) left++;
      if (left === 0) {
        retryMs = RETRY_MS.min;
        return undefined;
      }
      const nextMs = clock.nowMs() + retryMs;
      retryMs = Math.min(2 * retryMs, RETRY_MS.max);
      return nextMs;
    },
    backoffMs: BACKOFF_MS,
    onError: (error) => log.warn('reporting what became of mail failed; retrying', { error }),
  });

  const logFailure = (row: OutgoingRow, error: unknown): boolean => {
    if (!isTransient(error))
      log.warn('reporting what became of a mail failed; retrying', { mail: row.id, error });
    return false;
  };

  return {
    wake() {
      retryMs = RETRY_MS.min;
      loop.wake();
    },
    stop: loop.stop,
  };
}

const toOutcome = (row: OutgoingRow): ExternalMailOutcome => ({
  status: row.status as ExternalMailOutcome['status'],
  message_id: row.message_id,
  attempts: Number(row.attempts),
  recipients: readRecipients(row).map(({ address, status, code, enhanced }) => ({
    address,
    accepted: status === 'accepted',
    code,
    enhanced,
  })),
});

function describeFailure(row: OutgoingRow): string {
  const lines = readRecipients(row).map((one) => `${one.address}: ${describeRecipient(one)}`);
  return [
    `${row.agent} sent a mail, which was not accepted for all of its recipients.`,
    '',
    ...lines,
    '',
    `Attempts: ${row.attempts}. Message-ID: <${row.message_id}>`,
    `See: agentctl task show ${row.task_id}`,
    '',
  ].join('\n');
}

/** The words of the smarthost are those of others, and shown as such. */
function describeRecipient({ status, said }: OutgoingRecipient): string {
  if (status === 'accepted') return 'accepted by the smarthost';
  const what = status === 'refused' ? 'refused' : 'not accepted in time';
  return said === null ? what : `${what}; last reply: "${said}"`;
}
