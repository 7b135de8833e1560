// A task, its calls and its parts as a tree of short lines, for watching.
import type { TaskView, WaitView } from '../../../wire/agentd.ts';
import type { ModelCallView } from '../../../wire/modeld.ts';
import type { ToolCallView } from '../../../wire/toold.ts';
import type { Paint, Style } from '../out.ts';
import { count, money, span } from '../show/amounts.ts';
import { oneLine } from '../show/plain.ts';
import { truncate } from '../show/width.ts';
import { describeCall, tokensOf } from './describe-call.ts';
import { callOf, type TaskRecord } from './gather.ts';
import { answerWith } from './progress.ts';
import { SEE_MODELS } from './trouble.ts';

const MARKS: Readonly<Record<string, readonly [mark: string, style: Style]>> = {
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

type Line = { text: string; mark: string; style: Style; dim: boolean };
type Branch = { line: Line; below: Branch[] };
export type TreeOptions = { nowMs: number; columns: number; rows: number; paint: Paint };

/** Where the terminal is too short the calls of ended tasks give way, then the oldest lines. */
export function treeLines(chapter: TaskRecord, options: TreeOptions): string[] {
  const full = render(branchOf(chapter, options.nowMs, { calls: 'all' }), options);
  if (full.length <= options.rows) return full;
  const short = render(branchOf(chapter, options.nowMs, { calls: 'live' }), options);
  if (short.length <= options.rows) return short;
  const hidden = short.length - options.rows + 1;
  return [options.paint('dim', `… ${hidden} lines above`), ...short.slice(hidden)];
}

function render(top: Branch, options: TreeOptions): string[] {
  const lines: string[] = [];
  const add = (branch: Branch, lead: string, ownLead: string): void => {
    const { text, mark, style, dim } = branch.line;
    const room = options.columns - ownLead.length - 2;
    const shown = truncate(text, room);
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

function branchOf(chapter: TaskRecord, nowMs: number, show: { calls: 'all' | 'live' }): Branch {
  const { task } = chapter;
  const hasCalls = show.calls === 'all' || task.ended_at === null;
  const waiting = [...chapter.children];
  const items = [
    ...newestAttempts(chapter.modelCalls).map((call) => ({
      at: call.created_at,
      call,
      kind: 'model' as const,
    })),
    ...chapter.toolCalls.map((call) => ({ at: call.created_at, call, kind: 'tool' as const })),
  ].sort((a, b) => Date.parse(a.at) - Date.parse(b.at));
  const below: Branch[] = [];
  for (const item of hasCalls ? items : []) {
    const line = item.kind === 'model' ? modelLine(item.call) : toolLine(item.call, chapter.waits);
    const children = waiting.filter((child) => item.call.call_id === callOf(child, chapter));
    for (const child of children) waiting.splice(waiting.indexOf(child), 1);
    // A delegation is its part: one line for both.
    const parts = children.map((child) => branchOf(child, nowMs, show));
    const isStuck = item.call === troubleOf(chapter);
    if (parts.length > 0) below.push(...parts);
    else below.push({ line, below: isStuck ? [{ line: ASKED_AGAIN, below: [] }] : [] });
  }
  below.push(...waiting.map((child) => branchOf(child, nowMs, show)));
  return { line: taskLine(chapter, nowMs), below };
}

/** A call that is asked again and again is one line, however long that goes on. */
function newestAttempts(calls: readonly ModelCallView[]): ModelCallView[] {
  const newest = new Map<string, ModelCallView>();
  for (const call of calls) {
    const known = newest.get(call.call_id);
    if (known === undefined || known.attempt < call.attempt) newest.set(call.call_id, call);
  }
  return [...newest.values()];
}

/** The model call that keeps a live task from going on. */
function troubleOf({ task, modelCalls }: TaskRecord): ModelCallView | undefined {
  const last = modelCalls.at(-1);
  return task.status === 'working' && last?.status === 'failed' ? last : undefined;
}

const ASKED_AGAIN: Line = {
  text: `it is asked again; ${SEE_MODELS}`,
  mark: '◌',
  style: 'yellow',
  dim: false,
};

function marked(status: string, text: string, dim = false): Line {
  const [mark, style] = MARKS[status] ?? ['○', 'dim' as const];
  return { text, mark, style, dim };
}

function taskLine({ task, modelCalls }: TaskRecord, nowMs: number): Line {
  const end = task.ended_at === null ? nowMs : Date.parse(task.ended_at);
  const took = span(end - Date.parse(task.created_at));
  const cost = modelCalls.reduce((sum, call) => sum + call.cost_microusd, 0);
  const why = reasonOf(task);
  const facts = [task.status + why, took, ...(modelCalls.length > 0 ? [money(cost)] : [])];
  const name = task.assigned_to ?? 'nobody';
  return marked(task.status, `${name}  ${facts.join(' · ')}  ${oneLine(task.goal)}`);
}

function reasonOf(task: TaskView): string {
  if (task.status === 'completed' || task.status === 'working') return '';
  const why = task.error?.message ?? task.reason;
  return why ? ` (${truncate(oneLine(why), 60)})` : '';
}

function modelLine(call: ModelCallView): Line {
  const { input, output } = tokensOf(call);
  const used = call.usage === null ? '' : `  ${count(input)}+${count(output)} tokens`;
  const cost = call.cost_microusd > 0 ? `  ${money(call.cost_microusd)}` : '';
  const who = call.provider === 'rehearsal' ? `${call.model} (rehearsal)` : call.model;
  const failed = call.error === null ? '' : `  ${oneLine(String(call.error.message ?? ''))}`;
  const tries = call.attempt > 1 ? `  attempt ${call.attempt}` : '';
  return marked(
    call.status,
    `model ${who}${tries}${used}${cost}${failed}`,
    call.status === 'completed',
  );
}

function toolLine(call: ToolCallView, waits: readonly WaitView[]): Line {
  const failed = call.error === null ? '' : `  ${oneLine(String(call.error.message ?? ''))}`;
  const wait = waits.find(({ call_id, status }) => call_id === call.call_id && status === 'open');
  const asks = wait?.kind === 'question' ? `  → ${answerWith(wait)}` : '';
  // Before what was called: that is long, is cut where the terminal ends, and is shown there.
  const needs = wait?.kind === 'approval' ? `  → ${answerWith(wait)}` : '';
  const isDone = call.status === 'completed';
  return marked(call.status, `${call.tool}${needs}  ${describeCall(call)}${failed}${asks}`, isDone);
}
