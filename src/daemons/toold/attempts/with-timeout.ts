// The time that a tool may take: past it, what it does is given up. What can be done again has then
// failed; of the rest nobody knows how far it came.
import type { Clock } from '../../../platform/clock.ts';
import { fault } from '../../../wire/errors.ts';
import { type Effect, openOutcomeFault, type Tool, toCallError } from '../tools/tool.ts';
import type { Job } from './job.ts';

/** For a tool that does not listen to its signal. */
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
  const message = `${tool.name} took longer than the ${timeoutMs / 1_000} s it may take`;
  // Whoever remembers what it did is asked when the call is asked again.
  if (tool.recall !== undefined) throw openOutcomeFault(fault('deadline', message));
  const hint = 'Ask for less at once, or do without it.';
  return { error: toCallError(fault('limit', message, { hint })) };
}
