// agentctl board, task update and task why.
import type { BoardTask, BoardView, TaskMatch, UpdateTask } from '../../../wire/agentd.ts';
import { fault } from '../../../wire/errors.ts';
import type { Session } from '../command.ts';
import { readTextArgument } from '../input.ts';
import type { Out, Style } from '../out.ts';
import { formatMoney, formatRelative, pluralize } from '../show/amounts.ts';
import { toOneLine } from '../show/plain.ts';
import { renderTable } from '../show/table.ts';
import { measureWidth, pad, truncate } from '../show/width.ts';

export async function board({ args, out, runtime }: Session): Promise<void> {
  const hours = args.number('hours');
  const query = { limit: args.number('limit') ?? 20, ...(hours === undefined ? {} : { hours }) };
  const answer = await runtime().call('agentd', 'getBoard', { query });
  out.print(answer, () => renderBoard(answer.board, out));
}

const COLUMNS_DEFAULT = 80;
const COLUMN_WIDTH_MIN = 14;
const GAP = 1;
/** The time in an id; more of it where tasks of one moment are shown. */
const ID_CHARS_MIN = 10;

const ENDED_MARKS: Record<string, { mark: string; style: Style }> = {
  completed: { mark: '✓', style: 'green' },
  failed: { mark: '✗', style: 'red' },
  rejected: { mark: '✗', style: 'red' },
  canceled: { mark: '–', style: 'dim' },
};

type BoardLine = { text: string; style?: Style };

/** Side by side, as wide as the terminal; below each other where that is too narrow. */
export function renderBoard(
  { columns: all }: BoardView,
  { columns: terminal, paint }: Pick<Out, 'columns' | 'paint'>,
): string[] {
  const total = Number.isFinite(terminal) ? terminal : COLUMNS_DEFAULT;
  if (all.every(({ count }) => count === 0))
    return ['The board is empty.', 'Put a task on it: agentctl task add "…"'];
  const widths = divideWidth(all, total);
  const isNarrow = all.some(({ tasks }, i) => tasks.length > 0 && widths[i]! < COLUMN_WIDTH_MIN);
  const shorten = makeShortener(all.flatMap(({ tasks }) => tasks.map(({ id }) => id)));
  const lists = all.map((column, i) =>
    renderColumn(column, isNarrow ? total : widths[i]!, shorten),
  );
  const print = ({ text, style }: BoardLine, columns: number): string => {
    const padded = pad(text, columns);
    return style === undefined ? padded : paint(style, padded);
  };
  if (isNarrow) return lists.flatMap((list) => list.map((line) => print(line, 0).trimEnd()));
  const isCut = all.some(({ tasks }, i) =>
    tasks.some(({ id }) => shorten(id).length + 2 > widths[i]!),
  );
  const footer = isCut ? ['', paint('dim', 'Whole ids: agentctl task list')] : [];
  const height = Math.max(...lists.map(({ length }) => length));
  const rows = Array.from({ length: height }, (_, row) =>
    lists
      .map((list, i) => print(list[row] ?? { text: '' }, widths[i]!))
      .join(' '.repeat(GAP))
      .trimEnd(),
  );
  return [...rows, ...footer];
}

/** An empty column is as wide as its title; the others share the rest. */
function divideWidth(columns: BoardView['columns'], total: number): number[] {
  const titles = columns.map((column) =>
    column.tasks.length > 0 ? 0 : measureWidth(formatTitle(column)),
  );
  const gaps = GAP * (columns.length - 1);
  const rest = total - gaps - titles.reduce((sum, width) => sum + width, 0);
  const share = Math.floor(rest / titles.filter((width) => width === 0).length);
  return titles.map((width) => width || share);
}

/** The beginning that tells each shown id apart, which every command takes for the id. */
function makeShortener(ids: readonly string[]): (id: string) => string {
  const texts = ids.map((id) => id.slice(id.indexOf('_') + 1));
  let chars = ID_CHARS_MIN;
  while (new Set(texts.map((text) => text.slice(0, chars))).size < texts.length) chars++;
  return (id) => id.slice(id.indexOf('_') + 1).slice(0, chars);
}

type Shorten = (id: string) => string;

const formatTitle = ({ name, count, more, tasks }: BoardView['columns'][number]): string =>
  `${name.toUpperCase()} ${count}${more && count === tasks.length ? '+' : ''}`;

function renderColumn(column: BoardView['columns'][number], width: number, shorten: Shorten) {
  const { count, more, tasks } = column;
  const lines: BoardLine[] = [
    { text: truncate(formatTitle(column), width), style: 'bold' },
    { text: '─'.repeat(Math.min(width, 40)), style: 'dim' },
  ];
  for (const task of tasks) lines.push(...renderCard(task, width, shorten));
  if (more) {
    const rest = count > tasks.length ? `+ ${count - tasks.length} more` : '+ more: --limit';
    lines.push({ text: truncate(rest, width), style: 'dim' });
  }
  return lines;
}

