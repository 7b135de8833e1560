// Renders one audit event as a line.
import type { AuditEvent } from '../../../wire/events.ts';
import type { Paint, Style } from '../out.ts';
import { toOneLine } from './plain.ts';
import { pad, truncate } from './width.ts';

/** Shown for run.broken, whose name reads like run.crashed. */
export const BREAKER_TEXT = 'stopped: no progress (breaker)';
const BAD = /\.(denied|refused|crashed|broken)$/;
const BAD_STATUS = new Set(['failed', 'canceled', 'unknown', 'lost', 'denied', 'rejected']);

export function chooseStyle(event: AuditEvent): Style | undefined {
  if (BAD.test(event.event) || event.allowed === false) return 'red';
  if (event.status !== undefined && BAD_STATUS.has(event.status)) return 'red';
  if (event.event.endsWith('.attempted')) return 'dim';
  return undefined;
}

/** Formats the local time, with the date if it is not today. */
export function formatClock(time: string, nowMs: number): string {
  const at = new Date(time);
  const day = (date: Date) =>
    `${date.getFullYear()}-${padTwo(date.getMonth() + 1)}-${padTwo(date.getDate())}`;
  const hours = `${padTwo(at.getHours())}:${padTwo(at.getMinutes())}:${padTwo(at.getSeconds())}`;
  return day(at) === day(new Date(nowMs)) ? hours : `${day(at)} ${hours}`;
}

const padTwo = (n: number): string => String(n).padStart(2, '0');

export function renderEvent(
  event: AuditEvent,
  { nowMs, columns, paint }: { nowMs: number; columns: number; paint: Paint },
): string {
  const who =
    event.principal ?? (event.agent === undefined ? event.source : `agent:${event.agent}`);
  const note = event.event === 'run.broken' ? BREAKER_TEXT : '';
  const what = [note, event.tool ?? event.model ?? event.artifact, event.status]
    .filter(Boolean)
    .join(' ');
  const rule = event.policy === undefined ? '' : `(${event.policy})`;
  const data = Object.entries(event.data ?? {}).map(([name, value]) => `${name}=${value}`);
  const subject = event.agent === undefined ? '' : `agent:${event.agent}`;
  const about = subject === who ? '' : subject;
  const rest = [about, what, rule, event.task_id, data.join(' ')].filter(Boolean).join('  ');
  const head = `${pad(String(event.seq), 6, 'left')}  ${formatClock(event.ts, nowMs)}  `;
  const cells = [pad(event.event, 20), pad(toOneLine(who), 16), toOneLine(rest)];
  const line = truncate(cells.join(' ').trimEnd(), columns - head.length);
  const style = chooseStyle(event);
  return paint('dim', head) + (style === undefined ? line : paint(style, line));
}
