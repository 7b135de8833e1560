// Builds a task's timeline: who requested it, each call with the rule that allowed it, waits,
// decisions, and the end. A subtask's steps follow the call that created it.
import type { MessageView, TaskView, WaitView } from '../../../wire/agentd.ts';
import type { AuditEvent } from '../../../wire/events.ts';
import { formatSpan } from '../show/amounts.ts';
import { BREAKER_TEXT } from '../show/event.ts';
import { toOneLine } from '../show/plain.ts';
import {
  describeCall,
  describeModelCall,
  describeToolOutcome,
  findRule,
  isRehearsal,
  quote,
  sumTokens,
} from './describe-call.ts';
import { buildEventStep } from './describe-event.ts';
import { buildMemorySteps } from './describe-memory.ts';
import { findCreatingCall, type TaskRecord } from './gather.ts';

export type Step = {
  at: string;
  offset_ms: number;
  depth: number;
  task_id: string;
  agent: string | null;
  kind:
    | 'asked'
    | 'taken'
    | 'memory'
    | 'model'
    | 'tool'
    | 'message'
    | 'answer'
    | 'waited'
    | 'crash'
    | 'ended';
  text: string;
  rehearsal?: true;
  rule?: string;
  run_id?: string;
  call_id?: string;
  wait_id?: string;
  message_id?: string;
  memory_ids?: string[];
  cost_microusd?: number;
  tokens?: number;
};

type StepDraft = Omit<Step, 'offset_ms' | 'depth' | 'task_id' | 'agent'>;

export function buildTimeline(record: TaskRecord): Step[] {
  return collectSteps(record, { startMs: Date.parse(record.task.created_at), depth: 0 });
}

function collectSteps(record: TaskRecord, origin: { startMs: number; depth: number }): Step[] {
  const { task } = record;
  const own = listOwnSteps(record).sort((a, b) => Date.parse(a.at) - Date.parse(b.at));
  const waiting = [...record.children];
  const steps: Step[] = [];
  const addChild = (child: TaskRecord): void => {
    waiting.splice(waiting.indexOf(child), 1);
    steps.push(...collectSteps(child, { ...origin, depth: origin.depth + 1 }));
  };
  for (const step of own) {
    // A subtask that no call created (a person set its parent) is placed by its time.
    for (const child of [...waiting])
      if (findCreatingCall(child, record) === undefined && child.task.created_at < step.at)
        addChild(child);
    const offset_ms = Date.parse(step.at) - origin.startMs;
    const { depth } = origin;
    steps.push({ ...step, offset_ms, depth, task_id: task.id, agent: task.assigned_to });
    for (const child of [...waiting])
      if (step.kind === 'tool' && findCreatingCall(child, record) === step.call_id) addChild(child);
  }
  const ended = steps.at(-1)?.kind === 'ended' ? steps.pop() : undefined;
  for (const child of [...waiting]) addChild(child);
  return ended === undefined ? steps : [...steps, ended];
}

function listOwnSteps(record: TaskRecord): StepDraft[] {
  const { task, runs, events = [] } = record;
  const name = task.assigned_to ?? 'unassigned';
  return [
    buildAskedStep(task),
    ...runs.map((run): StepDraft => {
      return { at: run.created_at, kind: 'taken', run_id: run.id, text: `${run.agent} started it` };
    }),
    ...events.flatMap((event) => buildCrashStep(event, name)),
    ...events.flatMap((event) => buildEventStep(event, name)),
    ...buildMemorySteps(record, name),
    ...record.modelCalls.map((call): StepDraft => {
      const rehearsal = isRehearsal(call, events);
      const { input, output } = sumTokens(call);
      return {
        at: call.created_at,
        kind: 'model',
        call_id: call.call_id,
        text: `${name} ${describeModelCall(call, rehearsal)}`,
        cost_microusd: call.cost_microusd,
        tokens: input + output,
        ...(rehearsal ? { rehearsal } : {}),
      };
    }),
    ...record.toolCalls.map((call): StepDraft => {
      const decided = findRule(call.call_id, events);
      const { rule } = decided;
      const text = `${name} ${describeCall(call)} — ${describeToolOutcome(call, decided)}`;
      const ruled = rule === undefined ? {} : { rule };
      return { at: call.created_at, kind: 'tool', call_id: call.call_id, text, ...ruled };
    }),
    ...(record.messages ?? []).flatMap((message) => buildMessageStep(message, name)),
    ...record.waits.flatMap((wait) => buildWaitStep(wait, name)),
    ...buildEndedStep(task, name),
  ];
}

