// Describes audit events that no call shows: people's decisions, marks, and denied connections.
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
      return `${event.principal ?? 'a person'} ${describeDecision(event, tool, name)} ${which}`;
    case 'approval.expired':
      return event.status === 'canceled'
        ? `the approval of ${tool} was canceled ${which}`
        : `the approval of ${tool} expired ${which}`;
    case 'permit.used':
      return `${tool} was covered by ${readText(event, 'permit_id')}, a permit for this ${event.status ?? 'task'}`;
    case 'approval.redeemed':
      if (event.status === 'refused')
        return `an approval of ${tool} was presented for a different call and refused ${which}`;
      return event.status === 'approved'
        ? `${tool} was approved by ${readText(event, 'by').replaceAll(' ', ' and ')} ${which}`
        : undefined;
    case 'policy.denied':
      return event.status === 'approval.decide'
        ? `policy did not let ${event.principal ?? 'a person'} decide about ${tool} ${which}`
        : undefined;
    case 'task.applied':
    case 'task.discarded':
    case 'task.undone':
    case 'task.changes.refused':
      return describeAction(event);
    case 'memory.proposed':
      return `${name} proposed to remember ${readText(event, 'memory_id')}, which waits for a person`;
    case 'run.marked':
      return `${name} is now marked "${event.status ?? ''}": ${readText(event, 'why')}`;
    case 'restore.lifted':
      return `${event.principal ?? 'a person'} confirmed that nothing happened after ${readText(event, 'backup')}`;
    case 'network.denied':
      return `egressd denied ${name} the connection to ${readText(event, 'host')}:${readText(event, 'port')} (${readText(event, 'reason')})`;
    default:
      return undefined;
  }
}

function describeAction(event: AuditEvent): string {
  const who = event.principal ?? 'a person';
  const count = readText(event, event.event === 'task.discarded' ? 'discarded' : 'files');
  const applyId = readText(event, 'apply_id');
  switch (event.event) {
    case 'task.applied':
      return `${who} applied ${count} changes to the directory (${applyId})`;
    case 'task.discarded':
      return `${who} discarded ${count} changes`;
    case 'task.undone':
      return `${who} took ${applyId} back: ${count} paths restored`;
    default:
      return `the ${event.status ?? 'apply'} of ${who} was refused (${readText(event, 'error')})`;
  }
}

function describeDecision(event: AuditEvent, tool: string, name: string): string {
  const scope = readText(event, 'for');
  const forScope = scope === '' || scope === 'once' ? '' : ` for this ${scope}`;
  const edited = event.data?.edited_hash == null ? '' : ', with changes';
  const first = event.data?.final === false ? '; a second approval is needed' : '';
  const byMail = event.data?.channel === 'mail' ? ' by mail' : '';
  switch (event.status) {
    case 'approved':
      return `approved ${tool}${forScope}${edited}${byMail}${first}`;
    case 'rejected':
      return `rejected ${tool}${byMail}`;
    case 'info':
      return `asked ${name} for more information about ${tool}`;
    default: {
      const to = readText(event, 'to');
      return `escalated ${tool}${to === '' ? '' : ` to ${to}`}`;
    }
  }
}
