// Records how a call ends, or that it may be attempted again: the row, its event, and the progress
// that the breaker counts.

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
  /** Records a new call as denied. */
  deny(job: Job, progress: Progress, decision: Denied): Promise<CallAnswer>;
  /** Ends a recorded call: as denied, or as failed if it was ever begun. */
  failDenied(job: Job, record: ToolCallRow, decision: Denied): Promise<CallAnswer>;
  end(job: Job, attempt: number, finished: FinishedResult): Promise<CallAnswer>;
  /** Records that a begun call had no effect, so it may be attempted again; throws the error. */
  release(job: Job, error: unknown): Promise<never>;
};

/** Denials past the quota that are still recorded; further calls of the run throw `limit`. */
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

  /** Repeated with every breaker denial: agentd may have been down before. */
  const breakRun = ({ run }: Job, reason: string): void => {
    const body = { run_id: run.runId, fence: run.fence, reason: reason.slice(0, 1_000) };
    agentd.toolBreak({ body }, peerOptions).catch((error: unknown) => {
      log.warn('ending a run without progress failed', { run_id: run.runId, error });
    });
  };

  const deny: CallRecorder['deny'] = async (job, progress, decision) => {
    if (progress.calls >= job.run.callsMax + DENIALS_PAST_QUOTA_MAX)
      throw fault('limit', `${job.run.runId} is past its limit of ${job.run.callsMax} calls`);
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

  /** Denies a recorded call that was never begun. */
  const refuse = async (job: Job, decision: Denied): Promise<CallAnswer> => {
    const { saved, error } = failWith(decision.error);
    const denial = { error: saved.error!, hash: saved.hash };
    const denied = events.denied(toSubject(job), decision);
    await store.recordRefused(job.callId, denial, { endedMs: clock.nowMs(), denied });
    countOutcome(await runs.loadProgress(job.run), job.key, saved.hash);
    return { call_id: job.callId, status: 'denied', error, recorded: false };
  };

  /**
   * Retries until saved: once an effect has happened, only a crash may make its outcome unknown.
   */
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
    // Undefined: not loaded yet; the journal will include this outcome.
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
