// Wakes a waiting command when the audit log has a new matching event. While the log is unavailable
// the command polls.
import type { AuditEvent } from '../../wire/events.ts';
import { type FollowFilter, followEvents, sleep } from './follow.ts';
import type { RuntimeClient } from './runtime.ts';

export type Wakeups = {
  /** The stream is open: every event from now on wakes. */
  isConnected(): boolean;
  /** Forgets earlier wakeups; call it before reading state. */
  reset(): void;
  /** Resolves at a wakeup since the last reset, or after `ms`. */
  wait(ms: number): Promise<void>;
  stop(): void;
};

export type WakeupOptions = {
  /** Start and filter; undefined when the log is unavailable. */
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
    const on = { onOpen, onDown };
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
