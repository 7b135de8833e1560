// Performs the effect of one journaled attempt: under the workspace locks, within the tool's
// timeout, and bound to what a person approved.
import type { Clock } from '../../../platform/clock.ts';
import type { Log } from '../../../platform/log.ts';
import { Fault, fault } from '../../../wire/errors.ts';
import type { WorkspaceLocks } from '../boxes/workspace-locks.ts';
import type { Approvals } from '../permission/approvals.ts';
import type { Permissions } from '../permission/permission.ts';
import { type Effect, isOpenOutcome, type Tool, toCallError } from '../tools/tool.ts';
import { type BoxProvider, type Job, makeToolContext } from './job.ts';
import type { CallRecorder } from './record-outcome.ts';
import type { Approved } from './request-approval.ts';
import { withTimeout } from './with-timeout.ts';

export type StartedAttempt = {
  seq: number;
  attempt: number;
  input: unknown;
  approved?: Approved | undefined;
};

/** Throws when the effect did not happen, or may have, and the caller is to call again. */
export type RunEffect = (job: Job, tool: Tool, started: StartedAttempt) => Promise<Effect>;

export function makeRunEffect(options: {
  recorder: CallRecorder;
  permissions: Permissions;
  approvals: Approvals;
  locks: WorkspaceLocks;
  boxOf: BoxProvider;
  clock: Clock;
  log: Log;
}): RunEffect {
  const { recorder, permissions, approvals, locks, boxOf, clock, log } = options;

  /** Decides again after waiting for a lock, because policy may have changed meanwhile. */
  const assertStillAllowed = async (
    job: Job,
    { input, approved }: StartedAttempt,
  ): Promise<void> => {
    const permission = await permissions.recheck(job, input);
    if (permission.kind === 'no') throw fault('denied', permission.decision.error.message);
    if (permission.kind === 'ask' && approved === undefined)
      throw fault('unavailable', `${job.toolName} needs approval by now; call again`);
  };

  return async (job, tool, started) => {
    const { input, approved } = started;
    try {
      const call = { input, isApproved: approved !== undefined };
      return await locks.during(job, call, async (hasWaited) => {
        if (hasWaited) await assertStillAllowed(job, started);
        return withTimeout({ clock, job, tool }, async (timed) => {
          const context = makeToolContext(timed, input, boxOf);
          const binding =
            approved && (await approvals.bindToApproved(timed, input, { ...approved, context }));
          return tool.perform(input, { ...context, ...binding });
        });
      });
    } catch (error) {
      if (error instanceof Fault) {
        const isForLater = error.retry || error.code === 'stale_fence' || error.code === 'canceled';
        if (isForLater && isOpenOutcome(error)) throw error;
        return isForLater ? recorder.release(job, error) : { error: toCallError(error) };
      }
      log.error('tool failed', { tool: tool.name, call_id: job.callId, error });
      if (!tool.idempotent) return { unknown: true };
      return {
        error: toCallError(fault('internal', `${tool.name} failed with an internal error`)),
      };
    }
  };
}
