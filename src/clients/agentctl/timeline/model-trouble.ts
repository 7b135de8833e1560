// Reports model calls that fail and are retried, which block a task without changing it. Each
// failure is reported once, and briefly each time the task restarts only to retry.
import type { AuditEvent } from '../../../wire/events.ts';
import { toOneLine } from '../show/plain.ts';
import type { TaskChange } from './progress.ts';

export type ModelTrouble = {
  /** Returns the sentence to print, if any. */
  onEvent(event: AuditEvent): string | undefined;
  /** Relabels `working` while the task only retries a failed model. */
  relabel(change: TaskChange): TaskChange;
};

export const SEE_MODELS = 'see which models are available: agentctl model list';

export function makeModelTrouble(): ModelTrouble {
  const reported = new Map<string, string>();
  /** By task id, the model that failed last. */
  const failedModels = new Map<string, string>();
  return {
    onEvent(event) {
      if (event.event !== 'model.call.ended') return undefined;
      const who = event.agent ?? 'an agent';
      const task = event.task_id ?? '';
      if (event.status !== 'failed') {
        reported.delete(who);
        failedModels.delete(task);
        return undefined;
      }
      const { provider = '?', error = 'failed' } = event.data ?? {};
      const model = toOneLine(`${event.model ?? '?'} (${provider})`);
      failedModels.set(task, model);
      const text = `${who}: no response from model ${model}: ${toOneLine(String(error))}; retrying`;
      if (reported.get(who) === text) return undefined;
      reported.set(who, text);
      return text;
    },
    relabel(change) {
      const model = failedModels.get(change.task_id);
      if (change.kind !== 'working' || model === undefined) return change;
      const text = `${change.agent ?? 'an agent'}: retries model ${model}; ${SEE_MODELS}`;
      return { ...change, kind: 'trouble', text };
    },
  };
}
