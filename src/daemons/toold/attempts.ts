// The journal of one call, step by step: decide, write the intent, see its event durable, do it,
// write what came of it. Every step may be the last before a crash; what then happens is decided
// from the record.
import type { Clock } from '../../platform/clock.ts';
import { toTimestamp } from '../../platform/clock.ts';
import { isFault } from '../../platform/daemon.ts';
import type { Log } from '../../platform/log.ts';
import type { Outbox } from '../../platform/outbox.ts';
import type { WaitView } from '../../wire/agentd.ts';
import { Fault, fault } from '../../wire/errors.ts';
import type { EventDraft } from '../../wire/events.ts';
import type { CallAnswer } from '../../wire/toold.ts';
import type { ApprovalId } from '../../wire/words.ts';
import type { Approvals, Seen } from './approvals.ts';
import * as events from './events.ts';
import {
  about,
  contextFrom,
  type Job,
  neverKnown,
  newCall,
  notApproved,
  notAskable,
  notForGood,
  waitingFor,
} from './job.ts';
import type { Marks } from './marks.ts';
import { neutralise, previewOf, showResult } from './output.ts';
import type { Permission, Permissions } from './permission.ts';
import {
  completedWith,
  type Finished,
  type FinishResult,
  failedWith,
  withheld,
} from './results.ts';
import {
  type Denied,
  DID_NOT_HAPPEN,
  forgetAsked,
  HAPPENED,
  noteAsked,
  noteOutcome,
  type Progress,
  readConfirmation,
} from './rules.ts';
import type { Runs } from './runs.ts';
import type { CallRow, Store } from './store.ts';
import type { Box } from './tools/box.ts';
import {
  type AgentdClient,
  answerText,
  type Effect,
  errorOf,
  forRun,
  type Outcome,
  peerOptions,
  type Tool,
  type ToolContext,
} from './tools/tool.ts';

export type Attempts = {
  /** A call that is not in the record. */
  first(job: Job): Promise<CallAnswer>;
  /** A call that was begun, has no outcome, and may be done again. */
  again(job: Job, record: CallRow): Promise<CallAnswer>;
  afterWait(job: Job, record: CallRow): Promise<CallAnswer>;
  afterUnknown(job: Job, record: CallRow): Promise<CallAnswer>;
};

export type AttemptsOptions = {
  store: Store;
  outbox: Outbox;
  runs: Runs;
  agentd: AgentdClient;
  finishResult: FinishResult;
  permissions: Permissions;
  approvals: Approvals;
  marks: Marks;
  boxOf: (job: Job) => Promise<Box>;
  clock: Clock;
  log: Log;
  moment(name: string): void;
};

/**
 * Denials past the quota that are still recorded one by one; a run that goes on is refused
 * outright.
 */
const DENIALS_PAST_QUOTA_MAX = 64;

