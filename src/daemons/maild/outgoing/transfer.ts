// Gives mail to the smarthost in the background: an attempt is in the log before it begins, and
// what may have been sent is never sent again without a person's word.
import { isTransient } from '../../../platform/backoff.ts';
import type { Clock } from '../../../platform/clock.ts';
import { isFault } from '../../../platform/daemon.ts';
import { sha256Hex } from '../../../platform/json.ts';
import type { Client } from '../../../platform/link.ts';
import type { Log } from '../../../platform/log.ts';
import type { Outbox } from '../../../platform/outbox.ts';
import { makeWakeLoop } from '../../../platform/wake-loop.ts';
import type { agentdRoutes } from '../../../wire/agentd.ts';
import { fault } from '../../../wire/errors.ts';
import type { ExternalMail } from '../../../wire/maild/external.ts';
import type { MaildConfig } from '../config.ts';
import { writeExternalLetter } from '../rules/external-letter.ts';
import {
  type OutgoingEnd,
  type OutgoingRecipient,
  type OutgoingRow,
  type OutgoingStore,
  readRecipients,
} from '../store/outgoing.ts';
import { type DkimSigner, signMail } from './dkim.ts';
import { describeSmarthost, senderOf } from './outgoing.ts';
import type { HandedOver, HandToSmarthost, SmarthostReply } from './smarthost.ts';

export type Transfer = { wake(): void; stop(): Promise<void> };

export type TransferDeps = {
  store: OutgoingStore;
  config: Pick<MaildConfig, 'smarthost' | 'domain'>;
  hand: HandToSmarthost;
  signer: DkimSigner | undefined;
  agentd: Pick<Client<typeof agentdRoutes>, 'getTask'>;
  outbox: Pick<Outbox, 'delivered'>;
  isHalted(): boolean;
  onEnded(): void;
  clock: Clock;
  log: Log;
  failpoint(name: string): void;
};

const BATCH_MAX = 4;
const HALT_POLL_MS = 1_000;
const OUTAGE_RETRY_MS = 2_000;
const RETRY_MS_MAX = 3_600_000;
const BACKOFF_MS = { min: 200, max: 5_000 };
/** A mail that is being given has this long to get its reply when maild stops. */
const STOP_MS = 10_000;

type TaskState = 'live' | 'completed' | 'gone';

