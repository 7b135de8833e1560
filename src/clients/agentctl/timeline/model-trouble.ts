// What keeps a task from going on without any change in it: a model that does not answer is asked
// again and again, and who waits for the task should know. Each trouble is told once, and shortly
// each time the task is taken up only to ask once more.
import type { AuditEvent } from '../../../wire/events.ts';
import { toOneLine } from '../show/plain.ts';
import type { TaskChange } from './progress.ts';

export type ModelTrouble = {
  /** The sentence to say now, if there is one. */
  onEvent(event: AuditEvent): string | undefined;
  /** The change as it is to be told: whoever asks a dead model again does not work. */
  relabel(change: TaskChange): TaskChange;
};

export const SEE_MODELS = 'see which models answer: agentctl model list';

export function makeModelTrouble(): ModelTrouble {
  const reported = new Map<string, string>();
  /** By task, the model that did not answer last. */
  const failedModels = new Map<string, string>();
  return {
    onEvent(event) {
      if (event.event !== 'model.call.ended') return undefined;
      const who = event.agent ?? 'somebody';
      const task = event.task_id ?? '';
      if (event.status !== 'failed') {
        reported.delete(who);
        failedModels.delete(task);
        return undefined;
      }
      const { provider = '?', error = 'failed' } = event.data ?? {};
      const model = toOneLine(`${event.model ?? '?'} (${provider})`);
      failedModels.set(task, model);
      const text = `${who}: no answer from the model ${model}: ${toOneLine(String(error))}; it is asked again`;
      if (reported.get(who) === text) return undefined;
      reported.set(who, text);
      return text;
    },
    relabel(change) {
      const model = failedModels.get(change.task_id);
      if (change.kind !== 'working' || model === undefined) return change;
      const text = `${change.agent ?? 'somebody'}: asks the model ${model} again; ${SEE_MODELS}`;
      return { ...change, kind: 'trouble', text };
    },
  };
}
