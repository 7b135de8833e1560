// agentctl box list, rm and logs.
import type { TaskView } from '../../../wire/agentd.ts';
import { type BoxTask, findBoxTask, listBoxTasks } from '../box/find-box.ts';
import type { Session } from '../command.ts';
import { confirm } from '../input.ts';
import { makePartialResult, renderMissing } from '../missing.ts';
import type { Style } from '../out.ts';
import type { RuntimeClient } from '../runtime.ts';
import { dropAttempts, renderAgentEvent } from '../show/agent-event.ts';
import { formatMoney, formatRelative, formatSize, pluralize } from '../show/amounts.ts';
import { replaceControls, toOneLine } from '../show/plain.ts';
import { renderFields, renderTable } from '../show/table.ts';
import { readTaskEvents } from './audit-read.ts';

const HEADERS = [
  { title: 'BOX', minWidth: 'distinct' },
  { title: 'AGENT', minWidth: 6 },
  { title: 'STATUS' },
  { title: 'SINCE' },
  { title: 'COST', align: 'right' },
  { title: 'DIRECTORY', minWidth: 9 },
  { title: 'COMMAND', minWidth: 7 },
] as const;
/** The directories that the person's programs have in a box: the table has no room for them. */
const BOUND = /\/agentd\/programs\/(?:[^\s/]+\/)*/g;
const LIMIT_DEFAULT = 50;
/** Removing many files takes longer than an answer usually may. */
const REMOVE_DEADLINE_MS = 600_000;

type BoxView = {
  task_id: string;
  name: string | null;
  agent: string | null;
  workspace: string | null;
  workspace_mode: TaskView['workspace_mode'];
  command: string;
  status: 'running' | TaskView['status'];
  since: string;
  ended_at: string | null;
  /** Null when modeld did not answer. */
  cost_microusd: number | null;
};

const isRunning = (task: BoxTask): boolean => task.ended_at === null;

function toView(task: BoxTask, cost: number | undefined): BoxView {
  return {
    task_id: task.id,
    name: task.program.name ?? null,
    agent: task.assigned_to,
    workspace: task.workspace,
    workspace_mode: task.workspace_mode,
    command: task.goal,
    status: isRunning(task) ? 'running' : task.status,
    since: task.created_at,
    ended_at: task.ended_at,
    cost_microusd: cost ?? null,
  };
}

async function readCost(runtime: RuntimeClient, id: BoxTask['id']): Promise<number> {
  const { total } = await runtime.call('modeld', 'usage', { query: { task_id: id } });
  return total.cost_microusd;
}

export async function list({ args, env, out, runtime }: Session): Promise<void> {
  const limit = args.number('limit') ?? LIMIT_DEFAULT;
  const query = args.flag('all') ? { limit } : { limit, status: 'working' as const };
  const { boxes: tasks, cursor } = await listBoxTasks(runtime(), query);
  const parts = makePartialResult();
  const boxes: BoxView[] = [];
  for (const task of tasks) {
    // One failure is enough to know that modeld does not answer.
    const cost = parts.missing.length > 0 ? undefined : readCost(runtime(), task.id);
    boxes.push(toView(task, cost && (await parts.collect('cost', cost))));
  }
  const { missing } = parts;
  out.print({ boxes, missing }, () => {
    if (boxes.length === 0)
      return [args.flag('all') ? 'No programs.' : 'No programs run. Ended ones: --all'];
    const now = Date.now();
    const rows = boxes.map((box, i) => [
      chooseName(box, boxes.slice(0, i)),
      box.agent ?? '–',
      formatStatus(box.status),
      formatRelative(box.since, now),
      box.cost_microusd === null ? '–' : formatMoney(box.cost_microusd),
      shorten(box.workspace, env.HOME),
      box.command.replaceAll(BOUND, ''),
    ]);
    const more = cursor === null ? [] : [`There are more: --limit ${limit * 2}`];
    return [...renderTable(HEADERS, rows, out), ...more, ...renderMissing(missing, out.paint)];
  });
}

/** The word that other commands take for it: of several with a name, that is the newest. */
const chooseName = (box: BoxView, newer: readonly BoxView[]): string =>
  box.name === null || newer.some(({ name }) => name === box.name) ? box.task_id : box.name;

const STYLES: Partial<Record<BoxView['status'], Style>> = {
  running: 'cyan',
  completed: 'green',
  failed: 'red',
};

const formatStatus = (status: BoxView['status']) => {
  const style = STYLES[status];
  return style === undefined ? status : { text: status, style };
};

