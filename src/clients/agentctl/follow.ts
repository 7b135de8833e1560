// Streams new audit events, and reconnects where the stream broke off.
import { Fault } from '../../wire/errors.ts';
import type { AuditEvent } from '../../wire/events.ts';
import type { RuntimeClient } from './runtime.ts';

export type FollowFilter = {
  event?: string | undefined;
  root_task_id?: string | undefined;
  run_id?: string | undefined;
};

const RETRY_DELAY_MS = 1_000;

/** Returns the newest event's seq, or -1. */
export async function readNewestSeq(runtime: RuntimeClient): Promise<number> {
  const query = { order: 'desc', limit: 1 } as const;
  const { events } = await runtime.call('auditd-ai', 'events', { query });
  return events[0]?.seq ?? -1;
}

type FollowOptions = {
  after: number;
  filter: FollowFilter;
  signal: AbortSignal;
  onOpen?: () => void;
  /** Called once per outage. */
  onDown?: () => void;
};

/** Streams until `signal` aborts. Reconnects after outages; throws other faults. */
export async function* followEvents(
  runtime: RuntimeClient,
  { after, filter, signal, onOpen, onDown }: FollowOptions,
): AsyncGenerator<AuditEvent> {
  let seen = after;
  let isDown = false;
  while (!signal.aborted) {
    try {
      const query = { ...filter, after: seen, follow: '1' } as const;
      const stream = await runtime.open('auditd-ai', 'events', { query }, signal);
      isDown = false;
      onOpen?.();
      for await (const data of readSse(stream)) {
        const event = JSON.parse(data) as AuditEvent;
        if (event.seq <= seen) continue;
        seen = event.seq;
        yield event;
      }
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof Fault && !['runtime_down', 'stopping'].includes(error.code)) throw error;
      if (!isDown) onDown?.();
      isDown = true;
    }
    await sleep(RETRY_DELAY_MS, signal);
  }
}

/** Yields the `data` of each server-sent message. */
export async function* readSse(stream: AsyncIterable<Buffer | string>): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let rest = '';
  let data: string[] = [];
  for await (const chunk of stream) {
    rest += typeof chunk === 'string' ? chunk : decoder.decode(chunk, { stream: true });
    const lines = rest.split(/\r\n|\n|\r(?!$)/);
    rest = lines.pop()!;
    for (const line of lines) {
      if (line === '') {
        if (data.length > 0) yield data.join('\n');
        data = [];
      } else if (line.startsWith('data:')) {
        data.push(line.slice(line[5] === ' ' ? 6 : 5));
      }
    }
  }
}

export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted === true) return resolve();
    const timer = setTimeout(done, ms);
    function done(): void {
      clearTimeout(timer);
      signal?.removeEventListener('abort', done);
      resolve();
    }
    signal?.addEventListener('abort', done, { once: true });
  });
}