function buildAskedStep(task: TaskView): StepDraft {
  const whom = task.assigned_to === null ? 'for' : `${task.assigned_to} for`;
  const notes = [
    task.retry_of === null ? undefined : `retry of ${task.retry_of}`,
    task.after.length === 0 ? undefined : `starts after ${task.after.join(', ')}`,
    task.deadline === null ? undefined : `deadline ${task.deadline}`,
  ].filter((note) => note !== undefined);
  const more = notes.length === 0 ? '' : ` (${notes.join('; ')})`;
  const by = task.created_by.replace(/^agent:/, '');
  return {
    at: task.created_at,
    kind: 'asked',
    text: `${by} asked ${whom} ${quote(task.goal)}${more}`,
  };
}

function buildCrashStep(event: AuditEvent, name: string): StepDraft[] {
  const step = (text: string): StepDraft[] => {
    const run = event.run_id === undefined ? {} : { run_id: event.run_id };
    return [{ at: event.ts, kind: 'crash', text, ...run }];
  };
  const detail = toOneLine(String(event.data?.detail ?? event.data?.reason ?? ''));
  const why = detail === '' ? '' : `: ${detail}`;
  if (event.event === 'run.crashed') return step(`${name}’s runner crashed${why}`);
  if (event.event === 'run.broken') return step(`${name} ${BREAKER_TEXT}${why}`);
  if (event.event === 'task.assigned')
    return step(`${event.principal ?? 'a person'} assigned it to ${event.agent ?? name}`);
  if (event.event === 'task.updated')
    return step(`${event.principal ?? 'a person'} changed it: ${event.data?.changed ?? ''}`);
  return [];
}

/** Skips messages that other steps show already: the agent's own, delegations, results. */
function buildMessageStep(message: MessageView, name: string): StepDraft[] {
  if (message.from === `agent:${name}`) return [];
  if (['TaskRequest', 'TaskAccepted', 'TaskResult'].includes(message.type)) return [];
  const text = message.parts
    .map((part) => (part.kind === 'text' ? part.text : `[${part.kind}]`))
    .join(' ');
  const from = message.from.replace(/^agent:/, '');
  const sent = `${from} wrote to ${message.to.replace(/^agent:/, '')}: ${quote(text)}`;
  return [{ at: message.sent_at, kind: 'message', message_id: message.id, text: sent }];
}

function buildWaitStep(wait: WaitView, name: string): StepDraft[] {
  if (wait.kind === 'child') return [];
  // The audit events name each person who approved.
  if (wait.kind === 'approval' && wait.outcome === 'answered') return [];
  const about = {
    wait_id: wait.id,
    ...(wait.call_id === null ? {} : { call_id: wait.call_id }),
  };
  const since = (end: string) => formatSpan(Date.parse(end) - Date.parse(wait.opened_at));
  if (wait.ended_at === null) {
    const whom = wait.kind === 'question' ? 'an answer' : `a ${wait.kind}`;
    return [{ at: wait.opened_at, kind: 'waited', text: `${name} waits for ${whom}`, ...about }];
  }
  if (wait.outcome === 'answered' && wait.kind !== 'timer') {
    const answer = wait.answer?.answer ?? wait.answer?.text ?? wait.answer ?? '';
    const words = typeof answer === 'string' ? answer : JSON.stringify(answer);
    const who = (wait.answered_by ?? 'a person').replace(/^agent:/, '');
    const text = `${who} answered after ${since(wait.ended_at)}: ${quote(words)}`;
    return [{ at: wait.ended_at, kind: 'answer', text, ...about }];
  }
  const how = wait.outcome === 'completed' ? 'time reached' : (wait.outcome ?? 'ended');
  const text = `${name} waited ${since(wait.ended_at)} for a ${wait.kind}: ${how}`;
  return [{ at: wait.ended_at, kind: 'waited', text, ...about }];
}

function buildEndedStep(task: TaskView, name: string): StepDraft[] {
  if (task.ended_at === null) return [];
  const why = task.error?.message ?? task.reason;
  const text =
    task.status === 'completed'
      ? `${name} completed: ${quote(task.result ?? '')}`
      : `${name}: ${task.status}${why ? `, ${toOneLine(why)}` : ''}`;
  return [{ at: task.ended_at, kind: 'ended', text }];
}

export type Totals = {
  tasks: number;
  model_calls: number;
  tool_calls: number;
  tokens: number;
  cost_microusd: number;
  rehearsal: boolean;
};

export function sumTotals(steps: readonly Step[]): Totals {
  const sum = (of: (step: Step) => number) => steps.reduce((total, step) => total + of(step), 0);
  const countKind = (kind: Step['kind']) => sum((step) => (step.kind === kind ? 1 : 0));
  return {
    tasks: countKind('asked'),
    model_calls: countKind('model'),
    tool_calls: countKind('tool'),
    tokens: sum(({ tokens = 0 }) => tokens),
    cost_microusd: sum(({ cost_microusd = 0 }) => cost_microusd),
    rehearsal: steps.some(({ rehearsal }) => rehearsal === true),
  };
}
