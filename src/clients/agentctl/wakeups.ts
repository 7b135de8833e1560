// A bell that rings when the audit log has something new of what is asked for, so that nobody looks
// again before there is something to see. Where the log cannot be heard, whoever waits looks by the
// clock.
import type { AuditEvent } from '../../wire/events.ts';
import { type FollowFilter, followEvents, sleep } from './follow.ts';
import type { RuntimeClient } from './runtime.ts';

export type Wakeups = {
  /** The log is being listened to: whatever happens from now on rings. */
  isConnected(): boolean;
  /** What rang until now is being looked at. */
  reset(): void;
  /** Resolves when it has rung since, or after so long. */
  wait(ms: number): Promise<void>;
  stop(): void;
};

export type WakeupOptions = {
  /** From where on, and what; nothing when the log cannot be asked. */
  from: Promise<{ after: number; filter: FollowFilter } | undefined>;
  outer: AbortSignal;
  onEvent?: (event: AuditEvent) => void;
};

export function subscribeWakeups(runtime: RuntimeClient, options: WakeupOptions): Wakeups {
  const stopped = new AbortController();
  const signal = AbortSignal.any([options.outer, stopped.signal]);
  let wake = new AbortController();
  let isPending = false;
  let isOpen = false;
  const notify = (): void => {
    isPending = true;
    wake.abort();
  };
  const onDown = (): void => {
    isOpen = false;
    notify();
  };
  const onOpen = (): void => {
    isOpen = true;
  };
  const listen = async (): Promise<void> => {
    const from = await options.from;
    if (from === undefined) return;
    const on = { onOpen: onOpen, onAway: onDown };
    for await (const event of followEvents(runtime, { ...from, ...on, signal })) {
      options.onEvent?.(event);
      notify();
    }
  };
  listen().catch(onDown);
  return {
    isConnected: () => isOpen,
    reset(): void {
      isPending = false;
      wake = new AbortController();
    },
    wait: (ms) =>
      isPending ? Promise.resolve() : sleep(ms, AbortSignal.any([wake.signal, signal])),
    stop: () => stopped.abort(),
  };
}
