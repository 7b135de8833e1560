// agentctl task list, show, cancel, keep.
import type { RunView, TaskView, ThreadView, WaitView } from '../../../wire/agentd.ts';
import type { ModelCallView, modeldRoutes } from '../../../wire/modeld.ts';
import type { RouteResponse } from '../../../wire/route.ts';
import type { Session } from '../command.ts';
import { makePartialResult, renderMissing } from '../missing.ts';
import type { Out, Style } from '../out.ts';
import type { RuntimeClient } from '../runtime.ts';
import {
  formatCount,
  formatMoney,
  formatRelative,
  formatSpan,
  pluralize,
} from '../show/amounts.ts';
import { describeDisarmed, readDisarmed } from '../show/disarmed.ts';
import { replaceControls, toOneLine } from '../show/plain.ts';
import { renderFields, renderTable } from '../show/table.ts';
import { describeWaitingChanges } from '../show/waiting-changes.ts';
import { renderRehearsalNotice } from '../timeline/outcome.ts';
import { formatAnswerCommand } from '../timeline/progress.ts';

const STYLES: Partial<Record<TaskView['status'], Style>> = {
  completed: 'green',
  failed: 'red',
  rejected: 'red',
  working: 'cyan',
  waiting: 'yellow',
  blocked: 'yellow',
  canceled: 'dim',
};

const HEADERS = [
  { title: 'ID', minWidth: 'distinct' },
  { title: 'STATUS' },
  { title: 'AGENT', minWidth: 6 },
  { title: 'CREATED' },
  { title: 'GOAL', minWidth: 8 },
] as const;

const formatStatus = (status: TaskView['status']) => {
  const style = STYLES[status];
  return style === undefined ? status : { text: status, style };
};

export async function list({ args, out, runtime }: Session): Promise<void> {
  const query = {
    status: args.text('status') as TaskView['status'] | undefined,
    agent: args.text('agent'),
    parent_task_id: args.text('parent'),
    root_task_id: args.text('root'),
    cursor: args.text('cursor'),
    limit: args.number('limit') ?? 50,
  };
  const answer = await runtime().call('agentd', 'listTasks', { query });
  // Reports an unknown agent instead of an empty list.
  if (answer.tasks.length === 0 && query.agent !== undefined)
    await runtime().call('agentd', 'getAgent', { params: { name: query.agent } });
  out.print(answer, () => {
    if (answer.tasks.length === 0) return ['No tasks.'];
    const now = Date.now();
    const rows = answer.tasks.map((task) => [
      task.id,
      formatStatus(task.status),
      task.assigned_to ?? '–',
      formatRelative(task.created_at, now),
      (task.parent_task_id === null ? '' : '↳ ') + task.goal,
    ]);
    const more = answer.cursor === null ? [] : [`More: --cursor ${answer.cursor}`];
    return [...renderTable(HEADERS, rows, out), ...more];
  });
}

export async function show({ args, out, runtime }: Session): Promise<void> {
  const id = args.positionals[0]!;
  const query = { task_id: id, limit: 100 };
  const parts = makePartialResult();
  const [{ task }, { runs }, { waits }, last, usage, made] = await Promise.all([
    runtime().call('agentd', 'getTask', { params: { id } }),
    runtime().call('agentd', 'listRuns', { query }),
    runtime().call('agentd', 'listWaits', { query }),
    parts.collect(
      'model calls',
      runtime().call('modeld', 'listCalls', { query: { ...query, limit: 1 } }),
    ),
    parts.collect('usage', runtime().call('modeld', 'usage', { query: { task_id: id } })),
    parts.collect('tool calls', countToolCalls(runtime(), id)),
  ]);
  const took = readTaken(usage, made);
  const thread = await parts.collect(
    'thread',
    runtime().call('agentd', 'getThread', { params: { id: task.context_id } }),
  );
  const { missing } = parts;
  const changes = out.json ? [] : await describeWaitingChanges(runtime(), task);
  const disarmed = await readDisarmed(runtime(), task);
  const about = { trouble: describeTrouble(task, last?.calls[0]), took, thread: thread?.thread };
  out.print({ task, thread: thread?.thread, runs, waits, took, disarmed, missing }, () => [
    ...renderTask(task, about, out),
    ...runs.map((run) => renderRun(run)),
    ...waits.filter(({ status }) => status === 'open').map((wait) => renderWait(wait)),
    ...changes,
    ...describeDisarmed(task, disarmed),
    ...renderMissing(missing, out.paint),
    ...(task.result === null ? [] : ['', replaceControls(task.result)]),
    ...renderRehearsalNotice(task, out.paint),
  ]);
}

