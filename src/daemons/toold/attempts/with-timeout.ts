// Aborts a tool at its timeout. An idempotent tool has then failed; the outcome of any other is
// unknown.
import type { Clock } from '../../../platform/clock.ts';
import { fault } from '../../../wire/errors.ts';
import { type Effect, openOutcomeFault, type Tool, toCallError } from '../tools/tool.ts';
import type { Job } from './job.ts';

/** For a tool that ignores its abort signal. */
const GRACE_MS = 2_000;

export async function withTimeout(
  { clock, job, tool }: { clock: Clock; job: Job; tool: Tool },
  work: (job: Job) => Promise<Effect>,
): Promise<Effect> {
  const { timeoutMs } = tool;
  if (timeoutMs === undefined) return work(job);
  const ending = new AbortController();
  const over = Promise.withResolvers<'over'>();
  const startMs = clock.nowMs();
  const timers = [
    clock.at(startMs + timeoutMs, () => ending.abort()),
    clock.at(startMs + timeoutMs + GRACE_MS, () => over.resolve('over')),
  ];
  const signal = AbortSignal.any([job.signal, ending.signal]);
  const working = work({ ...job, signal });
  try {
    const done = await Promise.race([working, over.promise]);
    if (done !== 'over') return done;
    working.catch(() => undefined);
  } catch (error) {
    if (!ending.signal.aborted || job.signal.aborted) throw error;
  } finally {
    for (const timer of timers) timer.cancel();
  }
  if (!tool.idempotent) return { unknown: true };
  const message = `${tool.name} took longer than its limit of ${timeoutMs / 1_000} s`;
  // The next attempt recalls what happened.
  if (tool.recall !== undefined) throw openOutcomeFault(fault('deadline', message));
  const hint = 'Request less at once, or do without it.';
  return { error: toCallError(fault('limit', message, { hint })) };
}
