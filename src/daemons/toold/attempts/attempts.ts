// The journal of one call, step by step: decide, write the intent, see its event durable, do it,
// write what came of it. Every step may be the last before a crash; what then happens is decided
// from the record. What a person is asked, and how a call ends, is in attempts/.
import type { Clock } from '../../../platform/clock.ts';
import type { Log } from '../../../platform/log.ts';
import type { Outbox } from '../../../platform/outbox.ts';
import type { WaitView } from '../../../wire/agentd.ts';
import { Fault, fault } from '../../../wire/errors.ts';
import type { CallAnswer } from '../../../wire/toold.ts';
import type { WorkspaceLocks } from '../boxes/workspace-locks.ts';
import type { Approvals } from '../permission/approvals.ts';
import type { Containment } from '../permission/containment.ts';
import type { Marks } from '../permission/marks.ts';
import type { Permissions } from '../permission/permission.ts';
import {
  type Finished,
  type FinishResult,
  failedWith,
  withheld,
} from '../results/finish-result.ts';
import { forgetAsked, noteAsked, type Progress, pauseMsAfter } from '../rules.ts';
import type { ToolRuns } from '../runs.ts';
import type { ToolCallRow, TooldStore } from '../store/store.ts';
import {
  type AgentdClient,
  type Effect,
  errorOf,
  isOpenOutcome,
  peerOptions,
  type Tool,
  type ToolOutcome,
} from '../tools/tool.ts';
import * as events from './events.ts';
import { about, type BoxOf, contextFrom, type Job, newCall, waitingFor } from './job.ts';
import { makeCallRecorder } from './record-outcome.ts';
import {
  type Approved,
  type ContextOf,
  makeApprovalRequests,
  type Permitted,
} from './request-approval.ts';
import { makeAfterUnknown } from './unknown-outcome.ts';
import { withTimeout } from './with-timeout.ts';

export type Attempts = {
  /** A call that is not in the record. */
  first(job: Job): Promise<CallAnswer>;
  /** A call that was not begun, or may be done again. */
  again(job: Job, record: ToolCallRow): Promise<CallAnswer>;
  /** A call that was begun; whoever did it then is gone. */
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
  boxOf: BoxOf;
  turns: WorkspaceLocks;
  containment: Pick<Containment, 'note'>;
  clock: Clock;
  log: Log;
  failpoint(name: string): void;
};