/** A failing model call is retried, which no other field shows. */
function describeTrouble(task: TaskView, call: ModelCallView | undefined): string | undefined {
  if (task.ended_at !== null || call?.status !== 'failed') return undefined;
  const why = toOneLine(String(call.error?.message ?? 'no reason recorded'));
  return `no response from model ${call.model}: ${why}; retrying (agentctl model list)`;
}

type Taken = { steps: number; tool_calls: number; tokens: number; cost_microusd: number };

const CALLS_COUNTED_MAX = 5_000;

async function countToolCalls(runtime: RuntimeClient, taskId: string): Promise<number> {
  let count = 0;
  let cursor: string | null = null;
  do {
    const query = {
      task_id: taskId as TaskView['id'],
      limit: 500,
      ...(cursor === null ? {} : { cursor }),
    };
    const page: { calls: unknown[]; cursor: string | null } = await runtime.call(
      'toold',
      'listCalls',
      { query },
    );
    count += page.calls.length;
    cursor = page.cursor;
  } while (cursor !== null && count < CALLS_COUNTED_MAX);
  return count;
}

/** Null where a daemon did not answer. */
function readTaken(
  usage: RouteResponse<typeof modeldRoutes.usage> | undefined,
  toolCalls: number | undefined,
): Taken | null {
  if (usage === undefined || toolCalls === undefined) return null;
  const { calls, usage: used, cost_microusd } = usage.total;
  const tokens = used.input_tokens + used.output_tokens;
  return { steps: calls, tool_calls: toolCalls, tokens, cost_microusd };
}

function formatTaken({ steps, tool_calls: calls, tokens, cost_microusd: cost }: Taken): string {
  const counts = [
    pluralize(steps, 'step'),
    pluralize(calls, 'tool call'),
    pluralize(tokens, 'token'),
  ];
  return [...counts, formatMoney(cost)].join(', ');
}

function renderTask(
  task: TaskView,
  about: { trouble: string | undefined; took: Taken | null; thread: ThreadView | undefined },
  { paint, columns }: Out,
): string[] {
  const { trouble, took: taken, thread } = about;
  const now = Date.now();
  const style = STYLES[task.status];
  const status = style === undefined ? task.status : paint(style, task.status);
  const why = task.reason === null ? '' : ` (${toOneLine(task.reason)})`;
  const took =
    task.ended_at === null
      ? undefined
      : `${formatRelative(task.ended_at, now)}, after ${formatElapsed(task.created_at, task.ended_at)}`;
  const error =
    task.error === null
      ? undefined
      : `${replaceControls(task.error.message)} (${task.error.code})\n${replaceControls(task.error.hint)}`;
  const inputs = task.inputs.map(({ kind, id, text }) => `${kind} ${toOneLine(id ?? text ?? '')}`);
  return renderFields(
    [
      ['task', task.id],
      ['goal', replaceControls(task.goal)],
      ['status', status + why],
      ['trouble', trouble === undefined ? undefined : paint('yellow', trouble)],
      ['agent', task.assigned_to ?? 'unassigned'],
      ['created by', `${task.created_by}, ${formatRelative(task.created_at, now)}`],
      ['parent', task.parent_task_id ?? undefined],
      ['retry of', task.retry_of ?? undefined],
      ['starts after', task.after.join('\n') || undefined],
      ['workspace', formatWorkspace(task)],
      ['thread', task.context_id + (thread === undefined ? '' : formatTurns(thread))],
      ['next move', thread === undefined ? undefined : formatNextMove(thread, task)],
      ['limits', formatLimits(task.limits)],
      ['deadline', task.deadline === null ? undefined : formatRelative(task.deadline, now)],
      ['inputs', inputs.join('\n') || undefined],
      ['marks', task.labels.join(', ') || undefined],
      ['took', taken === null ? undefined : formatTaken(taken)],
      ['ended', took],
      ['error', error],
      ['result in', task.result_ref ?? undefined],
      ['kept', formatHold(task.kept, now)],
      ['pruned', formatPruned(task.pruned)],
    ],
    paint,
    columns,
  );
}

