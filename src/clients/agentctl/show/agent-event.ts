// Describes an agent's events in one sentence each, with the agent as the subject. `audit` and
// --json show the whole event.
import type { AuditEvent } from '../../../wire/events.ts';
import type { Paint } from '../out.ts';
import { describeEvent } from '../timeline/describe-event.ts';
import { formatCount, formatMoney, formatSize } from './amounts.ts';
import { BREAKER_TEXT, chooseStyle, formatClock } from './event.ts';
import { toOneLine } from './plain.ts';
import { pad, truncate } from './width.ts';

type Describe = (event: AuditEvent) => string;

const readText = (event: AuditEvent, key: string): string => String(event.data?.[key] ?? '');
const readNumber = (event: AuditEvent, key: string): number => Number(event.data?.[key] ?? 0);
const formatTask = (event: AuditEvent): string => event.task_id ?? 'a task';

function describeModelCall(event: AuditEvent): string {
  const name = event.model ?? '?';
  const who = `${name} (${readText(event, 'provider') || '?'})`;
  if (event.status !== 'completed')
    return `called the model ${who}: ${event.status} ${readText(event, 'error')}`;
  const input = ['input_tokens', 'cache_read_tokens', 'cache_write_tokens'];
  const tokens = input.reduce((sum, key) => sum + readNumber(event, key), 0);
  const used = `${formatCount(tokens)}+${formatCount(readNumber(event, 'output_tokens'))} tokens`;
  return `called the model ${who}: ${used}, ${formatMoney(readNumber(event, 'cost_microusd'))}`;
}

const DESCRIPTIONS: Readonly<Record<string, Describe>> = {
  'agent.loaded': () => 'was created',
  'agent.changed': () => 'was changed',
  'agent.removed': () => 'was removed',
  'agent.paused': (event) => `was paused by ${event.principal}`,
  'agent.resumed': (event) => `was resumed by ${event.principal}`,
  'agent.stopped': (event) => `was stopped by ${event.principal}`,
  'task.created': (event) => `was assigned ${formatTask(event)} by ${event.principal}`,
  'task.assigned': (event) => `was assigned ${formatTask(event)} by ${event.principal}`,
  'task.updated': (event) => `had ${formatTask(event)} changed by ${event.principal}`,
  'task.started': (event) => `started ${formatTask(event)}`,
  'task.waiting': (event) => `${event.status ?? 'waits'}`,
  'task.ended': (event) => `${event.status} ${formatTask(event)}${formatError(event)}`,
  'run.started': () => 'its runner started',
  'run.woken': () => 'its wait ended and it went on',
  'run.restarted': () => 'its runner restarted and resumed',
  'run.parked': () => 'its runner is parked until the wait ends',
  'run.crashed': (event) => `its runner crashed: ${readText(event, 'detail')}`,
  'run.broken': () => BREAKER_TEXT,
  'run.released': (event) => `its runner stopped for now: ${readText(event, 'detail')}`,
  'run.ended': () => 'its run ended',
  'model.call.attempted': (event) => `calls the model ${event.model ?? '?'}`,
  'model.call.ended': describeModelCall,
  'tool.call.attempted': (event) => `calls ${event.tool}, allowed by ${event.policy ?? '?'}`,
  'tool.call.ended': (event) => `called ${event.tool}: ${event.status}${formatError(event)}`,
  'tool.call.denied': (event) => `was denied ${event.tool} by ${event.policy ?? 'policy'}`,
  'tool.call.waiting': (event) =>
    `waits for ${readText(event, 'wait_kind') || 'the end'} in ${event.tool}`,
  'thread.limited': (event) =>
    `may not write to ${readText(event, 'to')}: limit of the thread (${event.status})`,
  'message.sent': (event) => `wrote to ${readText(event, 'to')} (${event.status})`,
  'artifact.stored': (event) => `stored ${event.artifact} (${readText(event, 'bytes')} bytes)`,
  'persona.changed': () => 'got the persona that it proposed',
  'skill.changed': (event) => `proposed the skill ${readText(event, 'name')}, which is in force`,
  'artifact.shared': (event) => `shared ${event.artifact} with the team`,
  'artifact.read': (event) => `read ${event.artifact}`,
  'sandbox.opened': (event) =>
    `got a box for its ${readText(event, 'kind')}: ${readText(event, 'level')}, uid ${readText(event, 'uid')}`,
  'network.allowed': (event) =>
    `connected to ${readText(event, 'host')}:${readText(event, 'port')}`,
  'network.closed': (event) =>
    `its connection to ${readText(event, 'host')}:${readText(event, 'port')} ended: ` +
    `${formatSize(readNumber(event, 'bytes_sent'))} sent, ${formatSize(readNumber(event, 'bytes_received'))} received`,
  'sandbox.command.attempted': (event) => `${event.principal} starts a command in its box`,
  'sandbox.command.ended': (event) =>
    `a command of ${event.principal} in its box ended (${event.status ?? 'ended'})`,
  'workspace.disarmed': (event) =>
    `made ${readText(event, 'path')} (${readText(event, 'kind')}), which was removed from the workspace`,
  'sandbox.closed': (event) =>
    event.status === 'seal'
      ? 'its box was closed: a denied or protected file was replaced on the host'
      : `its box was closed (${event.status ?? 'ended'})`,
};

function formatError(event: AuditEvent): string {
  const error = event.data?.error;
  return error == null ? '' : ` (${error})`;
}

function describe(event: AuditEvent, name: string): string {
  const known = DESCRIPTIONS[event.event]?.(event) ?? describeEvent(event, name);
  if (known !== undefined) return toOneLine(known);
  const about = [event.tool, event.status, event.policy].filter(Boolean).join(' ');
  return toOneLine(about);
}

export function renderAgentEvent(
  event: AuditEvent,
  { nowMs, columns, paint }: { nowMs: number; columns: number; paint: Paint },
): string {
  const head = `${formatClock(event.ts, nowMs)}  `;
  const text = `${pad(event.event, 20)} ${describe(event, event.agent ?? 'it')}`;
  const line = truncate(text, columns - head.length);
  const style = chooseStyle(event);
  return paint('dim', head) + (style === undefined ? line : paint(style, line));
}

/** Drops attempts whose end is listed too. */
export function dropAttempts(events: readonly AuditEvent[]): AuditEvent[] {
  const isEnd = /^(tool|model)\.call\.ended$/;
  const ended = new Set(events.filter((e) => isEnd.test(e.event)).map((e) => e.call_id));
  return events.filter(
    (event) => !(event.event.endsWith('.call.attempted') && ended.has(event.call_id)),
  );
}
