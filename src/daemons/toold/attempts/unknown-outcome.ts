// Resolves a call whose outcome is unknown, after a crash or a restore: a person is asked, and only
// a clear "it did not happen" allows another attempt.
import { toTimestamp } from '../../../platform/clock.ts';
import type { WaitView } from '../../../wire/agentd.ts';
import type { CallAnswer } from '../../../wire/toold.ts';
import { completeWith, failWith } from '../results/finish-result.ts';
import { neutralise, showResult, truncateText } from '../results/output.ts';
import type { ToolCallRow, TooldStore } from '../store/store.ts';
import {
  type AgentdClient,
  fetchWait,
  forRun,
  peerOptions,
  readAnswerText,
} from '../tools/tool.ts';
import * as events from './events.ts';
import {
  type BoxProvider,
  buildWaitingAnswer,
  type Job,
  makeToolContext,
  toSubject,
  unknownOutcomeError,
} from './job.ts';
import type { CallRecorder } from './record-outcome.ts';

export const HAPPENED = 'it happened';
export const DID_NOT_HAPPEN = 'it did not happen';
/** Only after a restore: no later call of the task tree needs to be asked about. */
export const NOTHING_HAPPENED = 'nothing of this task happened after the backup';

type Confirmation = 'happened' | 'not' | 'nothing' | 'unclear';

/** Only a clear no allows the effect to be repeated. */
export function readConfirmation(answer: string | undefined): Confirmation {
  const text = answer?.trim().toLowerCase().replace(/[.!]$/, '');
  if (text === HAPPENED || text === 'yes') return 'happened';
  if (text === DID_NOT_HAPPEN || text === 'no') return 'not';
  return text === NOTHING_HAPPENED ? 'nothing' : 'unclear';
}

/** Resolves to `did_not_happen` when the call may be attempted again, else to its answer. */
export type ResolveUnknown = (
  job: Job,
  record: ToolCallRow,
) => Promise<CallAnswer | 'did_not_happen'>;

export function makeResolveUnknown(options: {
  store: TooldStore;
  agentd: Pick<AgentdClient, 'toolAsk' | 'getWait'>;
  recorder: CallRecorder;
  boxOf: BoxProvider;
}): ResolveUnknown {
  const { store, agentd, recorder, boxOf } = options;

  const ask = async (job: Job, record: ToolCallRow): Promise<WaitView> => {
    const { restored } = job.run;
    // Its event was recorded when it became unsure.
    const isUnsure = restored !== null && record.unsure_after === restored.backup;
    const what =
      `Did this happen? The tool ${job.toolName} of agent ${job.run.agent} with arguments ` +
      `${neutralise(truncateText(job.argumentsText))}`;
    const body = {
      ...forRun(makeToolContext(job, undefined, boxOf)),
      ...(isUnsure
        ? {
            question:
              `${what} may have been called after the backup of ${restored.takenAt}, from which ` +
              'this runtime was restored.',
            choices: [HAPPENED, DID_NOT_HAPPEN, NOTHING_HAPPENED],
            wait_key: `unsure.${restored.backup}`,
          }
        : {
            question:
              `${what} was started at ${toTimestamp(record.started_ms)} and its outcome is ` +
              'unknown.',
            choices: [HAPPENED, DID_NOT_HAPPEN],
            wait_key: `unknown.${record.attempts}`,
          }),
    };
    const { wait } = await agentd.toolAsk({ body }, peerOptions);
    const draft = isUnsure
      ? undefined
      : events.waiting(toSubject(job), record.attempts, { ...wait, status: 'unknown' });
    await store.recordAsked(job.callId, wait, draft);
    return wait;
  };

  /** Another attempt is not asked about again because of the same restore. */
  const recordConfirmed = async (job: Job, wait: WaitView, all: boolean): Promise<void> => {
    const { restored, rootTaskId } = job.run;
    if (restored === null) return;
    const { backup } = restored;
    const by = wait.answered_by ?? 'person:operator';
    if (all)
      await store.liftRestore(rootTaskId, backup, events.restoreLifted(toSubject(job), backup, by));
    await store.recordConfirmed(job.callId, backup);
  };

  return async (job, record) => {
    const wait =
      record.wait_id === null ? await ask(job, record) : await fetchWait(agentd, record.wait_id);
    if (wait.status === 'open') return buildWaitingAnswer(job, wait);
    const reply = wait.outcome === 'answered' ? readAnswerText(wait) : undefined;
    const confirmation = readConfirmation(reply);
    switch (confirmation) {
      case 'happened': {
        const confirmed = { happened: true, confirmed_by: wait.answered_by ?? 'person:operator' };
        return recorder.end(job, record.attempts, completeWith(showResult(confirmed)));
      }
      case 'not':
      case 'nothing':
        await job.tool?.forget?.(makeToolContext(job, undefined, boxOf));
        await recordConfirmed(job, wait, confirmation === 'nothing');
        return 'did_not_happen';
      case 'unclear':
        return recorder.end(job, record.attempts, failWith(unknownOutcomeError(job, reply)));
    }
  };
}