function formatTurns({ turns, turns_max: max, stopped_by }: ThreadView): string {
  const by = stopped_by === null ? '' : `, ended by ${stopped_by}`;
  if (turns === 0) return by;
  return `, ${max === 0 ? pluralize(turns, 'turn') : `turn ${turns} of ${max}`} between agents${by}`;
}

/** Whose it is in the whole thread. */
function formatNextMove({ next_move: next }: ThreadView, task: TaskView): string {
  const owner = next.owner === 'person:*' ? 'any person' : next.owner;
  const where = next.task_id === task.id ? '' : ` (${next.task_id})`;
  return `${owner} ${next.why}${where}`;
}

function formatWorkspace(task: TaskView): string | undefined {
  const { workspace, workspace_mode, layer_task_id: own } = task;
  if (workspace === null) return undefined;
  if (workspace_mode !== 'layer') return `${workspace}, live`;
  if (own === undefined) return `${workspace}, changes stay in a layer until applied`;
  return `${workspace}, changes stay in the layer of ${own} until applied to its parent's`;
}

function formatHold(kept: TaskView['kept'], nowMs: number): string | undefined {
  if (kept === undefined) return undefined;
  const why = kept.reason === '' ? '' : `: ${toOneLine(kept.reason)}`;
  return `by ${kept.by}, ${formatRelative(kept.since, nowMs)}${why}`;
}

function formatPruned(pruned: TaskView['pruned']): string | undefined {
  const parts = Object.entries(pruned ?? {}).map(
    ([kind, at]) => `${kind.replace('_', ' ')} on ${at?.slice(0, 10)}`,
  );
  return parts.join(', ') || undefined;
}

const formatElapsed = (from: string, to: string): string =>
  formatSpan(Date.parse(to) - Date.parse(from));

function formatLimits(limits: TaskView['limits']): string | undefined {
  const parts = [
    limits.max_steps === undefined ? undefined : pluralize(limits.max_steps, 'step'),
    limits.max_tokens === undefined ? undefined : `${formatCount(limits.max_tokens)} tokens`,
    limits.max_cost_microusd === undefined ? undefined : formatMoney(limits.max_cost_microusd),
    limits.max_time_s === undefined ? undefined : formatSpan(limits.max_time_s * 1_000),
  ].filter((part) => part !== undefined);
  return parts.length === 0 ? undefined : `up to ${parts.join(', ')}`;
}

function renderRun(run: RunView): string {
  const woken = run.activations > 1 ? `, woken ${pluralize(run.activations - 1, 'time')}` : '';
  const crashed = run.crashes > 0 ? `, crashed ${pluralize(run.crashes, 'time')}` : '';
  return `run ${run.id} by ${run.agent}: ${run.outcome ?? run.status}${woken}${crashed}`;
}

function renderWait(wait: WaitView): string {
  if (wait.kind === 'question')
    return `waiting for an answer: "${toOneLine(wait.question ?? '')}"  ${formatAnswerCommand(wait)}`;
  if (wait.kind === 'approval') return `waiting for approval: ${formatAnswerCommand(wait)}`;
  const child = wait.child_task_id === null ? '' : ` task: ${wait.child_task_id}`;
  return `waiting for a ${wait.kind}${child}`;
}

export async function keep({ args, out, runtime }: Session): Promise<void> {
  const reason = args.text('reason');
  const kept = !args.flag('off');
  const answer = await runtime().call('agentd', 'keepTask', {
    params: { id: args.positionals[0]! },
    body: { kept, ...(reason === undefined ? {} : { reason }) },
  });
  const { root_task_id: root } = answer.task;
  out.print(answer, () => [
    kept ? `${root}: kept with its whole tree` : `${root}: released; its retention applies again`,
  ]);
}

export async function cancel({ args, out, runtime }: Session): Promise<void> {
  const reason = args.text('reason');
  const answer = await runtime().call('agentd', 'cancelTask', {
    params: { id: args.positionals[0]! },
    body: reason === undefined ? {} : { reason },
  });
  out.print(answer, () => [`${answer.task.id}: ${answer.task.status}`]);
}
