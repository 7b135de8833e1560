// How a call ends, or is left to be asked again: the record, its event, and what the breaker
// counts.

import { retryWithBackoff } from '../../../platform/backoff.ts';
import type { Clock } from '../../../platform/clock.ts';
import { isFault } from '../../../platform/daemon.ts';
import type { Log } from '../../../platform/log.ts';
import { fault } from '../../../wire/errors.ts';
import type { EventDraft } from '../../../wire/events.ts';
import type { CallAnswer } from '../../../wire/toold.ts';
import { type FinishedResult, failWith } from '../results/finish-result.ts';
import { countCall, countOutcome, type Denied, type Progress } from '../rules.ts';
import type { ToolRuns } from '../runs.ts';
import type { ToolCallRow, TooldStore } from '../store/store.ts';
import { type AgentdClient, peerOptions } from '../tools/tool.ts';
import * as events from './events.ts';
import { type Job, makeCallRow, toSubject } from './job.ts';

export type CallRecorder = {
  /** A call that is not in the record, and never begins. */
  deny(job: Job, progress: Progress, decision: Denied): Promise<CallAnswer>;
  /** Of one that is in the record: what was begun once is not denied any more, it has failed. */
  failDenied(job: Job, record: ToolCallRow, decision: Denied): Promise<CallAnswer>;
  end(job: Job, attempt: number, finished: FinishedResult): Promise<CallAnswer>;
  /** What was begun is not done now; nothing happened, so it may be done when asked again. */
  release(job: Job, error: unknown): Promise<never>;
};

/**
 * Denials past the quota that are still recorded one by one; a run that goes on is refused
 * outright.
 */
const DENIALS_PAST_QUOTA_MAX = 64;

export function makeCallRecorder(options: {
  store: TooldStore;
  runs: Pick<ToolRuns, 'loadProgress'>;
  agentd: Pick<AgentdClient, 'toolBreak'>;
  clock: Clock;
  log: Log;
  failpoint(name: string): void;
}): CallRecorder {
  const { store, runs, agentd, clock, log, failpoint } = options;

  /** Asked again by every denial of the breaker: agentd may have been away the first time. */
  const breakRun = ({ run }: Job, reason: string): void => {
    const body = { run_id: run.runId, fence: run.fence, reason: reason.slice(0, 1_000) };
    agentd.toolBreak({ body }, peerOptions).catch((error: unknown) => {
      log.warn('agentd did not end a run without progress', { run_id: run.runId, error });
    });
  };

  const deny: CallRecorder['deny'] = async (job, progress, decision) => {
    if (progress.calls >= job.run.callsMax + DENIALS_PAST_QUOTA_MAX)
      throw fault('limit', `${job.run.runId} goes on calling past its ${job.run.callsMax} calls`);
    const { saved, error } = failWith(decision.error);
    const denial = { error: saved.error!, hash: saved.hash };
    await store.recordDenied(
      makeCallRow(job, clock.nowMs()),
      denial,
      events.denied(toSubject(job), decision),
    );
    countCall(progress, { callId: job.callId, key: job.key });
    countOutcome(progress, job.key, saved.hash);
    if (decision.error.code === 'breaker') breakRun(job, decision.error.message);
    return { call_id: job.callId, status: 'denied', error, recorded: false };
  };

  /** Refused after it was written down: by a person, or by a right taken back meanwhile. */
  const refuse = async (job: Job, decision: Denied): Promise<CallAnswer> => {
    const { saved, error } = failWith(decision.error);
    const denial = { error: saved.error!, hash: saved.hash };
    const denied = events.denied(toSubject(job), decision);
    await store.recordRefused(job.callId, denial, { endedMs: clock.nowMs(), denied });
    countOutcome(await runs.loadProgress(job.run), job.key, saved.hash);
    return { call_id: job.callId, status: 'denied', error, recorded: false };
  };

  /** The outcome of an effect that happened is kept trying: only a crash may make it unknown. */
  const save = async (job: Job, finished: FinishedResult, ended: EventDraft): Promise<void> => {
    const isFull = (error: unknown) =>
      isFault(error, 'storage_full') || isFault(error, 'overloaded');
    await retryWithBackoff(
      () => store.recordOutcome(job.callId, finished.saved, { endedMs: clock.nowMs(), ended }),
      {
        isTransient: (error) => isFull(error) && !job.signal.aborted,
        backoffMsMax: 2_000,
        inBackground: true,
      },
    );
  };

  const end: CallRecorder['end'] = async (job, attempt, finished) => {
    const { status, hash } = finished.saved;
    const { result, error, sizeBytes, artifact, output } = finished;
    const outcome = { status, hash, sizeBytes, code: error?.code, artifact, output };
    await save(job, finished, events.ended(toSubject(job), attempt, outcome));
    failpoint('toold.after-outcome');
    // Undefined: nothing was counted in this life yet, and the journal will tell of this one too.
    const progress = await job.run.history.progress;
    if (progress !== undefined) countOutcome(progress, job.key, hash);
    const shown = result === undefined ? { error } : { result };
    return { call_id: job.callId, status, ...shown, recorded: false };
  };

  return {
    deny,
    failDenied: (job, record, decision) =>
      record.attempts === 0
        ? refuse(job, decision)
        : end(job, record.attempts, failWith(decision.error)),
    end,
    async release(job, error) {
      await store.releaseCall(job.callId);
      throw error;
    },
  };
}
