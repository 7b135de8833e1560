// Journals one call step by step: decide, record the intent, wait until its event is durable, do
// the effect, record the outcome. The process may die after any step; the record alone decides what
// follows. The steps themselves are in the files beside this one, which never call back into it.
import type { Clock } from '../../../platform/clock.ts';
import type { Log } from '../../../platform/log.ts';
import type { Outbox } from '../../../platform/outbox.ts';
import type { WaitView } from '../../../wire/agentd.ts';
import { fault } from '../../../wire/errors.ts';
import type { CallAnswer } from '../../../wire/toold.ts';
import type { WorkspaceLocks } from '../boxes/workspace-locks.ts';
import type { Approvals } from '../permission/approvals.ts';
import type { Containment } from '../permission/containment.ts';
import type { Marks } from '../permission/marks.ts';
import type { Permissions } from '../permission/permission.ts';
import {
  type FinishedResult,
  type FinishResult,
  failWith,
  withholdResult,
} from '../results/finish-result.ts';
import { countCall, type Progress, retryDelayMs, uncountCall } from '../rules.ts';
import type { ToolRuns } from '../runs.ts';
import type { ToolCallRow, TooldStore } from '../store/store.ts';
import {
  type AgentdClient,
  type Effect,
  fetchWait,
  type Tool,
  type ToolOutcome,
  toCallError,
} from '../tools/tool.ts';
import * as events from './events.ts';
import {
  type BoxProvider,
  buildWaitingAnswer,
  type Job,
  makeCallRow,
  makeToolContext,
  toSubject,
} from './job.ts';
import { makeCallRecorder } from './record-outcome.ts';
import {
  type ApprovalStep,
  type Approved,
  makeApprovalRequests,
  type Permitted,
} from './request-approval.ts';
import type { NeedsConfirmation } from './restored.ts';
import { makeRunEffect, type StartedAttempt } from './run-effect.ts';
import { makeResolveUnknown } from './unknown-outcome.ts';

export type Attempts = {
  /** For a call without a record. */
  first(job: Job): Promise<CallAnswer>;
  /** For a call that was not begun, or may be repeated. */
  again(job: Job, record: ToolCallRow): Promise<CallAnswer>;
  /** For a call that was begun by a process that is gone. */
  afterLoss(job: Job, record: ToolCallRow): Promise<CallAnswer>;
  afterWait(job: Job, record: ToolCallRow): Promise<CallAnswer>;
  afterUnknown(job: Job, record: ToolCallRow): Promise<CallAnswer>;
};

export type AttemptsOptions = {
  store: TooldStore;
  outbox: Outbox;
  runs: ToolRuns;
  agentd: AgentdClient;
  finishResult: FinishResult;
  permissions: Permissions;
  approvals: Approvals;
  marks: Marks;
  boxOf: BoxProvider;
  locks: WorkspaceLocks;
  needsConfirmation: NeedsConfirmation;
  containment: Pick<Containment, 'recordViolations'>;
  clock: Clock;
  log: Log;
  failpoint(name: string): void;
};

