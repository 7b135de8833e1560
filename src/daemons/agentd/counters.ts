// Counts committed events and queued runs for /metrics. Calls, tokens and cost are counted by toold
// and modeld.
import type { Clock } from '../../platform/clock.ts';
import type { Metrics } from '../../platform/metrics.ts';
import type { EventDraft } from '../../wire/events.ts';
import type { Views } from './store/views.ts';

const COUNTERS: Partial<Record<EventDraft['event'], string>> = {
  'task.created': 'tasks_created',
  'task.started': 'tasks_started',
  'task.ended': 'tasks_ended',
  'run.started': 'runs_started',
  'run.restarted': 'runs_restarted',
  'run.crashed': 'runs_crashed',
  'run.broken': 'runs_broken',
  'wait.opened': 'waits_opened',
  'message.sent': 'messages_sent',
  'artifact.stored': 'artifacts_stored',
};

export function countEvents(metrics: Metrics, events: readonly EventDraft[]): void {
  for (const { event, status } of events) {
    const name = COUNTERS[event];
    if (name !== undefined) metrics.count(name, status === undefined ? {} : { status });
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