function shorten(dir: string | null, home: string | undefined): string {
  if (dir === null) return '–';
  if (home === undefined || home === '' || home === '/') return dir;
  return dir === home || dir.startsWith(`${home}/`) ? `~${dir.slice(home.length)}` : dir;
}

export async function rm(session: Session): Promise<void> {
  const { args, out, runtime } = session;
  const task = await findBoxTask(runtime(), args.positionals[0]!);
  const what = `${task.id} (${toOneLine(task.goal)})`;
  if (!isRunning(task)) return removeHome(session, task);
  await confirmUnlessForced(session, `Cancel ${what}, which is running?`, task);
  const params = { id: task.id };
  const { task: after } = await runtime().call('agentd', 'cancelTask', { params, body: {} });
  out.print({ task: after, home: null }, () => [
    `${after.id}: ${after.status}.`,
    ...(task.program.home === undefined
      ? []
      : [`The home of ${describeHome(task)} is still there: agentctl box rm ${task.id}`]),
  ]);
}

async function removeHome(session: Session, task: BoxTask): Promise<void> {
  const { out, runtime } = session;
  const rest = `What is recorded of ${task.id} stays: agentctl prune --task ${task.id}`;
  const { home: id } = task.program;
  if (id === undefined)
    return out.print({ task, home: null }, () => [
      'It had no home that outlasts it: it was started without a directory and without --name.',
      rest,
    ]);
  const name = describeHome(task);
  await confirmUnlessForced(
    session,
    `Remove the home of ${name}, with the settings and sessions that are in it?`,
    task,
  );
  const removing = runtime().call(
    'sandboxd',
    'removeHome',
    { params: { id } },
    { deadlineMs: REMOVE_DEADLINE_MS },
  );
  const home = await removing;
  out.print({ task, home: { id, ...home } }, () => [
    home.removed
      ? `Removed the home of ${name}: ${pluralize(home.entries, 'entry', 'entries')}, ${formatSize(home.bytes)}.`
      : `There is no home of ${name}.`,
    rest,
  ]);
}

const confirmUnlessForced = async (
  { args }: Session,
  question: string,
  task: BoxTask,
): Promise<void> => {
  if (!args.flag('force')) await confirm(question, `agentctl box rm ${task.id} --force`);
};

function describeHome({ assigned_to: agent, program, workspace }: BoxTask): string {
  const of = program.name === undefined ? `in ${workspace}` : `with the name ${program.name}`;
  return `the programs of ${agent} ${of}`;
}

export async function logs({ args, out, runtime }: Session): Promise<void> {
  const task = await findBoxTask(runtime(), args.positionals[0]!);
  const parts = makePartialResult();
  const cost = await parts.collect('cost', readCost(runtime(), task.id));
  const box = { ...toView(task, cost), marks: task.labels, limits: task.limits };
  const { events, archived } = await readTaskEvents(runtime(), task.id, args.number('lines'));
  const { missing } = parts;
  out.print({ box, events, archived, missing }, () => [
    ...renderFields(
      [
        ['program', replaceControls(task.goal)],
        ['task', task.id],
        ['name', box.name ?? undefined],
        ['directory', describeDirectory(task)],
        ['hosts', task.program.hosts?.join('\n')],
        ['marks', task.labels.join(', ')],
        ['cost', describeCost(task, cost)],
        ['end', describeEnd(task)],
      ],
      out.paint,
      out.columns,
    ),
    '',
    ...dropAttempts(events).map((event) =>
      renderAgentEvent(event, { nowMs: Date.now(), columns: out.columns, paint: out.paint }),
    ),
    ...(archived.length === 0 ? [] : [`${pluralize(archived.length, 'older event')} archived.`]),
    '',
    'What it printed and what was typed is not kept.',
    ...renderMissing(missing, out.paint),
  ]);
}

const describeDirectory = ({ workspace, workspace_mode: mode }: BoxTask): string =>
  workspace === null
    ? 'an empty one of its own'
    : `${workspace}, ${mode === 'layer' ? 'on a layer' : 'live'}`;

function describeCost({ limits }: BoxTask, cost: number | undefined): string | undefined {
  if (cost === undefined) return undefined;
  const most = limits.max_cost_microusd;
  return `${formatMoney(cost)}${most === undefined ? '' : ` of up to ${formatMoney(most)}`}`;
}

function describeEnd({ ended_at: at, status, reason }: BoxTask): string {
  if (at === null) return 'it is running';
  const why = reason === null ? '' : ` (${toOneLine(reason)})`;
  return `${status}${why}, ${formatRelative(at, Date.now())}`;
}