export function makeAttempts(options: AttemptsOptions): Attempts {
  const { store, outbox, runs, agentd, permissions, marks, containment, boxOf, clock, failpoint } =
    options;
  const { needsConfirmation } = options;
  const recorder = makeCallRecorder(options);
  const runEffect = makeRunEffect({ ...options, recorder });
  const resolveUnknown = makeResolveUnknown({ ...options, recorder });
  const { requestApproval, afterApproval } = makeApprovalRequests({ ...options, recorder });

  const assertNotDismissed = (job: Job): void => {
    if (job.signal.aborted)
      throw fault('canceled', `${job.run.runId} was dismissed before ${job.callId} was done`);
  };

  const perform = async (job: Job, tool: Tool, started: StartedAttempt): Promise<CallAnswer> => {
    failpoint('toold.after-intent');
    try {
      await outbox.delivered(started.seq);
      assertNotDismissed(job);
    } catch (error) {
      return recorder.release(job, error);
    }
    failpoint('toold.after-attempt-durable');
    const done = await runEffect(job, tool, started);
    failpoint('toold.after-effect');
    try {
      await marks.markAfterCall({ ...job, tool });
    } catch (error) {
      if (!('unknown' in done))
        return recorder.end(job, started.attempt, withholdResult(tool, error));
    }
    return recordEffect(job, tool, started.attempt, done);
  };

  const recordEffect = async (
    job: Job,
    tool: Tool,
    attempt: number,
    done: Effect,
  ): Promise<CallAnswer> => {
    await containment.recordViolations(job, done.violations ?? []);
    if ('unknown' in done) return markOutcomeUnknown(job);
    if ('wait' in done) return openWait(job, tool, attempt, done.wait);
    const finished =
      'error' in done
        ? failWith(done.error)
        : await finish(job, tool, { status: 'completed', result: done.result }).catch((error) =>
            recorder.release(job, error),
          );
    if (tool.isDeclared === true && finished.error?.code === 'bad_output')
      await containment.recordViolations(job, ['output']);
    return recorder.end(job, attempt, finished);
  };

  const markOutcomeUnknown = async (job: Job): Promise<CallAnswer> => {
    await store.markUnknown(job.callId);
    return afterUnknown(job, (await store.findCall(job.callId))!);
  };

  const finish = (job: Job, tool: Tool, outcome: ToolOutcome): Promise<FinishedResult> =>
    options.finishResult(tool, outcome, makeToolContext(job, undefined, boxOf));

  const openWait = async (
    job: Job,
    tool: Tool,
    attempt: number,
    wait: WaitView,
  ): Promise<CallAnswer> => {
    const draft = events.waiting(toSubject(job), attempt, { ...wait, status: 'waiting' });
    await store.recordWaiting(job.callId, wait, draft);
    return wait.status === 'open'
      ? buildWaitingAnswer(job, wait)
      : endWait(job, tool, attempt, wait);
  };

  const endWait = async (
    job: Job,
    tool: Tool,
    attempt: number,
    wait: WaitView,
  ): Promise<CallAnswer> => {
    const outcome = tool.readWaitOutcome?.(wait);
    if (outcome === undefined)
      throw new Error(`${tool.name} opened a wait but cannot read its outcome`);
    if ('unknown' in outcome) return markOutcomeUnknown(job);
    return recorder.end(job, attempt, await finish(job, tool, outcome));
  };

  /**
   * Makes a further attempt. The run is marked before the effect, so no output precedes its mark.
   */
  const attemptAgain = async (
    job: Job,
    record: ToolCallRow,
    may: Permitted,
    approved?: Approved,
  ): Promise<CallAnswer> => {
    outbox.assertAuditAccepting();
    assertNotDismissed(job);
    await marks.markBeforeCall({ ...job, tool: job.tool! });
    const attempt = record.attempts + 1;
    failpoint('toold.before-intent');
    const seq = await store.recordAttempt(
      { callId: job.callId, fence: job.run.fence, attempt, nowMs: clock.nowMs() },
      events.attempted(toSubject(job), attempt, may.decision),
    );
    return perform(job, job.tool!, { seq, attempt, input: may.input, approved });
  };

  /** Throws while backing off: each attempt is an event, and the quota does not count attempts. */
  const assertDue = ({ call_id, attempts, started_ms }: ToolCallRow): void => {
    const sinceMs = clock.nowMs() - Number(started_ms);
    const delayMs = retryDelayMs(attempts);
    if (sinceMs < 0 || sinceMs >= delayMs) return;
    throw fault('rate_limited', `${call_id} was attempted ${attempts} times and has not ended`, {
      retryAfterMs: delayMs - sinceMs,
    });
  };

  const again = async (job: Job, record: ToolCallRow): Promise<CallAnswer> => {
    assertDue(record);
    const may = await permissions.decide(job, await runs.loadProgress(job.run), { again: true });
    if (may.kind === 'no') return recorder.failDenied(job, record, may.decision);
    if (await needsConfirmation(job, may.input, record)) return returnToUnsure(job);
    if (may.kind === 'go') return attemptAgain(job, record, may);
    return proceed(job, record, await requestApproval(job, record, may));
  };

  const returnToUnsure = async (job: Job): Promise<CallAnswer> => {
    const { backup } = job.run.restored!;
    await store.returnToUnsure(job.callId, backup, events.unsure(toSubject(job), backup));
    return afterUnknown(job, (await store.findCall(job.callId))!);
  };

  /** Before an approval is redeemed: approving it again does not say that it did not happen. */
  const isUnsure = async (job: Job, record: ToolCallRow, wait: WaitView): Promise<boolean> => {
    const { decision = 'approved' } = wait.answer ?? {};
    if (job.run.restored === null || decision !== 'approved') return false;
    const may = await permissions.decide(job, await runs.loadProgress(job.run), { again: true });
    return may.kind !== 'no' && (await needsConfirmation(job, may.input, record));
  };

  const proceed = (job: Job, record: ToolCallRow, step: ApprovalStep): Promise<CallAnswer> =>
    'answer' in step
      ? Promise.resolve(step.answer)
      : attemptAgain(job, record, step.permitted, step.approved);

  const afterUnknown: Attempts['afterUnknown'] = async (job, record) => {
    const answer = await resolveUnknown(job, record);
    if (answer !== 'did_not_happen') return answer;
    return again(job, (await store.findCall(job.callId))!);
  };

  const begin = async (job: Job, progress: Progress, may: Permitted): Promise<CallAnswer> => {
    await marks.markBeforeCall({ ...job, tool: job.tool! });
    failpoint('toold.before-intent');
    const intent = events.attempted(toSubject(job), 1, may.decision);
    const seq = await countWhile(job, progress, () =>
      store.recordIntent(makeCallRow(job, clock.nowMs()), intent),
    );
    return perform(job, job.tool!, { seq, attempt: 1, input: may.input });
  };

  const beginUnsure = async (job: Job, progress: Progress): Promise<CallAnswer> => {
    const { backup } = job.run.restored!;
    const unsure = events.unsure(toSubject(job), backup);
    await countWhile(job, progress, () =>
      store.recordUnsure(makeCallRow(job, clock.nowMs()), backup, unsure),
    );
    return afterUnknown(job, (await store.findCall(job.callId))!);
  };

  const countWhile = async <T>(
    job: Job,
    progress: Progress,
    write: () => Promise<T>,
  ): Promise<T> => {
    countCall(progress, { callId: job.callId, key: job.key });
    try {
      return await write();
    } catch (error) {
      uncountCall(progress, job.callId);
      throw error;
    }
  };

  return {
    async first(job) {
      outbox.assertAuditAccepting();
      const progress = await runs.loadProgress(job.run);
      assertNotDismissed(job);
      const may = await permissions.decide(job, progress, { again: false });
      assertNotDismissed(job);
      if (may.kind === 'no') return recorder.deny(job, progress, may.decision);
      if (await needsConfirmation(job, may.input)) return beginUnsure(job, progress);
      if (may.kind === 'go') return begin(job, progress, may);
      const waiting = events.requested(toSubject(job), may.decision);
      await countWhile(job, progress, () =>
        store.recordRequested(makeCallRow(job, clock.nowMs()), waiting),
      );
      const record = (await store.findCall(job.callId))!;
      return proceed(job, record, await requestApproval(job, record, may));
    },
    again,
    async afterLoss(job, record) {
      const { tool } = job;
      if (tool?.idempotent !== true) return markOutcomeUnknown(job);
      // Before policy: an effect that may have happened is neither denied nor put up for approval.
      const known = await tool.recall?.(makeToolContext(job, undefined, boxOf));
      return known === undefined
        ? again(job, record)
        : recordEffect(job, tool, record.attempts, known);
    },
    async afterWait(job, record) {
      const wait = await fetchWait(agentd, record.wait_id!);
      if (wait.status === 'open') return { ...buildWaitingAnswer(job, wait), recorded: true };
      if (job.tool === undefined) {
        const message = `tool ${job.toolName} no longer exists, so its wait cannot be read`;
        return recorder.end(
          job,
          record.attempts,
          failWith(toCallError(fault('not_found', message))),
        );
      }
      if (record.wait_kind === 'approval') {
        if (await isUnsure(job, record, wait)) return returnToUnsure(job);
        return proceed(job, record, await afterApproval(job, record, record.approval_id!));
      }
      return endWait(job, job.tool, record.attempts, wait);
    },
    afterUnknown,
  };
}