export function makeAttempts(options: AttemptsOptions): Attempts {
  const { store, outbox, runs, permissions, approvals, marks, clock, log, failpoint } = options;
  const { containment } = options;
  const { deny, failDenied: turnDown, end, release } = makeCallRecorder(options);

  const contextOf: ContextOf = (job, input) => contextFrom(job, input, options.boxOf);

  const getWait = async (id: WaitView['id']): Promise<WaitView> =>
    (await options.agentd.getWait({ params: { id } }, peerOptions)).wait;

  const assertWanted = (job: Job): void => {
    if (job.signal.aborted)
      throw fault('canceled', `${job.run.runId} was dismissed before ${job.callId} was done`);
  };

  /** From a durable intent to an answer. */
  const perform = async (job: Job, tool: Tool, begun: StartedAttempt): Promise<CallAnswer> => {
    failpoint('toold.after-intent');
    try {
      await outbox.delivered(begun.seq);
      assertWanted(job);
    } catch (error) {
      return release(job, error);
    }
    failpoint('toold.after-attempt-durable');
    const done = await doEffect(job, tool, begun);
    failpoint('toold.after-effect');
    try {
      await marks.noteFetched({ ...job, tool });
    } catch (error) {
      if (!('unknown' in done)) return end(job, begun.attempt, withheld(tool, error));
    }
    return conclude(job, tool, begun.attempt, done);
  };

  const conclude = async (
    job: Job,
    tool: Tool,
    attempt: number,
    done: Effect,
  ): Promise<CallAnswer> => {
    await containment.note(job, done.violations ?? []);
    if ('unknown' in done) return markOutcomeUnknown(job);
    if ('wait' in done) return openWait(job, tool, attempt, done.wait);
    const finished =
      'error' in done
        ? failedWith(done.error)
        : await finish(job, tool, { status: 'completed', result: done.result }).catch((error) =>
            release(job, error),
          );
    if (tool.isDeclared === true && finished.error?.code === 'bad_output')
      await containment.note(job, ['output']);
    return end(job, attempt, finished);
  };

  const markOutcomeUnknown = async (job: Job): Promise<CallAnswer> => {
    await store.markUnknown(job.callId);
    return afterUnknown(job, (await store.findCall(job.callId))!);
  };

  const doEffect = async (job: Job, tool: Tool, begun: StartedAttempt): Promise<Effect> => {
    const { input, approved } = begun;
    try {
      const call = { input, isApproved: approved !== undefined };
      return await options.turns.during(job, call, async (hasWaited) => {
        if (hasWaited) await assertStill(job, begun);
        return withTimeout({ clock, job, tool }, async (timed) => {
          const context = contextOf(timed, input);
          const held =
            approved && (await approvals.bindToApproved(timed, input, { ...approved, context }));
          return tool.perform(input, { ...context, ...held });
        });
      });
    } catch (error) {
      if (error instanceof Fault) {
        const later = error.retry || error.code === 'stale_fence' || error.code === 'canceled';
        if (later && isOpenOutcome(error)) throw error;
        return later ? release(job, error) : { error: errorOf(error) };
      }
      log.error('a tool failed', { tool: tool.name, call_id: job.callId, error });
      if (!tool.idempotent) return { unknown: true };
      const message = `${tool.name} failed for a reason of its own`;
      return { error: errorOf(fault('internal', message)) };
    }
  };

  /** It had to wait for others: a right that was taken back meanwhile is gone. */
  const assertStill = async (job: Job, { input, approved }: StartedAttempt): Promise<void> => {
    const may = await permissions.recheck(job, input);
    if (may.kind === 'no') throw fault('denied', may.decision.error.message);
    if (may.kind === 'ask' && approved === undefined)
      throw fault('unavailable', `${job.toolName} needs a person by now; it is asked for again`);
  };

  const finish = (job: Job, tool: Tool, outcome: ToolOutcome): Promise<Finished> =>
    options.finishResult(tool, outcome, contextOf(job));

  const openWait = async (
    job: Job,
    tool: Tool,
    attempt: number,
    wait: WaitView,
  ): Promise<CallAnswer> => {
    const draft = events.waiting(about(job), attempt, { ...wait, status: 'waiting' });
    await store.recordWaiting(job.callId, wait, draft);
    return wait.status === 'open' ? waitingFor(job, wait) : settle(job, tool, attempt, wait);
  };

  const settle = async (
    job: Job,
    tool: Tool,
    attempt: number,
    wait: WaitView,
  ): Promise<CallAnswer> => {
    const outcome = tool.settle?.(wait);
    if (outcome === undefined) throw new Error(`${tool.name} waits, but does not say for what`);
    return end(job, attempt, await finish(job, tool, outcome));
  };

  /** One more attempt of a call that is in the record. What it brings is known before it begins. */
  const attemptAgain = async (
    job: Job,
    record: ToolCallRow,
    may: Permitted,
    approved?: Approved,
  ): Promise<CallAnswer> => {
    outbox.assertAuditAccepting();
    assertWanted(job);
    await marks.note({ ...job, tool: job.tool! });
    const attempt = record.attempts + 1;
    failpoint('toold.before-intent');
    const seq = await store.recordAttempt(
      { callId: job.callId, fence: job.run.fence, attempt, nowMs: clock.nowMs() },
      events.attempted(about(job), attempt, may.decision),
    );
    return perform(job, job.tool!, { seq, attempt, input: may.input, approved });
  };

  /** Each attempt is an event, and asking again is free: the quota counts calls. */
  const assertDue = ({ call_id, attempts, started_ms }: ToolCallRow): void => {
    const sinceMs = clock.nowMs() - Number(started_ms);
    const pauseMs = pauseMsAfter(attempts);
    if (sinceMs < 0 || sinceMs >= pauseMs) return;
    throw fault('rate_limited', `${call_id} was begun ${attempts} times and did not end`, {
      retryAfterMs: pauseMs - sinceMs,
    });
  };

  const again = async (job: Job, record: ToolCallRow): Promise<CallAnswer> => {
    assertDue(record);
    const may = await permissions.decide(job, await runs.progressOf(job.run), { again: true });
    if (may.kind === 'no') return turnDown(job, record, may.decision);
    if (may.kind === 'go') return attemptAgain(job, record, may);
    return askPerson(job, record, may);
  };

  const afterUnknown = makeAfterUnknown({ ...options, getWait, end, again, contextOf });
  const { requestApproval: askPerson, afterApproval } = makeApprovalRequests({
    ...options,
    turnDown,
    contextOf,
    attempt: attemptAgain,
  });

  const begin = async (job: Job, progress: Progress, may: Permitted): Promise<CallAnswer> => {
    await marks.note({ ...job, tool: job.tool! });
    failpoint('toold.before-intent');
    const intent = events.attempted(about(job), 1, may.decision);
    const seq = await noted(job, progress, () =>
      store.recordIntent(newCall(job, clock.nowMs()), intent),
    );
    return perform(job, job.tool!, { seq, attempt: 1, input: may.input });
  };

  const noted = async <T>(job: Job, progress: Progress, write: () => Promise<T>): Promise<T> => {
    noteAsked(progress, { callId: job.callId, key: job.key });
    try {
      return await write();
    } catch (error) {
      forgetAsked(progress, job.callId);
      throw error;
    }
  };

  return {
    async first(job) {
      outbox.assertAuditAccepting();
      const progress = await runs.progressOf(job.run);
      assertWanted(job);
      const may = await permissions.decide(job, progress, { again: false });
      assertWanted(job);
      if (may.kind === 'no') return deny(job, progress, may.decision);
      if (may.kind === 'go') return begin(job, progress, may);
      const waiting = events.requested(about(job), may.decision);
      await noted(job, progress, () => store.recordRequested(newCall(job, clock.nowMs()), waiting));
      return askPerson(job, (await store.findCall(job.callId))!, may);
    },
    again,
    async afterLoss(job, record) {
      const { tool } = job;
      if (tool?.idempotent !== true) return markOutcomeUnknown(job);
      // Asked before policy: what may have happened is neither refused nor asked for.
      const known = await tool.recall?.(contextOf(job));
      return known === undefined ? again(job, record) : conclude(job, tool, record.attempts, known);
    },
    async afterWait(job, record) {
      const wait = await getWait(record.wait_id!);
      if (wait.status === 'open') return { ...waitingFor(job, wait), recorded: true };
      if (job.tool === undefined) {
        const message = `${job.toolName} is no longer a tool, so what it waited for is lost`;
        return end(job, record.attempts, failedWith(errorOf(fault('not_found', message))));
      }
      if (record.wait_kind === 'approval') return afterApproval(job, record, record.approval_id!);
      return settle(job, job.tool, record.attempts, wait);
    },
    afterUnknown,
  };
}

type StartedAttempt = {
  seq: number;
  attempt: number;
  input: unknown;
  approved?: Approved | undefined;
};
