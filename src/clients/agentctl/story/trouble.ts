// What keeps a task from going on without any change in it: a model that does not answer is asked
// again and again, and who waits for the task should know. Each trouble is told once.
import type { AuditEvent } from '../../../wire/events.ts';
import { oneLine } from '../show/plain.ts';

/** The sentence to say now, if there is one. */
export type Trouble = (event: AuditEvent) => string | undefined;

export function makeTrouble(): Trouble {
  const told = new Map<string, string>();
  return (event) => {
    if (event.event !== 'model.call.ended') return undefined;
    const who = event.agent ?? 'somebody';
    if (event.status !== 'failed') {
      told.delete(who);
      return undefined;
    }
    const { provider = '?', error = 'failed' } = event.data ?? {};
    const model = oneLine(`${event.model ?? '?'} (${provider})`);
    const text = `${who}: no answer from the model ${model}: ${oneLine(String(error))}; it is asked again`;
    if (told.get(who) === text) return undefined;
    told.set(who, text);
    return text;
  };
}
