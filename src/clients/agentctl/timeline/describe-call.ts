// A tool call, a model call and how each went, in the words of somebody who tells it.
import type { AuditEvent } from '../../../wire/events.ts';
import type { ModelCallView } from '../../../wire/modeld.ts';
import type { ToolCallView } from '../../../wire/toold.ts';
import { formatCount, formatMoney } from '../show/amounts.ts';
import { toOneLine } from '../show/plain.ts';
import { truncate } from '../show/width.ts';

const TEXT_COLUMNS_MAX = 160;

export const quote = (text: string): string => `"${truncate(toOneLine(text), TEXT_COLUMNS_MAX)}"`;

function toText(value: unknown): string {
  return typeof value === 'string' ? value : (JSON.stringify(value) ?? '');
}

/** What the agent did, with itself as the subject: 'gave coder a part: "…"'. */
export function describeCall({ tool, arguments: given }: ToolCallView): string {
  const name = (key: string) => truncate(toOneLine(toText(given[key] ?? '?')), 60);
  switch (tool) {
    case 'task.delegate':
      return `gave ${name('agent')} a part of it`;
    case 'task.finish':
      return given.status === 'failed' ? 'gave up' : 'said it is done';
    case 'message.send':
      return `wrote to ${name('to')}: ${quote(toText(given.text ?? ''))}`;
    case 'person.ask':
      return `asked a person: ${quote(toText(given.question ?? ''))}`;
    case 'artifact.put':
      return `stored ${name('name')}`;
    case 'artifact.get':
      return `read ${name('id')}`;
    case 'timer.wait':
      return `slept for ${name('after_s')} s`;
    default:
      return `called ${tool} with ${truncate(toOneLine(toText(given)), TEXT_COLUMNS_MAX)}`;
  }
}

/** The rule that let it through or stopped it, where the log has it. */
export function findRule(callId: string, events: readonly AuditEvent[] = []) {
  const decided = events.filter((event) => event.call_id === callId && event.policy !== undefined);
  const last = decided.at(-1);
  return { rule: last?.policy, asked: last?.data?.answer === 'ask' };
}

export function describeToolOutcome(
  call: ToolCallView,
  { rule, asked }: { rule: string | undefined; asked: boolean },
): string {
  const by = rule === undefined ? '' : ` by ${rule}`;
  const allowed = asked ? `a person was asked${by}` : `allowed${by}`;
  const said = toOneLine(toText(call.error?.message ?? ''));
  const why = said === '' ? '' : `: ${truncate(said, 200)}`;
  switch (call.status) {
    case 'denied':
      return `denied${by}${why}`;
    case 'completed':
      return rule === undefined ? 'done' : `${allowed}, done`;
    case 'failed':
      return `${allowed}, but failed${why}`;
    case 'unknown':
      return `nobody knows whether it happened${why}`;
    case 'waiting':
      return 'still waiting';
    default:
      return call.status + why;
  }
}

const STOPS: Readonly<Record<string, string>> = {
  end: 'it answered',
  tool_calls: 'it asked for tools',
  max_tokens: 'its answer was cut off at the limit',
  stop_sequence: 'it came to a stop word',
  refusal: 'it refused',
  other: 'it stopped',
};

export function isRehearsal(call: ModelCallView, events: readonly AuditEvent[] = []): boolean {
  if (call.provider === 'rehearsal') return true;
  return events.some((e) => e.call_id === call.call_id && e.data?.rehearsal === true);
}

export function sumTokens(call: ModelCallView): { input: number; output: number } {
  const used = call.usage;
  if (used === null) return { input: 0, output: 0 };
  return {
    input: used.input_tokens + used.cache_read_tokens + used.cache_write_tokens,
    output: used.output_tokens,
  };
}

export function describeModelCall(call: ModelCallView, rehearsal: boolean): string {
  const again = call.attempt > 1 ? `again (attempt ${call.attempt}) ` : '';
  const by = rehearsal ? 'rehearsal' : call.provider;
  const who = `${again}${call.model} (${by})`;
  const error = toOneLine(toText(call.error?.message ?? ''));
  if (call.status !== 'completed') {
    const how = call.status === 'running' ? 'no answer yet' : `${call.status} ${error}`.trim();
    return `asked the model ${who}: ${truncate(how, 200)}`;
  }
  const { input, output } = sumTokens(call);
  const used = `${formatCount(input)} tokens in, ${formatCount(output)} out, ${formatMoney(call.cost_microusd)}`;
  return `asked the model ${who}: ${STOPS[call.stop_reason ?? 'other']}; ${used}`;
}
