// What no call tells by itself, in the words of somebody who tells it: what people decided, what
// marked the task, and what its box was refused outside. From the audit log.
import type { AuditEvent } from '../../../wire/events.ts';
import { toOneLine } from '../show/plain.ts';

type EventStep = { at: string; kind: 'answer'; text: string; call_id?: string; rule?: string };

export function buildEventStep(event: AuditEvent, name: string): EventStep[] {
  const text = describeEvent(event, name);
  if (text === undefined) return [];
  return [
    {
      at: event.ts,
      kind: 'answer',
      text,
      ...(event.call_id === undefined ? {} : { call_id: event.call_id }),
      ...(event.policy === undefined ? {} : { rule: event.policy }),
    },
  ];
}

const readText = (event: AuditEvent, key: string): string =>
  toOneLine(String(event.data?.[key] ?? ''));

export function describeEvent(event: AuditEvent, name: string): string | undefined {
  const tool = toOneLine(event.tool ?? 'it');
  const which = `(${readText(event, 'approval_id')})`;
  switch (event.event) {
    case 'approval.decided':
      return `${event.principal ?? 'somebody'} ${describeDecision(event, tool, name)} ${which}`;
    case 'approval.expired':
      return event.status === 'canceled'
        ? `nobody needs an answer about ${tool} any more ${which}`
        : `nobody answered about ${tool} in time, and that is a no ${which}`;
    case 'permit.used':
      return `${tool} was covered by ${readText(event, 'permit_id')}, a permit for this ${event.status ?? 'task'}`;
    case 'approval.redeemed':
      if (event.status === 'refused')
        return `somebody tried to use an approval of ${tool} for something else: refused ${which}`;
      return event.status === 'approved'
        ? `${tool} was let through by the word of ${readText(event, 'by').replaceAll(' ', ' and ')} ${which}`
        : undefined;
    case 'run.marked':
      return `${name} is marked "${event.status ?? ''}" from now on: ${readText(event, 'why')}`;
    case 'network.denied':
      return `egressd did not let ${name} reach ${readText(event, 'host')}:${readText(event, 'port')} (${readText(event, 'reason')})`;
    default:
      return undefined;
  }
}

function describeDecision(event: AuditEvent, tool: string, name: string): string {
  const scope = readText(event, 'for');
  const forScope = scope === '' || scope === 'once' ? '' : ` for this ${scope}`;
  const edited = event.data?.edited_hash == null ? '' : ', with changes';
  const first = event.data?.final === false ? '; a second person must too' : '';
  switch (event.status) {
    case 'approved':
      return `approved ${tool}${forScope}${edited}${first}`;
    case 'rejected':
      return `said no to ${tool}`;
    case 'info':
      return `wanted to know more about ${tool} and asked ${name}`;
    default: {
      const to = readText(event, 'to');
      return `passed ${tool} on${to === '' ? '' : ` to ${to}`}`;
    }
  }
}