function renderCard(task: BoardTask, width: number, shorten: Shorten): BoardLine[] {
  const ended = ENDED_MARKS[task.status];
  const head = `${ended === undefined ? '' : `${ended.mark} `}${toOneLine(task.goal)}`;
  const again = task.attempt > 1 ? `×${task.attempt} ` : '';
  return [
    { text: truncate(head, width), ...(ended === undefined ? {} : { style: ended.style }) },
    { text: truncate(`  ${again}${task.assigned_to ?? 'no agent yet'}`, width) },
    { text: truncate(`  ${shorten(task.id)}`, width), style: 'dim' },
  ];
}

export async function update({ args, out, runtime }: Session): Promise<void> {
  const after = args.list('after');
  const result = args.text('result');
  if (result !== undefined && args.text('status') === undefined)
    throw fault('bad_usage', '--result is given without --status', {
      hint: 'Say how it ends: --status completed, or --status failed.',
    });
  if (after.length > 0 && args.flag('after-nothing'))
    throw fault('bad_usage', '--after and --after-nothing contradict each other');
  const body = JSON.parse(
    JSON.stringify({
      agent: args.text('owner'),
      priority: args.number('priority'),
      after: args.flag('after-nothing') ? [] : after.length === 0 ? undefined : after,
      on_failure: args.text('on-failure'),
      attempts_max: args.number('attempts'),
      status: args.text('status'),
      result: result === undefined ? undefined : readTextArgument(result),
    }),
  ) as UpdateTask;
  if (Object.keys(body).length === 0)
    throw fault('bad_usage', 'nothing to change is given', {
      hint: 'See agentctl task update --help.',
    });
  const answer = await runtime().call('agentd', 'updateTask', {
    params: { id: args.positionals[0]! },
    body,
  });
  out.print(answer, () => {
    const { id, assigned_to, status, priority } = answer.task;
    return [`${id} for ${assigned_to ?? 'no agent yet'}: ${status}, priority ${priority}`];
  });
}

export async function why({ args, out, runtime }: Session): Promise<void> {
  const params = { id: args.positionals[0]! };
  const answer = await runtime().call('agentd', 'getTaskMatch', { params });
  out.print(answer, () => {
    const { task, match } = answer;
    if (match === null)
      return [`${task.id} was given to ${task.assigned_to ?? 'no agent'} by ${task.created_by}.`];
    return [`${task.id}: ${describeChoice(match)}`, ...renderCandidates(match, out)];
  });
}

function describeChoice({
  agent,
  reason,
  candidates,
  needs,
  tried,
  decided_at,
}: TaskMatch): string {
  const [first, second] = candidates;
  const lead =
    first === undefined || second === undefined || second.score === 0
      ? ''
      : `, ${(first.score / second.score).toFixed(1)} times the next`;
  const texts: Record<TaskMatch['reason'], string> = {
    named: `${agent} was named by the person who created it`,
    only: `${agent} is the only agent that may do it`,
    score: `${agent} matches best${lead}`,
    tie: `${agent} and others match equally; load, cost and success decided`,
    person: `a person chose ${agent}`,
    next: `${agent} is the next best after ${tried.join(', ')} failed`,
    unassigned: 'no agent matches clearly; a person is asked (agentctl questions)',
  };
  const needed = needs.length === 0 ? '' : ` (needs ${needs.join(', ')})`;
  return `${texts[reason]}${needed}, ${formatRelative(decided_at, Date.now())}`;
}

const HEADERS = [
  { title: 'AGENT' },
  { title: 'SCORE', align: 'right' },
  { title: 'LOAD', align: 'right' },
  { title: 'COST', align: 'right' },
  { title: 'DONE', align: 'right' },
  { title: 'WORDS', minWidth: 10 },
] as const;

function renderCandidates({ candidates, excluded }: TaskMatch, out: Out): string[] {
  const rows = candidates.map((one) => [
    one.agent,
    one.score.toFixed(2),
    one.load.toFixed(1),
    one.median_cost_microusd === null ? '–' : formatMoney(one.median_cost_microusd),
    `${one.accepted} of ${one.accepted + one.failed}`,
    one.words.map(({ word, score }) => `${word} ${score.toFixed(1)}`).join(', '),
  ]);
  const lacking = excluded.map(({ agent, lacks }) => `${agent} lacks ${lacks.join(', ')}`);
  return [
    '',
    ...renderTable(HEADERS, rows, out),
    ...(lacking.length === 0
      ? []
      : [
          '',
          `${pluralize(lacking.length, 'agent')} may not:`,
          ...lacking.map((one) => `  ${one}`),
        ]),
  ];
}