export function makeTransfer(deps: TransferDeps): Transfer {
  const { store, config, hand, clock, log, failpoint } = deps;
  const stopping = new AbortController();

  /** Mail of a task that was canceled or has failed is not wanted any more. */
  const findTask = async ({ task_id }: OutgoingRow): Promise<TaskState> => {
    try {
      const { task } = await deps.agentd.getTask({ params: { id: task_id } });
      if (task.ended_at === null) return 'live';
      return task.status === 'completed' ? 'completed' : 'gone';
    } catch (error) {
      if (isFault(error, 'not_found') || isFault(error, 'pruned')) return 'gone';
      throw error;
    }
  };

  const attempt = async (row: OutgoingRow): Promise<HandedOver> => {
    const smarthost = config.smarthost!;
    const mail = JSON.parse(row.content) as ExternalMail;
    const from = senderOf(row.agent, config);
    const due = readRecipients(row).filter(({ status }) => status === 'due');
    const facts = { from, messageId: row.message_id, atMs: Number(row.taken_ms) };
    const letter = writeExternalLetter(mail, facts);
    await deps.outbox.delivered(await store.beginAttempt(row, describeSmarthost(smarthost)));
    failpoint('maild.before-smarthost');
    return hand(
      {
        from: from.address,
        to: due.map(({ address }) => address),
        letter: deps.signer === undefined ? letter : signMail(letter, deps.signer, clock.nowMs()),
        async beforeData() {
          if (deps.isHalted()) throw fault('halted', 'the runtime was halted');
          await store.markHanding(row);
          failpoint('maild.after-handing');
        },
      },
      stopping.signal,
    );
  };

  const nextMs = ({ attempts }: OutgoingRow): number => {
    const firstMs = config.smarthost!.retry_s * 1000;
    return clock.nowMs() + Math.min(firstMs * 2 ** Math.min(attempts - 1, 20), RETRY_MS_MAX);
  };

  const end = async (row: OutgoingRow, ending: OutgoingEnd): Promise<void> => {
    await store.end(row, ending);
    deps.onEnded();
  };

  /** Ends it when nothing is left to do, or when the time for it is over. */
  const settle = async (
    row: OutgoingRow,
    recipients: readonly OutgoingRecipient[],
    reason: string,
  ): Promise<void> => {
    const isLeft = recipients.some(({ status }) => status === 'due');
    const retryMs = nextMs(row);
    if (isLeft && retryMs <= Number(row.ends_ms))
      return store.defer(row, { recipients, nextMs: retryMs, reason });
    await end(row, endOf(recipients));
  };

  const give = async (row: OutgoingRow): Promise<void> => {
    if ((await findTask(row)) === 'gone')
      return end(row, { status: 'withdrawn', recipients: readRecipients(row) });
    // A forgotten text was removed from it: it is no longer what a person approved.
    if (sha256Hex(row.content) !== row.content_hash)
      return end(row, { status: 'withdrawn', recipients: readRecipients(row) });
    const handed = await attempt(row);
    failpoint('maild.after-smarthost');
    const recipients = readRecipients(row);
    if (handed.kind === 'unknown') {
      log.warn('the smarthost did not say whether it took a mail', {
        mail: row.id,
        problem: handed.problem,
      });
      return end(row, { status: 'unknown', recipients });
    }
    if (handed.kind === 'not-sent') {
      log.warn('a mail could not be given to the smarthost; retrying', {
        mail: row.id,
        problem: handed.problem,
      });
      const said = recipients.map((one) =>
        one.status === 'due' ? { ...one, said: handed.problem } : one,
      );
      return settle(row, said, 'not-sent');
    }
    await settle(row, applyReplies(recipients, handed.replies), 'replied');
  };

  /** Something of this runtime was away: that is no attempt. */
  const postpone = async (row: OutgoingRow, error: unknown): Promise<void> => {
    if (!isTransient(error)) log.error('sending a mail failed', { mail: row.id, error });
    await store.postpone(row, clock.nowMs() + OUTAGE_RETRY_MS);
  };

  const loop = makeWakeLoop({
    clock,
    async work() {
      const nextDueMs = await store.findNextMs();
      if (nextDueMs === undefined || nextDueMs > clock.nowMs()) return nextDueMs;
      if (deps.isHalted()) return clock.nowMs() + HALT_POLL_MS;
      const due = await store.listDue(BATCH_MAX);
      await Promise.all(
        due.map((row) => give(row).catch((error: unknown) => postpone(row, error))),
      );
      return store.findNextMs();
    },
    backoffMs: BACKOFF_MS,
    onError: (error) => log.warn('sending mail failed; retrying', { error }),
  });

  return {
    wake: loop.wake,
    async stop() {
      const timer = setTimeout(() => stopping.abort(), STOP_MS);
      await loop.stop();
      clearTimeout(timer);
    },
  };
}

function applyReplies(
  recipients: readonly OutgoingRecipient[],
  replies: ReadonlyMap<string, SmarthostReply>,
): OutgoingRecipient[] {
  return recipients.map((one) => {
    const reply = replies.get(one.address);
    if (one.status !== 'due' || reply === undefined) return one;
    const { code, enhanced, said } = reply;
    const status = code < 300 && code >= 200 ? 'accepted' : code >= 500 ? 'refused' : 'due';
    return { ...one, status, code, enhanced, said };
  });
}

function endOf(recipients: readonly OutgoingRecipient[]): OutgoingEnd {
  const accepted = recipients.filter(({ status }) => status === 'accepted').length;
  const status = accepted === 0 ? 'failed' : accepted === recipients.length ? 'sent' : 'partly';
  return { status, recipients };
}
