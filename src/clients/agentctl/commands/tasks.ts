// agentctl task list, show, cancel.
import type { RunView, TaskView, WaitView } from '../../../wire/agentd.ts';
import type { ModelCallView } from '../../../wire/modeld.ts';
import type { Session } from '../command.ts';
import { makeParts, missingLines } from '../missing.ts';
import type { Out, Style } from '../out.ts';
import { count, money, relative, some, span } from '../show/amounts.ts';
import { oneLine, plain } from '../show/plain.ts';
import { renderFields, renderTable } from '../show/table.ts';
import { rehearsalLines } from '../timeline/outcome.ts';
import { answerWith } from '../timeline/progress.ts';

const STYLES: Partial<Record<TaskView['status'], Style>> = {
  completed: 'green',
  failed: 'red',
  rejected: 'red',
  working: 'cyan',
  waiting: 'yellow',
  blocked: 'yellow',
  canceled: 'dim',
};

const HEADS = [
  { title: 'ID' },
  { title: 'STATUS' },
  { title: 'AGENT', least: 6 },
  { title: 'CREATED' },
  { title: 'GOAL', least: 8 },
] as const;

const statusCell = (status: TaskView['status']) => {
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
  const answer = await runtime().ask('agentd', 'listTasks', { query });
  // A wrong name is told as one, and not as an agent without tasks.
  if (answer.tasks.length === 0 && query.agent !== undefined)
    await runtime().ask('agentd', 'getAgent', { params: { name: query.agent } });
  out.print(answer, () => {
    if (answer.tasks.length === 0) return ['No tasks.'];
    const now = Date.now();
    const rows = answer.tasks.map((task) => [
      task.id,
      statusCell(task.status),
      task.assigned_to ?? '–',
      relative(task.created_at, now),
      (task.parent_task_id === null ? '' : '↳ ') + task.goal,
    ]);
    const more = answer.cursor === null ? [] : [`More: --cursor ${answer.cursor}`];
    return [...renderTable(HEADS, rows, out), ...more];
  });
}

export async function show({ args, out, runtime }: Session): Promise<void> {
  const id = args.words[0]!;
  const query = { task_id: id, limit: 100 };
  const parts = makeParts();
  const [{ task }, { runs }, { waits }, last] = await Promise.all([
    runtime().ask('agentd', 'getTask', { params: { id } }),
    runtime().ask('agentd', 'listRuns', { query }),
    runtime().ask('agentd', 'listWaits', { query }),
    parts.ask(
      'model calls',
      runtime().ask('modeld', 'listCalls', { query: { ...query, limit: 1 } }),
    ),
  ]);
  const { missing } = parts;
  out.print({ task, runs, waits, missing }, () => [
    ...taskFields(task, troubleText(task, last?.calls[0]), out),
    ...runs.map((run) => runLine(run)),
    ...waits.filter(({ status }) => status === 'open').map((wait) => waitLine(wait)),
    ...missingLines(missing, out.paint),
    ...(task.result === null ? [] : ['', plain(task.result)]),
    ...rehearsalLines(task, out.paint),
  ]);
}

/** A model that does not answer is asked again and again: nothing else of the task shows it. */
function troubleText(task: TaskView, call: ModelCallView | undefined): string | undefined {
  if (task.ended_at !== null || call?.status !== 'failed') return undefined;
  const why = oneLine(String(call.error?.message ?? 'no reason was recorded'));
  return `no answer from the model ${call.model}: ${why}; it is asked again (agentctl model list)`;
}

function taskFields(
  task: TaskView,
  trouble: string | undefined,
  { paint, columns }: Out,
): string[] {
  const now = Date.now();
  const style = STYLES[task.status];
  const status = style === undefined ? task.status : paint(style, task.status);
  const why = task.reason === null ? '' : ` (${oneLine(task.reason)})`;
  const took =
    task.ended_at === null
      ? undefined
      : `${relative(task.ended_at, now)}, after ${tookText(task.created_at, task.ended_at)}`;
  const error =
    task.error === null
      ? undefined
      : `${plain(task.error.message)} (${task.error.code})\n${plain(task.error.hint)}`;
  const inputs = task.inputs.map(({ kind, id, text }) => `${kind} ${oneLine(id ?? text ?? '')}`);
  return renderFields(
    [
      ['task', task.id],
      ['goal', plain(task.goal)],
      ['status', status + why],
      ['trouble', trouble === undefined ? undefined : paint('yellow', trouble)],
      ['agent', task.assigned_to ?? 'nobody yet'],
      ['asked by', `${task.created_by}, ${relative(task.created_at, now)}`],
      ['part of', task.parent_task_id ?? undefined],
      ['again after', task.retry_of ?? undefined],
      ['starts after', task.after.join('\n') || undefined],
      ['workspace', task.workspace ?? undefined],
      ['thread', task.context_id],
      ['limits', limitsText(task.limits)],
      ['deadline', task.deadline === null ? undefined : relative(task.deadline, now)],
      ['inputs', inputs.join('\n') || undefined],
      ['marks', task.labels.join(', ') || undefined],
      ['ended', took],
      ['error', error],
      ['result in', task.result_ref ?? undefined],
    ],
    paint,
    columns,
  );
}

const tookText = (from: string, to: string): string => span(Date.parse(to) - Date.parse(from));

function limitsText(limits: TaskView['limits']): string | undefined {
  const parts = [
    limits.max_steps === undefined ? undefined : some(limits.max_steps, 'step'),
    limits.max_tokens === undefined ? undefined : `${count(limits.max_tokens)} tokens`,
    limits.max_cost_microusd === undefined ? undefined : money(limits.max_cost_microusd),
    limits.max_time_s === undefined ? undefined : span(limits.max_time_s * 1_000),
  ].filter((part) => part !== undefined);
  return parts.length === 0 ? undefined : `at most ${parts.join(', ')}`;
}

function runLine(run: RunView): string {
  const woken = run.activations > 1 ? `, woken ${some(run.activations - 1, 'time')}` : '';
  const crashed = run.crashes > 0 ? `, broke off ${some(run.crashes, 'time')}` : '';
  return `run ${run.id} by ${run.agent}: ${run.outcome ?? run.status}${woken}${crashed}`;
}

function waitLine(wait: WaitView): string {
  if (wait.kind === 'question')
    return `waits for an answer: "${oneLine(wait.question ?? '')}"  ${answerWith(wait)}`;
  if (wait.kind === 'approval') return `waits for the yes of a person: ${answerWith(wait)}`;
  const child = wait.child_task_id === null ? '' : ` task: ${wait.child_task_id}`;
  return `waits for a ${wait.kind}${child}`;
}

export async function cancel({ args, out, runtime }: Session): Promise<void> {
  const reason = args.text('reason');
  const answer = await runtime().ask('agentd', 'cancelTask', {
    params: { id: args.words[0]! },
    body: reason === undefined ? {} : { reason },
  });
  out.print(answer, () => [`${answer.task.id}: ${answer.task.status}`]);
}
