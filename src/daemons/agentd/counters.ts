// Counts committed events and queued runs for /metrics, and what each ended task took. All calls,
// tokens and cost are counted by toold and modeld.
import type { Clock } from '../../platform/clock.ts';
import type { Client } from '../../platform/link.ts';
import type { Log } from '../../platform/log.ts';
import type { Metrics } from '../../platform/metrics.ts';
import type { EventDraft } from '../../wire/events.ts';
import type { modeldRoutes } from '../../wire/modeld.ts';
import type { TaskId } from '../../wire/primitives.ts';
import type { tooldRoutes } from '../../wire/toold.ts';
import type { Views } from './store/views.ts';

const COUNTERS: Partial<Record<EventDraft['event'], string>> = {
  'task.created': 'tasks_created',
  'task.started': 'tasks_started',
  'task.ended': 'tasks_ended',
  'run.started': 'runs_started',
  'run.restarted': 'runs_restarted',
  'run.woken': 'runs_woken',
  'run.crashed': 'runs_crashed',
  'run.broken': 'runs_broken',
  'wait.opened': 'waits_opened',
  'message.sent': 'messages_sent',
  'thread.limited': 'threads_limited',
  'artifact.stored': 'artifacts_stored',
};

export function countEvents(metrics: Metrics, events: readonly EventDraft[]): void {
  for (const { event, status } of events) {
    const name = COUNTERS[event];
    if (name !== undefined) metrics.count(name, status === undefined ? {} : { status });
  }
}

type Peers = {
  toold: Pick<Client<typeof tooldRoutes>, 'listCalls'>;
  modeld: Pick<Client<typeof modeldRoutes>, 'usage'>;
};

/** More calls of one task than this are counted as this many. */
const CALLS_COUNTED_MAX = 5_000;
const PAGE_SIZE = 500;
const RECALL = 'memory.recall';
const MEMORY_WRITES: ReadonlySet<string> = new Set(['memory.remember', 'memory.propose']);

type ToolCallCounts = { calls: number; recalls: number; memoryWrites: number };

async function countToolCalls({ toold }: Peers, task_id: TaskId): Promise<ToolCallCounts> {
  const counts: ToolCallCounts = { calls: 0, recalls: 0, memoryWrites: 0 };
  let cursor: string | null | undefined;
  do {
    const page = { task_id, limit: PAGE_SIZE, ...(cursor == null ? {} : { cursor }) };
    const answer = await toold.listCalls({ query: page });
    counts.calls += answer.calls.length;
    for (const { tool, status } of answer.calls) {
      if (status !== 'completed') continue;
      if (tool === RECALL) counts.recalls++;
      if (MEMORY_WRITES.has(tool)) counts.memoryWrites++;
    }
    cursor = answer.cursor;
  } while (cursor !== null && counts.calls < CALLS_COUNTED_MAX);
  return counts;
}

/** Observes what each task took that has ended: as recorded at toold and modeld by then. */
export async function observeEndedTasks(
  metrics: Metrics,
  events: readonly EventDraft[],
  peers: Peers,
  log: Log,
): Promise<void> {
  for (const { event, task_id } of events) {
    if (event !== 'task.ended' || task_id === undefined) continue;
    const id = task_id as TaskId;
    try {
      const [{ total }, { calls, recalls, memoryWrites }] = await Promise.all([
        peers.modeld.usage({ query: { task_id: id } }),
        countToolCalls(peers, id),
      ]);
      metrics.observe('task_steps', total.calls);
      metrics.observe('task_tool_calls', calls);
      metrics.observe('task_memory_recalls', recalls);
      metrics.observe('task_memory_writes', memoryWrites);
      metrics.observe('task_tokens', total.usage.input_tokens + total.usage.output_tokens);
      metrics.observe('task_cost_microusd', total.cost_microusd);
    } catch (error) {
      log.warn('what an ended task took is not in the metrics', { task_id, error });
    }
  }
}

/** Read from the store at each scrape, so that they cost nothing otherwise. */
export function addQueueGauges(
  metrics: Metrics,
  store: Pick<Views, 'counts' | 'queuedSinceMs'>,
  clock: Clock,
): void {
  metrics.gauge('runs_queued', async () => (await store.counts()).runs.queued ?? 0);
  metrics.gauge('runs_live', async () => (await store.counts()).runs.live ?? 0);
  metrics.gauge('queue_age_ms', async () => {
    const sinceMs = await store.queuedSinceMs();
    return sinceMs === undefined ? 0 : Math.max(0, clock.nowMs() - sinceMs);
  });
}
