// Renders a task, its calls and its subtasks as a tree of short lines, for `task watch`.
import type { TaskView, WaitView } from '../../../wire/agentd.ts';
import type { ModelCallView } from '../../../wire/modeld.ts';
import type { ToolCallView } from '../../../wire/toold.ts';
import type { Paint, Style } from '../out.ts';
import { formatCount, formatMoney, formatSpan } from '../show/amounts.ts';
import { toOneLine } from '../show/plain.ts';
import { truncate } from '../show/width.ts';
import { describeCall, sumTokens } from './describe-call.ts';
import { findCreatingCall, type TaskRecord } from './gather.ts';
import { SEE_MODELS } from './model-trouble.ts';
import { formatAnswerCommand } from './progress.ts';

const SYMBOLS: Readonly<Record<string, readonly [mark: string, style: Style]>> = {
  completed: ['✓', 'green'],
  failed: ['✗', 'red'],
  rejected: ['✗', 'red'],
  denied: ['✗', 'red'],
  canceled: ['–', 'yellow'],
  unknown: ['?', 'red'],
  working: ['●', 'cyan'],
  running: ['●', 'cyan'],
  waiting: ['◌', 'yellow'],
  blocked: ['◌', 'yellow'],
};

type Line = { text: string; symbol: string; style: Style; dim: boolean };
type Branch = { line: Line; below: Branch[] };
export type TreeOptions = { nowMs: number; columns: number; rows: number; paint: Paint };

/** On a short terminal, drops the calls of ended tasks, then the oldest lines. */
export function renderTree(record: TaskRecord, options: TreeOptions): string[] {
  const full = render(buildBranch(record, options.nowMs, { calls: 'all' }), options);
  if (full.length <= options.rows) return full;
  const short = render(buildBranch(record, options.nowMs, { calls: 'live' }), options);
  if (short.length <= options.rows) return short;
  const hidden = short.length - options.rows + 1;
  return [options.paint('dim', `… ${hidden} lines above`), ...short.slice(hidden)];
}

function render(top: Branch, options: TreeOptions): string[] {
  const lines: string[] = [];
  const add = (branch: Branch, lead: string, ownLead: string): void => {
    const { text, symbol: mark, style, dim } = branch.line;
    const width = options.columns - ownLead.length - 2;
    const shown = truncate(text, width);
    const body = dim ? options.paint('dim', shown) : shown;
    lines.push(`${options.paint('dim', ownLead)}${options.paint(style, mark)} ${body}`);
    branch.below.forEach((child, i) => {
      const isLast = i === branch.below.length - 1;
      add(child, `${lead}${isLast ? '   ' : '│  '}`, `${lead}${isLast ? '└─ ' : '├─ '}`);
    });
  };
  add(top, '', '');
  return lines;
}

function buildBranch(record: TaskRecord, nowMs: number, show: { calls: 'all' | 'live' }): Branch {
  const { task } = record;
  const hasCalls = show.calls === 'all' || task.ended_at === null;
  const waiting = [...record.children];
  const items = [
    ...keepNewestAttempts(record.modelCalls).map((call) => ({
      at: call.created_at,
      call,
      kind: 'model' as const,
    })),
    ...record.toolCalls.map((call) => ({ at: call.created_at, call, kind: 'tool' as const })),
  ].sort((a, b) => Date.parse(a.at) - Date.parse(b.at));
  const below: Branch[] = [];
  for (const item of hasCalls ? items : []) {
    const line =
      item.kind === 'model' ? makeModelLine(item.call) : makeToolLine(item.call, record.waits);
    const children = waiting.filter(
      (child) => item.call.call_id === findCreatingCall(child, record),
    );
    for (const child of children) waiting.splice(waiting.indexOf(child), 1);
    // A delegation and its subtask share one line.
    const parts = children.map((child) => buildBranch(child, nowMs, show));
    const isStuck = item.call === findStuckCall(record);
    if (parts.length > 0) below.push(...parts);
    else below.push({ line, below: isStuck ? [{ line: RETRY_LINE, below: [] }] : [] });
  }
  below.push(...waiting.map((child) => buildBranch(child, nowMs, show)));
  return { line: makeTaskLine(record, nowMs), below };
}

/** A retried call is one line. */
function keepNewestAttempts(calls: readonly ModelCallView[]): ModelCallView[] {
  const newest = new Map<string, ModelCallView>();
  for (const call of calls) {
    const known = newest.get(call.call_id);
    if (known === undefined || known.attempt < call.attempt) newest.set(call.call_id, call);
  }
  return [...newest.values()];
}

/** Finds the failed model call that blocks a live task. */
function findStuckCall({ task, modelCalls }: TaskRecord): ModelCallView | undefined {
  const last = modelCalls.at(-1);
  return task.status === 'working' && last?.status === 'failed' ? last : undefined;
}

const RETRY_LINE: Line = {
  text: `retrying; ${SEE_MODELS}`,
  symbol: '◌',
  style: 'yellow',
  dim: false,
};

function makeLine(status: string, text: string, dim = false): Line {
  const [mark, style] = SYMBOLS[status] ?? ['○', 'dim' as const];
  return { text, symbol: mark, style, dim };
}

function makeTaskLine({ task, modelCalls }: TaskRecord, nowMs: number): Line {
  const end = task.ended_at === null ? nowMs : Date.parse(task.ended_at);
  const took = formatSpan(end - Date.parse(task.created_at));
  const cost = modelCalls.reduce((sum, call) => sum + call.cost_microusd, 0);
  const why = formatReason(task);
  const facts = [task.status + why, took, ...(modelCalls.length > 0 ? [formatMoney(cost)] : [])];
  const name = task.assigned_to ?? 'unassigned';
  return makeLine(task.status, `${name}  ${facts.join(' · ')}  ${toOneLine(task.goal)}`);
}

function formatReason(task: TaskView): string {
  if (task.status === 'completed' || task.status === 'working') return '';
  const why = task.error?.message ?? task.reason;
  return why ? ` (${truncate(toOneLine(why), 60)})` : '';
}

function makeModelLine(call: ModelCallView): Line {
  const { input, output } = sumTokens(call);
  const used = call.usage === null ? '' : `  ${formatCount(input)}+${formatCount(output)} tokens`;
  const cost = call.cost_microusd > 0 ? `  ${formatMoney(call.cost_microusd)}` : '';
  const who = call.provider === 'rehearsal' ? `${call.model} (rehearsal)` : call.model;
  const failed = call.error === null ? '' : `  ${toOneLine(String(call.error.message ?? ''))}`;
  const tries = call.attempt > 1 ? `  attempt ${call.attempt}` : '';
  return makeLine(
    call.status,
    `model ${who}${tries}${used}${cost}${failed}`,
    call.status === 'completed',
  );
}

function makeToolLine(call: ToolCallView, waits: readonly WaitView[]): Line {
  const failed = call.error === null ? '' : `  ${toOneLine(String(call.error.message ?? ''))}`;
  const wait = waits.find(({ call_id, status }) => call_id === call.call_id && status === 'open');
  const asks = wait?.kind === 'question' ? `  → ${formatAnswerCommand(wait)}` : '';
  // Comes before the arguments, which are long and may be truncated.
  const needs = wait?.kind === 'approval' ? `  → ${formatAnswerCommand(wait)}` : '';
  const isDone = call.status === 'completed';
  return makeLine(
    call.status,
    `${call.tool}${needs}  ${describeCall(call)}${failed}${asks}`,
    isDone,
  );
}