export function makeAttempts(options: AttemptsOptions): Attempts {
  const { store, outbox, runs, agentd, permissions, approvals, marks, clock, log, moment } =
    options;

  const contextOf = (job: Job): ToolContext => contextFrom(job, options.boxOf);

  /** Asked again by every denial of the breaker: agentd may have been away the first time. */
  const breakRun = ({ run }: Job, reason: string): void => {
    const body = { run_id: run.runId, fence: run.fence, reason: reason.slice(0, 1_000) };
    agentd.toolBreak({ body }, peerOptions).catch((error: unknown) => {
      log.warn('agentd did not end a run without progress', { run_id: run.runId, error });
    });
  };

  const deny = async (job: Job, progress: Progress, decision: Denied): Promise<CallAnswer> => {
    if (progress.calls >= job.run.callsMax + DENIALS_PAST_QUOTA_MAX)
      throw fault('limit', `${job.run.runId} goes on calling past its ${job.run.callsMax} calls`);
    const { saved, error } = failedWith(decision.error);
    const denial = { error: saved.error!, hash: saved.hash };
    await store.recordDenied(
      newCall(job, clock.nowMs()),
      denial,
      events.denied(about(job), decision),
    );
    noteAsked(progress, { callId: job.callId, key: job.key });
    noteOutcome(progress, job.key, saved.hash);
    if (decision.error.code === 'breaker') breakRun(job, decision.error.message);
    return { call_id: job.callId, status: 'denied', error, recorded: false };
  };

  /** Refused after it was written down: by a person, or by a right taken back meanwhile. */
  const refuse = async (job: Job, decision: Denied): Promise<CallAnswer> => {
    const { saved, error } = failedWith(decision.error);
    const denial = { error: saved.error!, hash: saved.hash };
    const denied = events.denied(about(job), decision);
    await store.recordRefused(job.callId, denial, { endedMs: clock.nowMs(), denied });
    noteOutcome(await runs.progressOf(job.run), job.key, saved.hash);
    return { call_id: job.callId, status: 'denied', error, recorded: false };
  };

  /** The outcome of an effect that happened is kept trying: only a crash may make it unknown. */
  const save = async (job: Job, finished: Finished, ended: EventDraft): Promise<void> => {
    for (let pauseMs = 50; ; pauseMs = Math.min(pauseMs * 2, 2_000)) {
      try {
        await store.recordOutcome(job.callId, finished.saved, { endedMs: clock.nowMs(), ended });
        return;
      } catch (error) {
        const passes = isFault(error, 'storage_full') || isFault(error, 'overloaded');
        if (!passes || job.signal.aborted) throw error;
        await new Promise((resolve) => setTimeout(resolve, pauseMs).unref());
      }
    }
  };

  const end = async (job: Job, attempt: number, finished: Finished): Promise<CallAnswer> => {
    const { status, hash } = finished.saved;
    const { result, error, sizeBytes, artifact } = finished;
    const outcome = { status, hash, sizeBytes, code: error?.code, artifact };
    await save(job, finished, events.ended(about(job), attempt, outcome));
    moment('toold.after-outcome');
    // Undefined: nothing was counted in this life yet, and the journal will tell of this one too.
    const progress = await job.run.history.progress;
    if (progress !== undefined) noteOutcome(progress, job.key, hash);
    const shown = result === undefined ? { error } : { result };
    return { call_id: job.callId, status, ...shown, recorded: false };
  };

  /** What was begun is not done now; nothing happened, so it may be done when asked again. */
  const release = async (job: Job, error: unknown): Promise<never> => {
    await store.releaseCall(job.callId);
    throw error;
  };

  const assertWanted = (job: Job): void => {
    if (job.signal.aborted)
      throw fault('canceled', `${job.run.runId} was dismissed before ${job.callId} was done`);
  };

  /** From a durable intent to an answer. */
  const perform = async (job: Job, tool: Tool, begun: Begun): Promise<CallAnswer> => {
    moment('toold.after-intent');
    try {
      await outbox.delivered(begun.seq);
      assertWanted(job);
    } catch (error) {
      return release(job, error);
    }
    moment('toold.after-attempt-durable');
    const done = await doEffect(job, tool, begun);
    moment('toold.after-effect');
    try {
      await marks.noteFetched({ ...job, tool });
    } catch (error) {
      if (done !== 'unknown') return end(job, begun.attempt, withheld(tool, error));
    }
    if (done === 'unknown') {
      await store.markUnknown(job.callId);
      return afterUnknown(job, (await store.findCall(job.callId))!);
    }
    if ('wait' in done) return openWait(job, tool, begun.attempt, done.wait);
    const finished =
      'error' in done
        ? failedWith(done.error)
        : await finish(job, tool, { status: 'completed', result: done.result }).catch((error) =>
            release(job, error),
          );
    return end(job, begun.attempt, finished);
  };

  const doEffect = async (job: Job, tool: Tool, begun: Begun): Promise<Effect | 'unknown'> => {
    const { input, approved } = begun;
    try {
      const context = contextOf(job);
      const held = approved && (await approvals.heldTo(job, input, { ...approved, context }));
      return await tool.perform(input, { ...context, ...held });
    } catch (error) {
      if (error instanceof Fault) {
        const later = error.retry || error.code === 'stale_fence' || error.code === 'canceled';
        return later ? release(job, error) : { error: errorOf(error) };
      }
      log.error('a tool failed', { tool: tool.name, call_id: job.callId, error });
      if (!tool.idempotent) return 'unknown';
      const message = `${tool.name} failed for a reason of its own`;
      return { error: errorOf(fault('internal', message)) };
    }
  };

  const finish = (job: Job, tool: Tool, outcome: Outcome): Promise<Finished> =>
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

  const getWait = async (id: WaitView['id']): Promise<WaitView> =>
    (await agentd.getWait({ params: { id } }, peerOptions)).wait;

  const afterUnknown = async (job: Job, record: CallRow): Promise<CallAnswer> => {
    const wait = record.wait_id === null ? await ask(job, record) : await getWait(record.wait_id);
    if (wait.status === 'open') return waitingFor(job, wait);
    const said = wait.outcome === 'answered' ? answerText(wait) : undefined;
    switch (readConfirmation(said)) {
      case 'happened': {
        const confirmed = { happened: true, confirmed_by: wait.answered_by ?? 'person:operator' };
        return end(job, record.attempts, completedWith(showResult(confirmed)));
      }
      case 'not':
        return again(job, record);
      case 'unclear':
        return end(job, record.attempts, failedWith(neverKnown(job, said)));
    }
  };

  const ask = async (job: Job, record: CallRow): Promise<WaitView> => {
    const body = {
      ...forRun(contextOf(job)),
      question:
        `Did this happen? The tool ${job.toolName} of agent ${job.run.agent} with arguments ` +
        `${neutralise(previewOf(job.argumentsText))} was started at ` +
        `${toTimestamp(record.started_ms)} and its outcome is not known.`,
      choices: [HAPPENED, DID_NOT_HAPPEN],
      wait_key: `unknown.${record.attempts}`,
    };
    const { wait } = await agentd.toolAsk({ body }, peerOptions);
    const draft = events.waiting(about(job), record.attempts, { ...wait, status: 'unknown' });
    await store.recordAsked(job.callId, wait, draft);
    return wait;
  };

  /** One more attempt of a call that is in the record. What it brings is known before it begins. */
  const attemptAgain = async (
    job: Job,
    record: CallRow,
    may: Go,
    approved?: Approved,
  ): Promise<CallAnswer> => {
    outbox.assertTaking();
    assertWanted(job);
    await marks.note({ ...job, tool: job.tool! });
    const attempt = record.attempts + 1;
    moment('toold.before-intent');
    const seq = await store.recordAttempt(
      { callId: job.callId, fence: job.run.fence, attempt, nowMs: clock.nowMs() },
      events.attempted(about(job), attempt, may.decision),
    );
    return perform(job, job.tool!, { seq, attempt, input: may.input, approved });
  };

  /** What was begun once is not denied any more: it has failed. */
  const turnDown = (job: Job, record: CallRow, decision: Denied): Promise<CallAnswer> =>
    record.attempts === 0
      ? refuse(job, decision)
      : end(job, record.attempts, failedWith(decision.error));

  const again = async (job: Job, record: CallRow): Promise<CallAnswer> => {
    const may = await permissions.of(job, await runs.progressOf(job.run), { again: true });
    if (may.kind === 'no') return turnDown(job, record, may.decision);
    if (may.kind === 'go') return attemptAgain(job, record, may);
    return askPerson(job, record, may);
  };

  /** Asked for as often as it takes: approvald knows the call, and answers the same. */
  const askPerson = async (job: Job, record: CallRow, may: Ask): Promise<CallAnswer> => {
    const asked = await approvals.request(job, may, contextOf(job)).catch(notForGood);
    if (asked instanceof Fault) return turnDown(job, record, notAskable(asked));
    moment('toold.after-approval-asked');
    if (asked.status === 'answered') return afterApproval(job, record, asked.approvalId);
    if (record.status !== 'requested') await store.returnToRequested(job.callId);
    const wait = await approvals.wait(asked, contextOf(job));
    await store.recordApprovalWait(job.callId, wait, asked.approvalId);
    if (wait.status !== 'open') return afterApproval(job, record, asked.approvalId);
    return waitingFor(job, wait);
  };

  /** The rights are looked at again: between asking and answering, hours may have passed. */
  const afterApproval = async (
    job: Job,
    record: CallRow,
    approvalId: ApprovalId,
  ): Promise<CallAnswer> => {
    const before = await permissions.of(job, await runs.progressOf(job.run), { again: true });
    if (before.kind === 'no') return turnDown(job, record, before.decision);
    const { labels, input } = before;
    const now = { labels, input, context: contextOf(job) };
    const answer = await approvals.redeem(job, approvalId, now);
    if (!answer.approved) return turnDown(job, record, notApproved(approvalId, answer.error));
    const may =
      answer.edited === undefined ? before : await permissions.ofEdited(job, answer.edited);
    if (may.kind === 'no') return turnDown(job, record, may.decision);
    const seen = await approvals.seenOf(job, answer, { ...now, edited: may.input });
    if ('code' in seen) return turnDown(job, record, notApproved(approvalId, seen));
    const checks = may.decision.checks.replace(/approval:\w+$/, 'approval:given');
    const decision = { ...may.decision, checks, approval: approvalId };
    return attemptAgain(job, record, { ...may, kind: 'go', decision }, { approvalId, seen });
  };

  const begin = async (job: Job, progress: Progress, may: Go): Promise<CallAnswer> => {
    await marks.note({ ...job, tool: job.tool! });
    moment('toold.before-intent');
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
      outbox.assertTaking();
      const progress = await runs.progressOf(job.run);
      assertWanted(job);
      const may = await permissions.of(job, progress, { again: false });
      assertWanted(job);
      if (may.kind === 'no') return deny(job, progress, may.decision);
      if (may.kind === 'go') return begin(job, progress, may);
      const waiting = events.requested(about(job), may.decision);
      await noted(job, progress, () => store.recordRequested(newCall(job, clock.nowMs()), waiting));
      return askPerson(job, (await store.findCall(job.callId))!, may);
    },
    again,
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

type Go = Permission & { kind: 'go' };
type Ask = Permission & { kind: 'ask' };
type Begun = {
  seq: number;
  attempt: number;
  input: unknown;
  approved?: Approved | undefined;
};
type Approved = { approvalId: ApprovalId; seen: Seen };
