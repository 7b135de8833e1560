// Counts committed events for /metrics. Calls, tokens and cost are counted by toold and modeld.
import type { Metrics } from '../../platform/metrics.ts';
import type { EventDraft } from '../../wire/events.ts';

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
