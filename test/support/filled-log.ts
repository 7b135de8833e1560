// Fills a runtime's audit log with events of one daemon, as its outbox would, so that segments are
// sealed without thousands of tasks.
import { socketPathFor } from '../../src/platform/daemon.ts';
import { type Client, makeClient, socketLink } from '../../src/platform/link.ts';
import { auditRoutes } from '../../src/wire/auditd-ai.ts';
import type { NewEvent } from '../../src/wire/events.ts';
import { eventually, type TestRuntime } from './runtime.ts';

/** Small segments, for agentd.yaml. */
export const SMALL_SEGMENTS = { 'auditd-ai': { segment_bytes_max: 65_536 } };

export const FILLER_TASK = 'task_0000000000000000000filler0';
const BATCH = 200;

export type LogFiller = {
  /** Appends until so many segments are sealed. */
  fill(sealed: number): Promise<void>;
  /** Appends one batch. */
  append(): Promise<void>;
  close(): void;
};

export function makeFiller(runtime: TestRuntime): LogFiller {
  const link = socketLink({
    socketPath: socketPathFor(runtime.runtimeDir, 'auditd-ai', 'peer-toold'),
  });
  const toold: Client<typeof auditRoutes> = makeClient(auditRoutes, link);
  const store = `filler-${process.hrtime.bigint()}`;
  let seq = 0;
  const append = async (): Promise<void> => {
    const events = Array.from({ length: BATCH }, (): NewEvent => {
      seq += 1;
      return {
        id: `${store}.${seq}`,
        ts: new Date().toISOString(),
        event: 'tool.call.ended',
        source: 'toold',
        source_store: store,
        source_seq: seq,
        agent: 'filler',
        task_id: FILLER_TASK,
        tool: 'test.echo',
      };
    });
    await eventually('the log to accept events', () => toold.append({ body: { events } }));
  };
  return {
    append,
    async fill(sealed) {
      for (;;) {
        const { segments } = await runtime.audit.listSegments({ query: { limit: 1_000 } });
        if (segments.filter(({ status }) => status === 'sealed').length >= sealed) return;
        await append();
      }
    },
    close: () => link.close(),
  };
}
