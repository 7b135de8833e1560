// Describes tool and model calls and their outcomes for the timeline.
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

/** The agent is the subject: 'delegated a subtask to coder'. */
export function describeCall({ tool, arguments: args }: ToolCallView): string {
  const name = (key: string) => truncate(toOneLine(toText(args[key] ?? '?')), 60);
  switch (tool) {
    case 'task.delegate':
      return `delegated a subtask to ${name('agent')}`;
    case 'task.finish':
      return args.status === 'failed' ? 'reported failure' : 'reported completion';
    case 'message.send':
      return `wrote to ${name('to')}: ${quote(toText(args.text ?? ''))}`;
    case 'person.ask':
      return `asked a person: ${quote(toText(args.question ?? ''))}`;
    case 'artifact.put':
      return `stored ${name('name')}`;
    case 'artifact.get':
      return `read ${name('id')}`;
    case 'skill.read':
      return `read the skill ${name('name')}`;
    case 'skill.propose':
      return `proposed the skill ${name('name')}`;
    case 'persona.propose':
      return 'proposed what it should be told';
    case 'team.list':
      return 'listed its colleagues';
    case 'timer.wait':
      return `slept for ${name('after_s')} s`;
    default:
      return `called ${tool} with ${truncate(toOneLine(toText(args)), TEXT_COLUMNS_MAX)}`;
  }
}

/** Finds the rule that allowed or denied the call in the audit events. */
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
  const allowed = asked ? `sent for approval${by}` : `allowed${by}`;
  const message = toOneLine(toText(call.error?.message ?? ''));
  const why = message === '' ? '' : `: ${truncate(message, 200)}`;
  switch (call.status) {
    case 'denied':
      return `denied${by}${why}`;
    case 'completed':
      return rule === undefined ? 'done' : `${allowed}, done`;
    case 'failed':
      return `${allowed}, but failed${why}`;
    case 'unknown':
      return `outcome unknown${why}`;
    case 'waiting':
      return 'still waiting';
    default:
      return call.status + why;
  }
}

const STOPS: Readonly<Record<string, string>> = {
  end: 'it responded',
  tool_calls: 'it called tools',
  max_tokens: 'its response was cut off at the limit',
  stop_sequence: 'it reached a stop sequence',
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
    const how = call.status === 'running' ? 'no response yet' : `${call.status} ${error}`.trim();
    return `called the model ${who}: ${truncate(how, 200)}`;
  }
  const { input, output } = sumTokens(call);
  const used = `${formatCount(input)} tokens in, ${formatCount(output)} out, ${formatMoney(call.cost_microusd)}`;
  return `called the model ${who}: ${STOPS[call.stop_reason ?? 'other']}; ${used}`;
}
